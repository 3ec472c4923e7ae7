//! Checks of the places that Lucarne will write to: permissions and file attributes.
//!
//! The checks write nothing. Full tiles and issuers may be immutable, because they are never
//! rewritten. Directories and replaced files must not be immutable.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, IFlags, access, ioctl_getflags};
use rustix::io::Errno;

use lucarne_storage::{AssetError, ObjectStoreConfig, object};

use super::findings::{Findings, Verdict};
use crate::config::{DataPlace, LockPlace, LogSettings};

/// Checks the data, the cache and the lock of the log.
pub(super) async fn look(log: &LogSettings, lock: &LockPlace, findings: &mut Findings) {
    let mut written = vec![existing(&log.cache.value)];
    let mut replaced = Vec::new();
    if let LockPlace::Sqlite(path) = lock {
        // SQLite creates files beside the database.
        written.extend([path.clone(), existing(path.parent().unwrap_or(path))]);
    }
    match &log.data.value {
        DataPlace::Bucket(config) => bucket(config, findings).await,
        DataPlace::Directory(directory) => {
            written.push(directory.clone());
            for below in ["tile", "issuer", "staging", ".lucarne"] {
                edge(&directory.join(below), &mut written);
            }
            replaced = ["checkpoint", "log.v3.json"]
                .map(|file| directory.join(file))
                .to_vec();
        }
    }
    written.retain(|place| place.exists());
    replaced.retain(|place| place.exists());
    writable(&written, findings);
    attributes(written.iter().chain(&replaced), findings);
    cache(log, findings);
}

/// Checks the cache before following. While the old software runs, Lucarne writes only to the
/// cache, so the cache must be outside the directory of the old software.
pub(super) fn look_beside(log: &LogSettings, findings: &mut Findings) {
    let places = [existing(&log.cache.value)];
    writable(&places, findings);
    match within(log) {
        None => findings.right("cache", &elsewhere(log)),
        Some(directory) => findings.refused(
            "cache",
            &format!(
                "{} is in {}, which the old software uses: configure another directory (`cache`)",
                log.cache.value.display(),
                directory.display()
            ),
        ),
    }
}

/// Checks that the cache is not among the public files of the log.
fn cache(log: &LogSettings, findings: &mut Findings) {
    match within(log) {
        None => findings.right("cache", &elsewhere(log)),
        Some(directory) if resolved(&log.cache.value).starts_with(directory.join(".lucarne")) => {
            findings.right("cache", "in .lucarne, which belongs to Lucarne");
        }
        Some(directory) => findings.refused(
            "cache",
            &format!(
                "{} is among the public files of {}, which a read server serves and the old \
                 software reads: configure another directory (`cache`), or omit `cache` for a \
                 directory in .lucarne",
                log.cache.value.display(),
                directory.display()
            ),
        ),
    }
}

fn elsewhere(log: &LogSettings) -> String {
    format!("{}, outside the log's data", log.cache.value.display())
}

/// Returns the log's directory, if it contains the cache.
fn within(log: &LogSettings) -> Option<PathBuf> {
    let directory = resolved(log.data.value.directory()?);
    resolved(&log.cache.value)
        .starts_with(&directory)
        .then_some(directory)
}

/// Resolves the links of the existing part of the path.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let (Ok(found), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return found.join(rest);
        }
    }
    path
}

/// Tests with a put that must fail whether the bucket is writable.
async fn bucket(config: &ObjectStoreConfig, findings: &mut Findings) {
    match object::has_conditions(config).await {
        Ok(true) => {
            findings.right("bucket", "the bucket is writable, and supports conditional puts");
        }
        Ok(false) => findings.add(
            "bucket",
            Verdict::Noted,
            "the bucket is writable, but ignores the conditions of puts: another publishing process \
             is detected one round later",
        ),
        Err(error @ AssetError::Refused { .. }) => findings.refused("bucket", &error.to_string()),
        Err(error) => findings.add("bucket", Verdict::Unknown, &error.to_string()),
    }
    findings.add(
        "retention",
        Verdict::Noted,
        "a bucket has no immutable files. Not checked: a retention policy or a hold may prevent \
         the replacement of `checkpoint` and the removal of superseded partial tiles",
    );
}

/// Returns the path itself or its closest existing parent directory.
fn existing(path: &Path) -> PathBuf {
    let mut above = path.ancestors();
    let found = above.find(|path| path.exists());
    found.unwrap_or(Path::new(".")).to_owned()
}

/// Adds the directories at the right edge of the tree. New files will appear there.
fn edge(directory: &Path, places: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    places.push(directory.to_owned());
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let entries = entries.flatten().filter(is_directory);
    let mut below: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    if !directory.ends_with("tile") {
        below.sort();
        let is_partial = |path: &PathBuf| path.extension().is_some_and(|end| end == "p");
        let (partial, whole): (Vec<_>, Vec<_>) = below.into_iter().partition(is_partial);
        below = whole.into_iter().next_back().into_iter().collect();
        below.extend(partial.into_iter().next_back());
    }
    for directory in below {
        edge(&directory, places);
    }
}

fn writable(places: &[PathBuf], findings: &mut Findings) {
    let mut refused = Vec::new();
    for place in places {
        let needed = if place.is_dir() {
            Access::WRITE_OK | Access::EXEC_OK
        } else {
            Access::WRITE_OK
        };
        if let Err(error) = access(place.as_path(), needed) {
            refused.push(format!("{}: {error}", place.display()));
        }
    }
    if refused.is_empty() {
        findings.right("writable", "by this user");
    } else {
        findings.add(
            "writable",
            Verdict::Refused,
            &format!(
                "{}. Run this command and `lucarne serve` as the owner of the files, or change the \
                 owner",
                refused.join("; ")
            ),
        );
    }
}

fn attributes<'p>(places: impl Iterator<Item = &'p PathBuf>, findings: &mut Findings) {
    let (mut fixed, mut unseen) = (Vec::new(), Vec::new());
    for place in places {
        match flags(place) {
            Ok(flags) if flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND) => {
                fixed.push(place.display().to_string());
            }
            Ok(_) => {}
            Err(error) => unseen.push(format!("{}: {error}", place.display())),
        }
    }
    if !fixed.is_empty() {
        let why = format!(
            "set on files that must change: run `chattr -i -a {}`",
            fixed.join(" ")
        );
        findings.add("immutable", Verdict::Refused, &why);
    } else if !unseen.is_empty() {
        findings.add("immutable", Verdict::Unknown, &unseen.join("; "));
    } else {
        findings.right("immutable", "not set on any file that must change");
    }
}

/// Returns the attributes of a file; empty if the file system does not support them.
fn flags(path: &Path) -> std::io::Result<IFlags> {
    let file = File::open(path)?;
    match ioctl_getflags(&file) {
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(IFlags::empty()),
        flags => Ok(flags?),
    }
}

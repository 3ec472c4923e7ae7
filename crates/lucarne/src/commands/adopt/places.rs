//! The places that Lucarne will write to: that it may, and that nothing there has an
//! attribute that forbids it.
//!
//! Nothing is tried out by writing. Full tiles and issuers may be immutable, for
//! nobody ever writes them again; directories and what is replaced may not.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, IFlags, access, ioctl_getflags};
use rustix::io::Errno;

use super::preflight::{Findings, Verdict};
use crate::config::{DataPlace, LogSettings};

/// Looks at the directory and the cache of the log.
pub(super) fn look(log: &LogSettings, findings: &mut Findings) {
    let mut places = vec![existing(&log.cache.value)];
    match &log.data.value {
        DataPlace::Bucket(_) => findings.right(
            "bucket",
            "whether it can be written is not tried: the first round tells",
        ),
        DataPlace::Directory(directory) => {
            places.push(directory.clone());
            for below in ["tile", "issuer", "staging", ".lucarne"] {
                edge(&directory.join(below), &mut places);
            }
            for replaced in ["checkpoint", "log.v3.json"] {
                places.push(directory.join(replaced));
            }
        }
    }
    places.retain(|place| place.exists());
    writable(&places, findings);
    attributes(&places, findings);
}

/// The directory, or the one in which it would be made.
fn existing(path: &Path) -> PathBuf {
    let mut above = path.ancestors();
    let found = above.find(|path| path.exists());
    found.unwrap_or(Path::new(".")).to_owned()
}

/// Adds the directories in which something new may come: those of the right edge.
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
    for place in places.iter().filter(|place| place.is_dir()) {
        if let Err(error) = access(place.as_path(), Access::WRITE_OK | Access::EXEC_OK) {
            refused.push(format!("{}: {error}", place.display()));
        }
    }
    match refused.is_empty() {
        true => findings.right("writable", "by this user"),
        false => findings.add(
            "writable",
            Verdict::Refused,
            &format!(
                "{}. Run this, and `lucarne serve`, as the user who owns them, or give them to that user",
                refused.join("; ")
            ),
        ),
    }
}

fn attributes(places: &[PathBuf], findings: &mut Findings) {
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
            "set on what has to change: `chattr -i -a {}`",
            fixed.join(" ")
        );
        findings.add("immutable", Verdict::Refused, &why);
    } else if !unseen.is_empty() {
        findings.add("immutable", Verdict::Untold, &unseen.join("; "));
    } else {
        findings.right("immutable", "not set on anything that has to change");
    }
}

/// The attributes of a file; none where the file system has no such thing.
fn flags(path: &Path) -> std::io::Result<IFlags> {
    let file = File::open(path)?;
    match ioctl_getflags(&file) {
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(IFlags::empty()),
        flags => Ok(flags?),
    }
}

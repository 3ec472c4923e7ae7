//! Detection of other processes that have files of a log open, such as the former log software if
//! it was not stopped, or only paused (SIGSTOP).

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::AssetError;

/// The directory of TesseraCT's deduplication index. Its database (Badger) holds an flock on the
/// directory during the lifetime of the process, and does not start if the lock is taken.
const TESSERACT: &str = ".state/antispam";
/// The file with the process ID in this directory.
const TESSERACT_PID: &str = "LOCK";
/// Directories of log software. Readers open no files here.
const PRIVATE: [&str; 3] = [".state", "staging", ".lucarne"];

/// A process that has a file of the log open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Name of the program.
    pub name: String,
    /// Path of an open file of the log.
    pub file: PathBuf,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pid, name, file } = self;
        write!(
            f,
            "process {pid} ({name}), which has {} open",
            file.display()
        )
    }
}

/// The result of a search for processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// The processes found, without this process.
    pub found: Vec<Holder>,
    /// Number of processes whose files this user may not see.
    pub unseen: usize,
}

/// Searches `/proc` for other processes that have one of these files open: any file of the log in
/// `directory` for writing, a private file of the log software, or one of `files`. Finds nothing on
/// systems without `/proc`.
pub fn holders(directory: &Path, files: &[PathBuf]) -> Holders {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let directory = real(directory);
    let files: Vec<PathBuf> = files.iter().map(|file| real(file)).collect();
    let is_held = |path: &Path, writes: bool| match path.strip_prefix(&directory) {
        Ok(inside) => writes || PRIVATE.iter().any(|private| inside.starts_with(private)),
        Err(_) => files.iter().any(|file| file == path),
    };
    let mut holders = Holders::default();
    for pid in other_processes() {
        match open_file(pid, is_held) {
            Ok(None) => {}
            Ok(Some(file)) => holders.found.push(Holder {
                pid,
                name: name(pid),
                file,
            }),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => holders.unseen += 1,
            // The process has ended.
            Err(_) => {}
        }
    }
    holders
}

fn other_processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| *pid != std::process::id())
}

fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns the first open file of the process that satisfies `is_held`.
fn open_file(pid: u32, is_held: impl Fn(&Path, bool) -> bool) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        let Ok(path) = fs::read_link(entry.path()) else {
            // The file was closed in the meantime.
            continue;
        };
        let number = entry.file_name();
        let writes = || is_open_to_write(pid, &number.to_string_lossy());
        if path.is_absolute() && (is_held(&path, false) || is_held(&path, true) && writes()) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Reads the access mode: the last two bits of the flags, in octal.
fn is_open_to_write(pid: u32, number: &str) -> bool {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 0o3 != 0)
}

/// Locks TesseraCT's part of the directory, so that TesseraCT cannot start; `None` if there is no
/// such part.
///
/// # Errors
/// [`AssetError::InUse`] if TesseraCT runs or is paused.
pub(super) fn hold_tesseract(directory: &Path) -> Result<Option<File>, AssetError> {
    let path = directory.join(TESSERACT);
    let failed = |error| AssetError::io("open", path.display().to_string(), error);
    let held = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    match flock(&held, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(held)),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let pid = fs::read_to_string(path.join(TESSERACT_PID)).unwrap_or_default();
            Err(AssetError::InUse {
                directory: directory.display().to_string(),
                pid: pid.trim().parse().ok(),
                machine: None,
            })
        }
        // On a file system without these locks, TesseraCT takes no lock either.
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "cannot be locked");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Starts a process that has this file open, and waits until it reports that.
    fn opening(how: &str, file: &Path) -> std::process::Child {
        let script = format!("exec 3{how}'{}'; echo open; exec sleep 600", file.display());
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        child
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_writes_a_log_is_found_and_who_reads_it_is_not() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        for directory in ["tile", ".state"] {
            fs::create_dir_all(log.join(directory)).unwrap();
        }
        let file = |path: &str| {
            fs::write(place.path().join(path), "x").unwrap();
            place.path().join(path)
        };
        let (tile, state, lock) = (
            file("log/tile/000"),
            file("log/.state/treeState"),
            file("lock.sqlite"),
        );
        for (how, path, found) in [
            ("<", &tile, false),
            (">>", &tile, true),
            ("<", &state, true),
            ("<", &lock, true),
        ] {
            let mut child = opening(how, path);
            let holders = holders(&log, std::slice::from_ref(&lock));
            let pids: Vec<u32> = holders.found.iter().map(|it| it.pid).collect();
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(pids == [child.id()], found, "{how}{}", path.display());
        }
        assert!(holders(&log, &[lock]).found.is_empty());
    }

    #[test]
    fn one_software_has_the_log() {
        let place = tempfile::tempdir().unwrap();
        assert!(hold_tesseract(place.path()).unwrap().is_none());
        let antispam = place.path().join(TESSERACT);
        fs::create_dir_all(&antispam).unwrap();
        fs::write(antispam.join(TESSERACT_PID), "4711\n").unwrap();
        let held = hold_tesseract(place.path()).unwrap();
        let refused = hold_tesseract(place.path()).unwrap_err();
        assert!(matches!(
            refused,
            AssetError::InUse {
                pid: Some(4711),
                ..
            }
        ));
        drop(held);
        assert!(hold_tesseract(place.path()).unwrap().is_some());
    }
}

//! Files that the configuration names, read with a bound on their size.
//!
//! A device has no end, a pipe may have no writer, and a file on a dead network share never
//! arrives. The size of a file is therefore bounded, and a start or reload that waits for a file
//! for too long names the file.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{io, panic, thread};

use lucarne_settings::read_bounded;
use parking_lot::Mutex;
use rustix::fs::OFlags;

/// Maximum time to read the files of a start or of a reload. Requests for roots over the network
/// have shorter limits, and systemd ends a start after 90 s.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// The files that are being read, each with the begin of its read.
static READING: Mutex<Vec<(PathBuf, Instant)>> = Mutex::new(Vec::new());
/// Interval between two checks of the files that are being read.
const LOOK: Duration = Duration::from_secs(1);

/// Calls `read`. Until `read` returns, the file at `path` is one of [`being_read`].
pub(crate) fn named<T>(path: &Path, read: impl FnOnce() -> T) -> T {
    READING.lock().push((path.to_owned(), Instant::now()));
    let outcome = read();
    let mut reading = READING.lock();
    if let Some(place) = reading.iter().position(|it| it.0 == path) {
        reading.swap_remove(place);
    }
    outcome
}

/// Returns the names of the files that are being read.
pub(crate) fn being_read() -> String {
    being_read_since(Instant::now())
}

/// Returns the names of the files whose reads began before `latest`.
fn being_read_since(latest: Instant) -> String {
    let reading = READING.lock();
    let reading = reading.iter().filter(|it| it.1 <= latest);
    format!("{:?}", reading.map(|it| &it.0).collect::<Vec<_>>())
}

/// Calls `read` on another thread.
///
/// # Errors
/// If a file has not arrived after the time `longest`. Its thread is abandoned. A request to a
/// secret manager has a limit of its own.
pub(crate) fn in_time<T: Send + 'static>(
    longest: Duration,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (done, outcome) = channel();
    let begun = Instant::now();
    let reading = thread::spawn(move || done.send(read()));
    loop {
        match outcome.recv_timeout(longest.min(LOOK)) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) => {
                let Some(latest) = Instant::now().checked_sub(longest) else {
                    continue;
                };
                // Not a file that an earlier read has abandoned.
                let late = |it: &(PathBuf, Instant)| (begun..=latest).contains(&it.1);
                if READING.lock().iter().any(late) {
                    let files = being_read_since(latest);
                    return Err(format!(
                        "{files} cannot be read: no response within {longest:?}"
                    ));
                }
            }
            Err(RecvTimeoutError::Disconnected) => match reading.join() {
                Err(panicked) => panic::resume_unwind(panicked),
                Ok(_) => return Err("the files were not read".to_owned()),
            },
        }
    }
}

/// Reads a file or a pipe.
///
/// # Errors
/// If the file cannot be read, or is too large.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    named(path, || read_bounded(File::open(path)?))
}

/// Reads a file that the process reads again and again. A pipe or a device is refused, without
/// waiting for its other end.
///
/// # Errors
/// See [`read`]; and if the file is not a regular file.
pub(crate) fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    named(path, || {
        let file = options.open(path)?;
        if !file.metadata()?.is_file() {
            let why = "expected a regular file, found a directory, a pipe or a device";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        read_bounded(file)
    })
}

/// Returns the [`digest`] of a regular file; `None` if the file is of another kind or unreadable.
pub(crate) fn digest_of(path: &Path) -> Option<u64> {
    // A pipe that is opened and closed ends its writer.
    let metadata = named(path, || path.metadata());
    let is_file = metadata.is_ok_and(|metadata| metadata.is_file());
    let bytes = is_file.then(|| read_regular(path).ok()).flatten()?;
    Some(digest(&bytes))
}

/// Returns a number that changes with the content of a file. A byte order mark does not count.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns `true` if nothing exists at this path. If a directory of the path does not permit the
/// search, the result is `false`: the next access to the path reports the reason.
pub(crate) fn is_absent(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let why = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(why.to_string(), "it has more than 64 MiB");
        assert!(!being_read().contains("/dev/zero"));
    }

    #[test]
    fn a_path_that_cannot_be_searched_is_not_absent() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_absent(&file.path().join("below")));
        assert!(!is_absent(file.path()));
        assert!(is_absent(&file.path().with_extension("absent")));
    }

    #[test]
    fn a_file_that_never_arrives_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("never");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert_eq!(digest_of(&pipe), None);
        let opened = pipe.clone();
        let never = || in_time(Duration::from_millis(1), move || read(&opened));
        let why = named(&pipe, never).unwrap_err();
        assert!(why.contains("/never\""), "{why}");
        assert!(
            why.contains("cannot be read: no response within 1ms"),
            "{why}"
        );
        // Ends the abandoned thread.
        std::fs::write(&pipe, "").unwrap();
        assert_eq!(in_time(LONGEST, || 7), Ok(7));
    }

    #[test]
    fn a_pipe_is_refused_where_a_regular_file_is_meant() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [pipe.as_path(), Path::new("/dev/null"), directory.path()] {
            let why = read_regular(path).unwrap_err().to_string();
            assert!(why.starts_with("expected a regular file"), "{why}");
        }
        let file = directory.path().join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read_regular(&file).unwrap(), b"text");
        assert_eq!(digest_of(&file), Some(digest(b"\xef\xbb\xbftext")));
        assert_ne!(digest_of(&file), Some(digest(b"test")));
    }
}

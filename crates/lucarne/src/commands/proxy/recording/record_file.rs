//! A file of records that may be full, slow, renamed, or a FIFO without a reader.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lucarne_proxy::{HAR_HEAD, HAR_TAIL};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Limit of a HAR file in bytes: `lucarne load from-har` reads no larger file.
const HAR: u64 = 64 << 20;

/// Interval and number of the attempts to write into a full FIFO.
const PAUSE: Duration = Duration::from_millis(20);
const ATTEMPTS: u32 = 50;

/// Form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A record per line.
    Lines,
    /// A HAR file, which is complete after each write.
    Har,
}

/// A file of records. The records that cannot be written are counted.
pub(super) struct RecordFile {
    /// Key of the file in the configuration.
    key: &'static str,
    path: PathBuf,
    form: Form,
    /// `None` while the file cannot be opened.
    out: Option<Out>,
    lost: Arc<AtomicU64>,
    /// Whether the last write failed.
    failing: bool,
}

/// An open file.
enum Out {
    Lines {
        file: File,
        /// Rest of a line that was written in part.
        cut: Vec<u8>,
    },
    Har {
        file: File,
        /// Offset of the end of the last entry.
        end: u64,
        /// Whether the file has an entry.
        begun: bool,
    },
}

/// A failed write, and the number of lines that the file lacks.
struct Loss(u64, io::Error);

impl RecordFile {
    /// Opens or creates the file at `path`. Records are appended.
    ///
    /// # Errors
    /// If the file cannot be opened, except a FIFO without a reader, or is not a HAR file.
    pub(super) fn open(key: &'static str, path: &Path, form: Form) -> io::Result<Self> {
        let mut file = RecordFile {
            key,
            path: path.to_owned(),
            form,
            out: None,
            lost: Arc::default(),
            failing: false,
        };
        match Out::open(path, form) {
            Ok(out) => file.out = Some(out),
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                file.report(&error);
            }
            Err(error) => return Err(error),
        }
        Ok(file)
    }

    /// Returns the counter of records that were not written.
    pub(super) fn lost(&self) -> Arc<AtomicU64> {
        self.lost.clone()
    }

    /// Opens the path again. If that fails, the open file stays in use.
    pub(super) fn reopen(&mut self) {
        let (key, path) = (self.key, self.path.display());
        match Out::open(&self.path, self.form) {
            Ok(out) => {
                self.out = Some(out);
                tracing::info!("{key}: {path} reopened");
            }
            Err(error) => tracing::error!("{key}: cannot reopen {path}: {error}"),
        }
    }

    /// Appends whole lines.
    pub(super) fn append(&mut self, lines: &[u8]) {
        let all = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        let appended = match &mut self.out {
            Some(out) => out.append(lines),
            None => Out::open(&self.path, self.form)
                .map_err(|error| Loss(all, error))
                .and_then(|out| self.out.insert(out).append(lines)),
        };
        match appended {
            Ok(()) if self.failing => {
                self.failing = false;
                let lost = self.lost.load(Ordering::Relaxed);
                let (key, path) = (self.key, self.path.display());
                tracing::info!("{key}: {path} is written again; {lost} records are missing so far");
            }
            Ok(()) => {}
            Err(Loss(lost, error)) => {
                self.lost.fetch_add(lost, Ordering::Relaxed);
                if error.kind() == ErrorKind::BrokenPipe {
                    self.out = None;
                }
                self.report(&error);
            }
        }
    }

    /// Logs the first of several failures.
    fn report(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.failing, true) {
            let (key, path) = (self.key, self.path.display());
            tracing::error!(
                "{key}: cannot write {path}: {error}; requests continue, and their records are lost \
                 until the file can be written"
            );
        }
    }
}

impl Out {
    fn open(path: &Path, form: Form) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        // A FIFO without a reader must not block.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        options.create(true).custom_flags(flags);
        match form {
            Form::Lines => Ok(Out::Lines {
                file: options.append(true).mode(0o640).open(path)?,
                cut: Vec::new(),
            }),
            Form::Har => Self::open_har(
                options
                    .read(true)
                    .write(true)
                    .truncate(false)
                    .mode(0o600)
                    .open(path)?,
            ),
        }
    }

    /// Finds the end of the entries, or begins an empty file.
    fn open_har(file: File) -> io::Result<Self> {
        let invalid = |why| Err(io::Error::new(ErrorKind::InvalidData, why));
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return invalid("a HAR file must be a regular file");
        }
        if metadata.len() == 0 {
            file.write_all_at([HAR_HEAD, HAR_TAIL].concat().as_bytes(), 0)?;
            let end = HAR_HEAD.len() as u64;
            return Ok(Out::Har {
                file,
                end,
                begun: false,
            });
        }
        let mut last = vec![0; HAR_TAIL.len() + 1];
        let start = metadata.len().checked_sub(last.len() as u64);
        match start {
            Some(start) => file.read_exact_at(&mut last, start)?,
            None => return invalid("the file is not a HAR file of the proxy: move it"),
        }
        match last.strip_suffix(HAR_TAIL.as_bytes()) {
            Some([before @ (b'[' | b'}')]) => Ok(Out::Har {
                file,
                end: metadata.len() - HAR_TAIL.len() as u64,
                begun: *before == b'}',
            }),
            _ => invalid("the file is not a HAR file of the proxy, or is damaged: move it"),
        }
    }

    fn append(&mut self, lines: &[u8]) -> Result<(), Loss> {
        match self {
            Out::Lines { file, cut } => append_lines(file, cut, lines),
            Out::Har { file, end, begun } => append_entries(file, (end, begun), lines),
        }
    }
}

/// Appends lines. The rest of a line that was written in part remains in `cut`.
fn append_lines(mut file: &File, cut: &mut Vec<u8>, lines: &[u8]) -> Result<(), Loss> {
    let mut all = std::mem::take(cut);
    let begun = all.len();
    all.extend_from_slice(lines);
    let (mut written, mut attempts) = (0, 0);
    while written < all.len() {
        let error = match file.write(&all[written..]) {
            Ok(0) => ErrorKind::WriteZero.into(),
            Ok(bytes) => {
                (written, attempts) = (written + bytes, 0);
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock && attempts < ATTEMPTS => {
                attempts += 1;
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(error) => error,
        };
        let whole = match written {
            0 => begun == 0,
            written => all[written - 1] == b'\n',
        };
        let mut rest = all.split_off(written);
        if !whole {
            let line = rest.iter().position(|byte| *byte == b'\n');
            let after = rest.split_off(line.map_or(rest.len(), |end| end + 1));
            *cut = std::mem::replace(&mut rest, after);
        }
        let lost = rest.iter().filter(|byte| **byte == b'\n').count();
        return Err(Loss(lost as u64, error));
    }
    Ok(())
}

/// Writes entries and the end of the file over the previous end. After a failure, the file ends
/// with the previous entry.
fn append_entries(
    file: &File,
    (end, begun): (&mut u64, &mut bool),
    lines: &[u8],
) -> Result<(), Loss> {
    let mut text = Vec::with_capacity(lines.len());
    let (mut entries, mut left_out) = (0, 0);
    for line in lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let room = HAR.saturating_sub(*end + (text.len() + HAR_TAIL.len() + 2) as u64);
        if line.len() as u64 > room {
            left_out += 1;
            continue;
        }
        text.extend_from_slice(if *begun || entries > 0 { b",\n" } else { b"\n" });
        text.extend_from_slice(line);
        entries += 1;
    }
    let added = text.len() as u64;
    text.extend_from_slice(HAR_TAIL.as_bytes());
    if let Err(error) = file.write_all_at(&text, *end) {
        // The end of the file needs no new block.
        let _ = file.write_all_at(HAR_TAIL.as_bytes(), *end);
        let _ = file.set_len(*end + HAR_TAIL.len() as u64);
        return Err(Loss(entries + left_out, error));
    }
    *end += added;
    *begun |= entries > 0;
    if left_out > 0 {
        let why = "the file has reached 64 MiB: rename it, and send SIGHUP";
        return Err(Loss(left_out, io::Error::new(ErrorKind::FileTooLarge, why)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn lost(file: &RecordFile) -> u64 {
        file.lost.load(Ordering::Relaxed)
    }

    fn fifo(path: &Path) {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
    }

    #[test]
    fn a_full_disk_loses_records_and_counts_them() {
        let mut file = RecordFile::open("accesslog", Path::new("/dev/full"), Form::Lines).unwrap();
        file.append(b"one\ntwo\n");
        file.append(b"three\n");
        assert_eq!((lost(&file), file.failing), (3, true));
    }

    #[test]
    fn a_fifo_without_a_reader_loses_records_until_there_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        fifo(&path);
        let mut file = RecordFile::open("accesslog", &path, Form::Lines).unwrap();
        file.append(b"lost\n");
        assert_eq!(lost(&file), 1);
        let options = |options: &mut OpenOptions| {
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            options.custom_flags(flags).open(&path).unwrap()
        };
        let mut reader = options(OpenOptions::new().read(true));
        file.append(b"first\n");
        let mut read = [0; 64];
        let bytes = reader.read(&mut read).unwrap();
        assert_eq!(&read[..bytes], b"first\n");
        // A reader that stops reading: the FIFO has room for 64 KiB.
        let line = [vec![b'x'; 1023], vec![b'\n']].concat();
        file.append(&line.repeat(100));
        let stuck = lost(&file);
        assert!((30..100).contains(&stuck), "{stuck}");
        drop(reader);
        file.append(b"lost\n");
        assert_eq!(lost(&file), stuck + 1);
        let mut reader = options(OpenOptions::new().read(true));
        file.append(b"again\n");
        let bytes = reader.read(&mut read).unwrap();
        assert_eq!(&read[..bytes], b"again\n", "no rest of a line");
    }

    #[test]
    fn a_line_that_was_cut_is_completed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        fifo(&path);
        let mut reader = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let mut file = RecordFile::open("accesslog", &path, Form::Lines).unwrap();
        // Lines that do not end at the end of the FIFO's room.
        let line = [vec![b'x'; 6_999], vec![b'\n']].concat();
        file.append(&line.repeat(12));
        let before = lost(&file);
        let mut all = vec![0; 100_000];
        reader.read_exact(&mut all[..40_000]).unwrap();
        file.append(b"last\n");
        drop(file);
        let bytes = 40_000 + reader.read(&mut all[40_000..]).unwrap();
        let text = str::from_utf8(&all[..bytes]).unwrap();
        assert!(text.ends_with("x\nlast\n"));
        let (whole, _) = text.rsplit_once("last").unwrap();
        assert!(whole.lines().all(|line| line.len() == 6_999));
        assert_eq!(whole.lines().count() as u64 + before, 12);
    }

    #[test]
    fn a_renamed_file_is_reopened() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = (directory.path().join("log"), directory.path().join("log.1"));
        let mut file = RecordFile::open("accesslog", &path, Form::Lines).unwrap();
        file.append(b"one\n");
        std::fs::rename(&path, &old).unwrap();
        file.append(b"two\n");
        file.reopen();
        file.append(b"three\n");
        assert_eq!(std::fs::read(&old).unwrap(), b"one\ntwo\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"three\n");
        std::fs::remove_dir_all(directory.path()).unwrap();
        file.reopen();
        file.append(b"four\n");
        assert_eq!(lost(&file), 0, "the open file stays in use");
    }

    #[test]
    fn a_har_file_is_complete_after_each_write_and_continues() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session.har");
        let entries = || {
            let text = std::fs::read_to_string(&path).unwrap();
            let har: serde_json::Value = serde_json::from_str(&text).unwrap();
            har["log"]["entries"].as_array().unwrap().len()
        };
        let open = || RecordFile::open("har.file", &path, Form::Har);
        let mut file = open().unwrap();
        assert_eq!(entries(), 0);
        drop(file);
        file = open().unwrap();
        file.append(b"{\"a\":1}\n{\"a\":2}\n");
        assert_eq!(entries(), 2);
        let mut file = open().unwrap();
        file.append(b"{\"a\":3}\n");
        assert_eq!(entries(), 3);
        let large = [b"{\"a\":\"", &vec![b'x'; HAR as usize][..], b"\"}\n"].concat();
        file.append(&[&large[..], b"{\"a\":4}\n"].concat());
        assert_eq!((entries(), lost(&file)), (4, 1));
        std::fs::write(&path, "{\"log\":{}}").unwrap();
        assert!(open().err().unwrap().to_string().contains("move it"));
        std::fs::remove_file(&path).unwrap();
        fifo(&path);
        assert!(open().err().unwrap().to_string().contains("regular file"));
    }
}

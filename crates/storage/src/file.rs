//! Reading a file of a log safely, even if a FIFO, a device or a huge file has taken its place.
//!
//! Everything that a log writes is bounded. A longer file is not read at all, and reading a FIFO or
//! a device does not block.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use bytes::Bytes;
use rustix::fs::OFlags;

/// The reasons why a log cannot have written the file at a path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnfitFile {
    #[error("has {length} bytes; expected at most {max}")]
    TooLong { length: u64, max: u64 },
    #[error("is a FIFO; expected a file")]
    Fifo,
    #[error("is a socket; expected a file")]
    Socket,
    #[error("is a device; expected a file")]
    Device,
}

impl From<UnfitFile> for io::Error {
    fn from(unfit: UnfitFile) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, unfit)
    }
}

/// A data tile of 256 precertificates, each as long as the longest body (2 MiB) in base64 allows.
/// Every precertificate is in the tile twice.
const DATA_TILE_BYTES: u64 = 768 << 20;

/// More than the 8192 bytes of a hash tile, so that the caller can report the wrong length.
const HASH_TILE_BYTES: u64 = 64 << 10;

/// The longest certificate that the length in a data tile can express.
const ISSUER_BYTES: u64 = 16 << 20;

/// A checkpoint with cosignatures, or `log.v3.json`.
const NOTE_BYTES: u64 = 1 << 20;

/// Everything else that a log keeps, and a round of its journal.
pub(crate) const OTHER_BYTES: u64 = 1 << 30;

/// Returns the maximum length in bytes of the file at this path of a log.
pub fn max_file_bytes(path: &str) -> u64 {
    match path.split_once('/') {
        Some(("tile", rest))
            if ["data/", "names/", "entries/"]
                .iter()
                .any(|it| rest.starts_with(it)) =>
        {
            DATA_TILE_BYTES
        }
        Some(("tile", _)) => HASH_TILE_BYTES,
        Some(("issuer", _)) => ISSUER_BYTES,
        // The version and the tree that TesseraCT keeps beside its log.
        Some((".state", _)) => NOTE_BYTES,
        None => NOTE_BYTES,
        Some(_) => OTHER_BYTES,
    }
}

/// Reads the file at `path` below a directory; `None` if it does not exist. Meant for programs
/// other than the log's own process.
///
/// # Errors
/// If the path is not a regular file, or if the file is too long or cannot be read.
pub fn read_file(directory: &Path, path: &str) -> io::Result<Option<Bytes>> {
    match open(&directory.join(path)) {
        Ok(mut file) => read(&mut file, path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a file to read it, without waiting for a FIFO or a device in its place.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32);
    options.open(path)
}

/// Reads an open file that is at this path of a log. The caller must have opened the file without
/// blocking.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] for anything that a log cannot have written there.
pub(crate) fn read(file: &mut File, path: &str) -> io::Result<Bytes> {
    read_bounded(file, max_file_bytes(path))
}

/// Reads an open file of at most `max` bytes.
///
/// # Errors
/// See [`read`].
pub(crate) fn read_bounded(file: &mut File, max: u64) -> io::Result<Bytes> {
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    let length = metadata.len();
    match () {
        () if kind.is_file() => check_length(length, max)?,
        () if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        () if kind.is_fifo() => return Err(UnfitFile::Fifo.into()),
        () if kind.is_socket() => return Err(UnfitFile::Socket.into()),
        () => return Err(UnfitFile::Device.into()),
    }
    let mut bytes = Vec::with_capacity(length as usize + 1);
    file.take(length + 1).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// Checks the length of a file before it is read.
///
/// # Errors
/// [`UnfitFile::TooLong`], if the file is longer than any file of a log at its path.
pub(crate) fn check_length(length: u64, max: u64) -> Result<(), UnfitFile> {
    if length <= max {
        Ok(())
    } else {
        Err(UnfitFile::TooLong { length, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_possible_length_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        std::fs::create_dir_all(at("tile/data")).unwrap();
        std::fs::create_dir_all(at("tile/0")).unwrap();
        let read = |path| read_file(directory.path(), path);
        let unfit = |path| {
            let error = read(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            error.downcast::<UnfitFile>().unwrap()
        };
        assert_eq!(read("tile/0/000").unwrap(), None);
        std::fs::write(at("tile/0/000"), [7; 64]).unwrap();
        assert_eq!(read("tile/0/000").unwrap().unwrap(), [7; 64][..]);
        for (path, length, max) in [
            ("tile/0/000", (1 << 16) + 1, 1 << 16),
            ("tile/data/000", (3 << 30) + 1, 768 << 20),
        ] {
            let sparse = File::create(at(path)).unwrap();
            sparse.set_len(length).unwrap();
            assert_eq!(unfit(path), UnfitFile::TooLong { length, max });
        }
        let fifo = at("tile/data/001");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        assert_eq!(unfit("tile/data/001"), UnfitFile::Fifo);
        std::os::unix::fs::symlink("/dev/zero", at("tile/data/002")).unwrap();
        assert_eq!(unfit("tile/data/002"), UnfitFile::Device);
    }
}

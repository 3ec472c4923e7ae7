//! Blocks with checksums, buffered files, and small files that are replaced. The checksum of a
//! block covers its content, the number of its table and its own number.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The length of a checksum in bytes.
pub(super) const SUM: usize = 8;
/// Number of bytes per write.
const BUFFER: usize = 256 << 10;

/// Writes the checksum into the last bytes of a block.
pub(super) fn seal(bytes: &mut [u8], id: u64, number: u64) {
    let (content, sum) = bytes.split_at_mut(bytes.len() - SUM);
    sum.copy_from_slice(&sum_of(content, id, number).to_be_bytes());
}

pub(super) fn sum_of(content: &[u8], id: u64, number: u64) -> u64 {
    xxh3_64_with_seed(content, id.rotate_left(40) ^ number)
}

/// Compares a block with the checksum in its last bytes.
pub(super) fn check(bytes: &[u8], id: u64, number: u64) -> io::Result<()> {
    let (content, sum) = bytes.split_at(bytes.len() - SUM);
    if sum == sum_of(content, id, number).to_be_bytes() {
        Ok(())
    } else {
        Err(damaged(id))
    }
}

/// Returns the error for damage to table number `id` or its filter.
pub(super) fn damaged(id: u64) -> io::Error {
    let problem = format!("table {id} of the index is damaged");
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// A file that is written in large pieces. Unlike a `BufWriter`, a dropped `Buffered` writes
/// nothing: after an error the contents of the disk are unknown, and must not change.
pub(super) struct Buffered {
    file: File,
    buffer: Vec<u8>,
}

impl Buffered {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Buffered {
            file: File::create(path)?,
            buffer: Vec::with_capacity(BUFFER),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Syncs the written bytes.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_all()
    }

    /// Removes durable bytes from the page cache, to leave room for filters.
    pub(super) fn forget(&self) {
        forget(&self.file, 0, 0);
    }
}

/// Replaces a file durably and atomically: a crash leaves the old file or the new one.
pub(crate) fn replace(path: &Path, mut content: Vec<u8>) -> io::Result<()> {
    content.extend_from_slice(&[0; SUM]);
    seal(&mut content, 0, 0);
    let new = path.with_added_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(&content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // If this fails, either file may be there after a crash: the failure is never temporary.
    sync(path.parent().unwrap_or(path)).map_err(io::Error::other)
}

/// Returns the content of a file that [`replace`] wrote; `None` if there is no file.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if the file is damaged.
pub(crate) fn load(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = bytes.len().checked_sub(SUM);
    let Some(length) = length.filter(|_| check(&bytes, 0, 0).is_ok()) else {
        let problem = format!("{} is damaged", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    };
    bytes.truncate(length);
    Ok(Some(bytes))
}

/// Syncs the names of the files in a folder.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Removes `length` bytes of a file from the page cache, or all bytes after `offset` if `length` is
/// 0. File systems may ignore this.
pub(super) fn forget(file: &File, offset: u64, length: u64) {
    let length = std::num::NonZeroU64::new(length);
    let _ = rustix::fs::fadvise(file, offset, length, rustix::fs::Advice::DontNeed);
}

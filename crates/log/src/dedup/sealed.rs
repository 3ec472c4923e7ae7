//! Blocks that end with a sum of what they hold and of whose they are, and the file that they are
//! written to.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The length of a sum.
pub(super) const SUM: usize = 8;
/// Bytes that are written at once.
const BUFFER: usize = 256 << 10;

/// Puts the sum behind what it is of.
pub(super) fn seal(bytes: &mut [u8], id: u64, number: u64) {
    let (content, sum) = bytes.split_at_mut(bytes.len() - SUM);
    sum.copy_from_slice(&sum_of(content, id, number).to_be_bytes());
}

pub(super) fn sum_of(content: &[u8], id: u64, number: u64) -> u64 {
    xxh3_64_with_seed(content, id.rotate_left(40) ^ number)
}

/// Holds a block against its sum.
pub(super) fn check(bytes: &[u8], id: u64, number: u64) -> io::Result<()> {
    let (content, sum) = bytes.split_at(bytes.len() - SUM);
    match sum == sum_of(content, id, number).to_be_bytes() {
        true => Ok(()),
        false => Err(damaged(id)),
    }
}

/// The error that table number `id`, or its filter, is damaged.
pub(super) fn damaged(id: u64) -> io::Error {
    let problem = format!("table {id} of the index is damaged");
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// A file that is written in large pieces. Unlike a `BufWriter`, it writes nothing when it is
/// dropped: after an error nobody knows what the disk has, and it is left as it is.
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

    /// Makes durable what was written.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_all()
    }

    /// Lets the page cache forget what is durable: it is better used for filters.
    pub(super) fn forget(&self) {
        forget(&self.file, 0, 0);
    }
}

/// Lets the page cache forget `length` bytes of a file, or all behind `offset`. It is advice: a
/// file system may not take it.
pub(super) fn forget(file: &File, offset: u64, length: u64) {
    let length = std::num::NonZeroU64::new(length);
    let _ = rustix::fs::fadvise(file, offset, length, rustix::fs::Advice::DontNeed);
}

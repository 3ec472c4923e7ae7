//! Verification of data that a sync reported as durable.
//!
//! ext4 converts freshly written blocks after the sync that the program waits for, in its own
//! journal. If that journal is aborted at this moment, the sync succeeds, but the file has zeros
//! after the next mount. The journal of rounds therefore only overwrites blocks that were written
//! and synced before. Each round is also read back from the disk before it is signed.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, fstatvfs};

/// Offset, length and address of a direct read must be multiples of this. No Linux file system on a
/// disk requires more.
const ALIGNMENT: usize = 4096;

/// Maximum number of bytes per read.
const PIECE: usize = 128 << 10;

/// Fails if the file system no longer accepts writes.
///
/// After an internal error, the kernel turns a file system read-only. From Linux 6.15 on, ext4 no
/// longer shows this in the flags of the mount, but refuses every write, including an empty write,
/// which changes nothing.
pub(super) fn still_writable(file: &File) -> io::Result<()> {
    let flags = fstatvfs(file)?.f_flag;
    if flags.contains(StatVfsMountFlags::RDONLY) {
        return Err(ErrorKind::ReadOnlyFilesystem.into());
    }
    let mut file = file;
    file.write(&[]).map(drop)
}

/// A file that is read past the page cache.
pub(super) struct PastCache {
    file: File,
    buffer: Vec<u8>,
}

impl PastCache {
    /// Opens the file; `None` if its file system does not support direct reads.
    pub(super) fn open(path: &Path) -> Option<Self> {
        Some(Self {
            file: open_directly(path)?,
            buffer: vec![0; PIECE + ALIGNMENT],
        })
    }

    /// Returns `true` if the disk has these consecutive parts from `offset` on; `None` if the file
    /// system does not support direct reads.
    pub(super) fn has(&mut self, offset: u64, parts: [&[u8]; 2]) -> io::Result<Option<bool>> {
        let second = offset + parts[0].len() as u64;
        let end = second + parts[1].len() as u64;
        let aligned = self.buffer.as_ptr().align_offset(ALIGNMENT);
        let piece = &mut self.buffer[aligned..][..PIECE];
        let mut at = offset - offset % ALIGNMENT as u64;
        while at < end {
            let rest = (end - at).next_multiple_of(ALIGNMENT as u64) as usize;
            let wanted = &mut piece[..rest.min(PIECE)];
            let read = match self.file.read_at(wanted, at) {
                Ok(read) => &wanted[..read],
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::InvalidInput => return Ok(None),
                Err(e) => return Err(e),
            };
            let agree = agrees(read, at, parts[0], offset) && agrees(read, at, parts[1], second);
            if read.is_empty() || !agree {
                return Ok(Some(false));
            }
            at += read.len() as u64;
        }
        Ok(Some(true))
    }
}

#[cfg(target_os = "linux")]
fn open_directly(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = File::options();
    options.read(true).custom_flags(direct).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_directly(_path: &Path) -> Option<File> {
    None
}

/// Returns `true` if the bytes `read` at `at` agree with a part that begins at `start` where both
/// overlap.
fn agrees(read: &[u8], at: u64, part: &[u8], start: u64) -> bool {
    let from = at.max(start);
    let to = (at + read.len() as u64).min(start + part.len() as u64);
    let within = |begin: u64| (from - begin) as usize..(to - begin) as usize;
    from >= to || read[within(at)] == part[within(start)]
}

#[cfg(test)]
mod tests {
    use lucarne_testkit::SmallDisk;

    use super::*;

    /// Linux shows the error in the mount's flags only before 6.15.
    #[test]
    fn an_ext4_that_has_met_an_error_is_not_writable() {
        let test = "an_ext4_that_has_met_an_error_is_not_writable";
        let Some(disk) = SmallDisk::ext4_inside(test, 8) else {
            return;
        };
        let mut file = File::create_new(disk.path().join("segment")).unwrap();
        file.write_all(b"before").unwrap();
        file.sync_all().unwrap();
        still_writable(&file).unwrap();
        disk.meet_error();
        let error = still_writable(&file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
    }

    #[test]
    fn a_record_anywhere_is_compared_byte_for_byte() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("segment");
        let parts = [vec![1; 56], vec![2; 300_000]];
        for offset in [40, 4096, 130_000, 262_000] {
            let mut bytes = vec![0; offset];
            bytes.extend(parts.concat());
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT) + ALIGNMENT, 0);
            let has = |bytes: &[u8]| {
                std::fs::write(&path, bytes).unwrap();
                let mut past = PastCache::open(&path).expect("a disk with direct reads");
                past.has(offset as u64, [&parts[0], &parts[1]]).unwrap()
            };
            assert_eq!(has(&bytes), Some(true));
            let last = offset + 56 + 300_000 - 1;
            for at in [offset, offset + 55, offset + 56, last - 131_072, last] {
                let mut wrong = bytes.clone();
                wrong[at] ^= 1;
                assert_eq!(has(&wrong), Some(false), "byte {at}, record at {offset}");
            }
            assert_eq!(has(&bytes[..last]), Some(false), "record at {offset}");
        }
    }
}

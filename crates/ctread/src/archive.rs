//! Archives of whole logs: zip files, each with a subtree of 16,777,216 entries
//! (geomys.org/ct-archive, "Archival Format").

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_storage::max_file_bytes;
use lucarne_tlog::{Level, TILE_WIDTH, Tile};
use parking_lot::Mutex;
use zip::ZipArchive;
use zip::result::ZipError;

use crate::{Source, SourceError};

/// Number of entries in the subtree of a zip file: one tile of level 2, with all tiles below it.
pub const ARCHIVE_WIDTH: u64 = TILE_WIDTH.pow(3);

/// Maximum number of zip files that are kept open, each with the list of its files in memory.
const OPEN: usize = 2;

/// Memory that a file gets before its first byte is read, because a zip file may state any size.
const FIRST: u64 = 1 << 20;

/// The zip files of an archived log in a directory.
#[derive(Clone, Debug)]
pub struct Archive(Arc<Zips>);

#[derive(Debug)]
struct Zips {
    directory: PathBuf,
    /// Number of zip files.
    count: u64,
    /// The zip files that were read last, the newest first.
    open: Mutex<Vec<(u64, ZipArchive<Positioned>)>>,
}

impl Archive {
    /// Opens the archive in a directory. Returns `None` if there is no `000.zip`.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn open(directory: &Path) -> io::Result<Option<Self>> {
        let mut count = 0;
        while directory.join(Archive::file(count)).try_exists()? {
            count += 1;
        }
        Ok((count > 0).then(|| {
            Archive(Arc::new(Zips {
                directory: directory.to_owned(),
                count,
                open: Mutex::default(),
            }))
        }))
    }

    /// Returns the name of the zip file at `index`.
    pub fn file(index: u64) -> String {
        format!("{index:03}.zip")
    }

    /// Returns the number of zip files.
    pub fn count(&self) -> u64 {
        self.0.count
    }

    /// Reads a file of the zip file at `index`. Returns `None` if the zip file does not have it.
    ///
    /// # Errors
    /// If the zip file or its file is damaged, or cannot be read; if the file is longer than a file
    /// of a log can be.
    pub fn read_in(&self, index: u64, path: &str) -> io::Result<Option<Bytes>> {
        let in_zip = |error: ZipError| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("{}: {error}", Archive::file(index)))
        };
        let mut zip = self.0.zip(index).map_err(in_zip)?;
        let file = match zip.by_name(path) {
            Ok(file) => file,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(in_zip(error)),
        };
        let (said, max) = (file.size(), max_file_bytes(path));
        let mut bytes = Vec::with_capacity(said.min(max).min(FIRST) as usize);
        // One byte more shows that the stated size is too small.
        let read = file.take(said.min(max) + 1).read_to_end(&mut bytes);
        read.map_err(|error| in_zip(error.into()))?;
        if said > max || bytes.len() as u64 != said {
            let detail = format!("{path} does not have its size of {said} bytes, at most {max}");
            return Err(in_zip(
                io::Error::new(io::ErrorKind::InvalidData, detail).into(),
            ));
        }
        Ok(Some(bytes.into()))
    }

    /// Returns the index of a zip file that has the file at `path`: all have the files outside the
    /// subtrees.
    fn holder(&self, path: &str) -> u64 {
        match Tile::parse(path) {
            Ok(tile) if tile.is_full() && !matches!(tile.level(), Level::Hashes(3..)) => {
                tile.start_leaf() / ARCHIVE_WIDTH
            }
            Ok(tile) if tile.level() == Level::Data => self.0.count - 1,
            _ => 0,
        }
    }
}

impl Zips {
    /// Returns a reader of a zip file, which shares the list of files with other readers.
    fn zip(&self, index: u64) -> Result<ZipArchive<Positioned>, ZipError> {
        let mut open = self.open.lock();
        let kept = open.iter().position(|(kept, _)| *kept == index);
        let zip = match kept.map(|kept| open.remove(kept)) {
            Some((_, zip)) => zip,
            None => {
                let path = self.directory.join(Archive::file(index));
                ZipArchive::new(Positioned::open(&path)?)?
            }
        };
        open.truncate(OPEN - 1);
        open.insert(0, (index, zip.clone()));
        Ok(zip)
    }
}

#[async_trait]
impl Source for Archive {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        let index = self.holder(path);
        if index >= self.0.count {
            return Ok(None);
        }
        let (archive, path) = (self.clone(), path.to_owned());
        let read = tokio::task::spawn_blocking(move || archive.read_in(index, &path)).await;
        let read = read.map_err(SourceError::unavailable)?;
        read.map_err(SourceError::unavailable)
    }
}

/// A file with a position of its own in each clone.
#[derive(Clone, Debug)]
struct Positioned {
    file: Arc<File>,
    length: u64,
    position: u64,
}

impl Positioned {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Positioned {
            file: Arc::new(file),
            length,
            position: 0,
        })
    }
}

impl Read for Positioned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Positioned {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    const NOTE: &[u8] = b"log.example\n0\n";

    /// Writes a zip file with a checkpoint, a hash tile, and a bomb in place of an issuer.
    fn written(directory: &Path) -> PathBuf {
        let path = directory.join(Archive::file(0));
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        let bomb = vec![0; 40 << 20];
        for (name, bytes) in [
            ("checkpoint", NOTE),
            ("tile/0/000", &[7; 8192]),
            ("issuer/00", &bomb),
        ] {
            zip.start_file(name, SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    #[test]
    fn files_are_read_within_their_bounds() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Archive::open(directory.path()).unwrap().is_none());
        written(directory.path());
        let archive = Archive::open(directory.path()).unwrap().unwrap();
        let read = |path| archive.read_in(0, path);
        assert_eq!(read("checkpoint").unwrap().unwrap(), NOTE);
        assert_eq!(read("tile/0/000").unwrap().unwrap().len(), 8192);
        assert_eq!(read("tile/0/001").unwrap(), None);
        let bomb = read("issuer/00").unwrap_err().to_string();
        assert!(bomb.contains("issuer/00 does not have its size"), "{bomb}");
    }

    #[test]
    fn each_subtree_has_its_zip_file() {
        let directory = tempfile::tempdir().unwrap();
        for index in 0..3 {
            File::create(directory.path().join(Archive::file(index))).unwrap();
        }
        let archive = Archive::open(directory.path()).unwrap().unwrap();
        assert_eq!(archive.count(), 3);
        for (path, holder) in [
            ("tile/0/x065/535", 0),
            ("tile/data/x065/536", 1),
            ("tile/1/255", 0),
            ("tile/1/256", 1),
            ("tile/2/002", 2),
            ("tile/2/002.p/7", 0),
            ("tile/3/001", 0),
            ("tile/data/x131/072.p/9", 2),
            ("checkpoint", 0),
        ] {
            assert_eq!(archive.holder(path), holder, "{path}");
        }
    }

    /// Cuts and flips at every place: each read fails, or returns the right bytes.
    #[test]
    fn damaged_zip_files_are_never_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path());
        let whole = std::fs::read(&path).unwrap();
        let damaged = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let archive = Archive::open(directory.path()).unwrap().unwrap();
            for (name, expected) in [("checkpoint", NOTE), ("tile/0/000", &[7; 8192])] {
                if let Ok(Some(read)) = archive.read_in(0, name) {
                    assert_eq!(read, expected, "{name}");
                }
            }
        };
        let ends = (0..400).chain(whole.len() - 400..whole.len());
        for at in ends {
            damaged(&whole[..at]);
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            damaged(&flipped);
        }
    }
}

//! Durability of what is visible.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::path::PathBuf;

use super::Directory;
use super::journal::{Next, open_directory};
use crate::AssetError;

/// The ways in which files are made durable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Durability {
    /// One `syncfs`.
    FileSystem,
    /// `fsync` of each file and each directory.
    EachFile,
}

impl Durability {
    /// `FileSystem` where `syncfs` is known to keep the promise of `fsync`. On
    /// FUSE, for one, it does not: the daemon is never asked to sync.
    #[cfg(target_os = "linux")]
    pub(super) fn of(root: &File) -> Self {
        const KNOWN: [u32; 6] = [
            0x0000_ef53, // ext4
            0x5846_5342, // XFS
            0x9123_683e, // Btrfs
            0xf2f5_2010, // F2FS
            0x2fc1_2fc1, // ZFS
            0x0102_1994, // tmpfs, for tests
        ];
        let kind = rustix::fs::fstatfs(root).map(|status| status.f_type as u32);
        match kind {
            Ok(kind) if KNOWN.contains(&kind) => Self::FileSystem,
            _ => Self::EachFile,
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_root: &File) -> Self {
        Self::EachFile
    }
}

impl Directory {
    /// See [`Assets::settle`](crate::Assets::settle).
    ///
    /// The order is the argument. (1) The next segment is made, unused, and
    /// what was published so far is taken note of. (2) One sync makes both
    /// durable; a file system that an error has made read-only may report success
    /// of one, so that is asked, too. (3) Only then is the next segment appended
    /// to, so that it needs no sync of its own, and (4) only then are segments
    /// removed: what they hold, up to `size`, was published before (1).
    ///
    /// Any failure poisons the journal: what was taken note of is forgotten,
    /// and a second sync would not report the failure of the first.
    pub(super) fn settle(&self, size: u64) -> Result<(), AssetError> {
        let _one_at_a_time = self.settling.lock();
        self.settle_alone(size)
            .inspect_err(|error| self.journal.poison(error.to_string()))
    }

    fn settle_alone(&self, size: u64) -> Result<(), AssetError> {
        let next = self.journal.prepare()?;
        let published = self.publisher.take_unsettled();
        if next.is_some() || !published.is_empty() {
            self.sync(&published, next.as_ref())?;
            self.journal.still_writable()?;
        }
        if let Some(next) = next {
            self.journal.rotate(next)?;
        }
        self.journal.drop_settled(size)
    }

    fn sync(&self, published: &HashSet<String>, next: Option<&Next>) -> Result<(), AssetError> {
        match self.durability {
            Durability::FileSystem => self.sync_file_system(),
            Durability::EachFile => self.sync_each_file(published, next),
        }
    }

    /// One call for any number of files and directories. It waits for what
    /// other programs wrote to the file system too, which is why a log's
    /// directory deserves a file system of its own.
    ///
    /// Since Linux 5.8 it reports every write that failed since the descriptor
    /// was opened or last reported, which is all we need to know. Older
    /// kernels do not, and are not supported.
    #[cfg(target_os = "linux")]
    fn sync_file_system(&self) -> Result<(), AssetError> {
        self.stats.synced();
        rustix::fs::syncfs(self.publisher.root()).map_err(|e| {
            let path = self.path.display().to_string();
            AssetError::io("sync the file system of", path, e.into())
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn sync_file_system(&self) -> Result<(), AssetError> {
        unreachable!("Durability::of never says FileSystem here")
    }

    /// Files first, then the directories that name them.
    fn sync_each_file(
        &self,
        published: &HashSet<String>,
        next: Option<&Next>,
    ) -> Result<(), AssetError> {
        let mut directories = BTreeSet::new();
        for path in published {
            let path = self.publisher.absolute(path);
            match File::open(&path) {
                Ok(file) => self.sync_one(&path, &file)?,
                // A partial tile, removed meanwhile.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(AssetError::io("open", path.display().to_string(), e)),
            }
            let above = path.ancestors().skip(1);
            directories.extend(
                above
                    .take_while(|p| p.starts_with(&self.path))
                    .map(PathBuf::from),
            );
        }
        if let Some(next) = next {
            self.sync_one(self.journal.directory(), next.file())?;
            directories.insert(self.journal.directory().to_owned());
        }
        for path in directories.iter().rev() {
            match open_directory(path) {
                Ok(directory) => self.sync_one(path, &directory)?,
                Err(AssetError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn sync_one(&self, path: &std::path::Path, file: &File) -> Result<(), AssetError> {
        self.stats.synced();
        file.sync_all()
            .map_err(|e| AssetError::io("sync", path.display().to_string(), e))
    }
}

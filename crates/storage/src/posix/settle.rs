//! The method [`settle`](Directory::settle): syncs published files, in the way that fits the file
//! system, and cuts the journal.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Directory;
use super::journal::{Next, open_directory};
use crate::AssetError;

/// The methods to sync published files.
#[derive(Clone, Copy, Debug)]
pub(super) enum Durability {
    /// A single `syncfs`.
    FileSystem,
    /// `fsync` of each file and each directory.
    EachFile,
}

impl Durability {
    /// Returns `FileSystem` if `syncfs` is known to give the same guarantee as `fsync`. FUSE, for
    /// example, does not give this guarantee: the daemon never gets the request.
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
    /// The order matters:
    /// 1. The next segment is created, unused, and the set of published files is taken.
    /// 2. One sync makes both durable. A file system that an error has made read-only may report
    ///    success, so the code also checks that the file system is still writable.
    ///    The old segment is compared with the records that were written: another program may have
    ///    changed the file.
    /// 3. Only then are records appended to the next segment, so that it needs no sync of its own.
    /// 4. Only then are segments removed: their content, up to `size`, was published before step 1.
    ///
    /// Any failure poisons the journal: the set of files is lost, and a second sync would not
    /// report the failure of the first.
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
            let damage = self.journal.damage();
            if let Some(damage) = &damage {
                tracing::error!(
                    %damage,
                    "the journal was changed while the log used it. All its rounds are published \
                     and synced, so nothing is lost: find the program that changes files in this \
                     directory"
                );
            }
            self.journal.rotate(next, damage.is_some())?;
        }
        self.journal.drop_settled(size)
    }

    fn sync(&self, published: &HashSet<String>, next: Option<&Next>) -> Result<(), AssetError> {
        match self.durability {
            Durability::FileSystem => self.sync_file_system(),
            Durability::EachFile => self.sync_each_file(published, next),
        }
    }

    /// Syncs any number of files and directories with one call. The call also waits for other
    /// programs' writes to the file system, which is why a log's directory should have a file
    /// system of its own.
    ///
    /// Since Linux 5.8, `syncfs` reports every write that failed since the descriptor was opened or
    /// last reported a failure. Older kernels do not report these failures, and are not supported.
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
        unreachable!("Durability::of never returns FileSystem here")
    }

    /// Syncs the files first, then their directories.
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
                // The partial tile was removed in the meantime.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
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
                Err(AssetError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn sync_one(&self, path: &Path, file: &File) -> Result<(), AssetError> {
        self.stats.synced();
        file.sync_all()
            .map_err(|e| AssetError::io("sync", path.display().to_string(), e))
    }
}

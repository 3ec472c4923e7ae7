//! Publication of files: written under a temporary name, then renamed.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::read_assets::{OpenFile, Stamp};
use crate::{Asset, AssetError, AssetKind, Stats, file, path};

/// The directory of files that are written and not yet renamed. The directory is private, so that
/// readers never see an incomplete file, and one sweep at startup removes the leftovers of a crash.
/// The directory is on the file system of the root, because a rename requires the same file system.
pub(super) const TEMPORARY: &str = ".lucarne/tmp";

/// The only file whose content changes under the same name.
const CHECKPOINT: &str = "checkpoint";

/// Minimum size of a file that stays open. Only data tiles are larger; copying a smaller file costs
/// no more than another system call.
const WORTH_SENDING: usize = 32 << 10;

const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

pub(super) struct Publisher {
    root: File,
    path: PathBuf,
    device: u64,
    /// Whether the process has a umask that would hide public files.
    umask: bool,
    counter: AtomicU64,
    /// Directories that are known to exist.
    directories: Mutex<HashSet<String>>,
    /// Files that no sync has covered yet.
    unsettled: Mutex<HashSet<String>>,
    /// The published checkpoint that was read or written last; the outer `None` means that it must
    /// be read.
    checkpoint: Mutex<Option<Option<Bytes>>>,
    /// Whether a recovery publishes: see [`Publisher::recovering`].
    recovering: AtomicBool,
    stats: Arc<Stats>,
}

impl Publisher {
    /// Opens the public root `path`. [`TEMPORARY`] must exist in this directory.
    pub(super) fn new(path: &Path, stats: Arc<Stats>) -> Result<Self, AssetError> {
        let mut publisher = Self::look(path, stats)?;
        publisher.sweep()?;
        publisher.umask = publisher.probe()?;
        Ok(publisher)
    }

    /// Opens the public root `path` for reading only.
    pub(super) fn look(path: &Path, stats: Arc<Stats>) -> Result<Self, AssetError> {
        let failed = |e| AssetError::io("open", path.display().to_string(), e);
        let root = File::open(path).map_err(failed)?;
        let device = fstat(&root).map_err(|e| failed(e.into()))?.st_dev;
        Ok(Self {
            root,
            path: path.to_owned(),
            device,
            umask: false,
            counter: AtomicU64::new(0),
            directories: Mutex::default(),
            unsettled: Mutex::default(),
            checkpoint: Mutex::default(),
            recovering: AtomicBool::new(true),
            stats,
        })
    }

    /// Returns the descriptor that has been open since before the first write. The kernel reports
    /// failures of later writes only to such a descriptor.
    pub(super) fn root(&self) -> &File {
        &self.root
    }

    pub(super) fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    pub(super) fn absolute(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    pub(super) fn publish(&self, assets: &[Asset]) -> Result<(), AssetError> {
        for asset in assets {
            path::check(&asset.path)?;
        }
        for asset in assets {
            self.write(asset)?;
        }
        Ok(())
    }

    /// Sets whether files are published again during a recovery. After a failed sync the kernel may
    /// treat bytes as clean that are only in its memory, so an existing file may look complete
    /// without being on the disk. In a recovery every file is written again, into new blocks.
    ///
    /// Otherwise an existing tile or issuer with the same bytes stays. The file is durable, or in a
    /// record of the journal that is not settled.
    pub(super) fn recovering(&self, recovering: bool) {
        self.recovering.store(recovering, Relaxed);
    }

    /// Starts a recovery: the next checkpoint that is read becomes the current checkpoint.
    pub(super) fn forget_checkpoint(&self) {
        *self.checkpoint.lock() = None;
    }

    /// Fails if another process has replaced the checkpoint. A missing checkpoint is left to a
    /// recovery.
    pub(super) fn confirm_checkpoint(&self) -> Result<(), AssetError> {
        let Some(last) = self.checkpoint.lock().clone() else {
            return Ok(());
        };
        match self.read_with_file(CHECKPOINT)? {
            Some((found, ..)) if last.as_ref() != Some(&found) => Err(AssetError::Overtaken {
                place: self.absolute(CHECKPOINT).display().to_string(),
                by: super::first_holder(&self.path),
            }),
            _ => Ok(()),
        }
    }

    /// Replaces the checkpoint, if it is still `old`.
    pub(super) fn amend_checkpoint(&self, old: &Bytes, new: Bytes) -> Result<bool, AssetError> {
        let is_last = self.checkpoint.lock().as_ref() == Some(&Some(old.clone()));
        let found = self.read_with_file(CHECKPOINT)?;
        let amends = is_last && found.is_some_and(|(found, ..)| found == *old);
        if amends {
            self.write(&Asset::new(CHECKPOINT, new, AssetKind::Checkpoint))?;
        }
        Ok(amends)
    }

    fn write(&self, asset: &Asset) -> Result<(), AssetError> {
        let is_checkpoint = asset.kind == AssetKind::Checkpoint;
        if is_checkpoint {
            self.confirm_checkpoint()?;
        }
        let never_changes = !matches!(asset.kind, AssetKind::Checkpoint | AssetKind::LogJson);
        if never_changes && !self.recovering.load(Relaxed) && self.is_there(asset, false) {
            self.unsettled.lock().insert(asset.path.clone());
            return Ok(());
        }
        let directory = asset.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.ensure(directory)?;
        let temporary = self.write_temporary(&asset.bytes)?;
        let mut renamed = self.rename(&temporary, &asset.path);
        if renamed.is_err_and(|e| e == Errno::NOENT) {
            // `remove_partials` or a person has removed the directory.
            self.forget(directory);
            self.ensure(directory)?;
            renamed = self.rename(&temporary, &asset.path);
        }
        if let Err(e) = renamed {
            let _ = unlinkat(&self.root, &temporary, AtFlags::empty());
            if e == Errno::PERM && never_changes && self.open(&asset.path).is_ok() {
                return self.accept_immutable(asset);
            }
            return Err(self.failed("publish", &asset.path)(e.into()));
        }
        if is_checkpoint {
            *self.checkpoint.lock() = Some(Some(asset.bytes.clone()));
        }
        self.unsettled.lock().insert(asset.path.clone());
        self.stats.published(asset.bytes.len() as u64);
        Ok(())
    }

    /// Accepts a file that cannot be replaced (`chattr +i`, as Sunlight sets it) if its bytes are
    /// correct on the disk, not only in memory.
    fn accept_immutable(&self, asset: &Asset) -> Result<(), AssetError> {
        if !self.is_there(asset, true) {
            return Err(AssetError::Immutable {
                path: self.absolute(&asset.path).display().to_string(),
            });
        }
        self.unsettled.lock().insert(asset.path.clone());
        Ok(())
    }

    /// Returns `true` if the file has exactly these bytes. `on_disk` drops the cached pages first,
    /// so that the kernel reads the disk.
    fn is_there(&self, asset: &Asset, on_disk: bool) -> bool {
        let same = || -> io::Result<bool> {
            let mut file = self.open(&asset.path)?;
            if file.metadata()?.len() != asset.bytes.len() as u64 {
                return Ok(false);
            }
            if on_disk {
                forget_pages(&file);
            }
            let mut bytes = Vec::with_capacity(asset.bytes.len());
            file.read_to_end(&mut bytes)?;
            Ok(bytes == asset.bytes)
        };
        // An unreadable file is written again.
        same().unwrap_or(false)
    }

    fn rename(&self, temporary: &str, path: &str) -> Result<(), Errno> {
        renameat(&self.root, temporary, &self.root, path)
    }

    /// Writes a temporary file, and returns its name. The file needs no sync, because the journal
    /// restores files that a power failure destroys.
    fn write_temporary(&self, bytes: &[u8]) -> Result<String, AssetError> {
        let name = format!("{TEMPORARY}/{}", self.counter.fetch_add(1, Relaxed));
        let write = || -> io::Result<()> {
            let mut file = self.create(&name)?;
            file.write_all(bytes)
        };
        write().map_err(|e| {
            let _ = unlinkat(&self.root, &name, AtFlags::empty());
            self.failed("write", &name)(e)
        })?;
        Ok(name)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = File::from(openat(&self.root, name, flags, FILE_MODE)?);
        if self.umask {
            rustix::fs::fchmod(&file, FILE_MODE)?;
        }
        Ok(file)
    }

    /// Creates `directory` and its parents, unless they are known to exist.
    fn ensure(&self, directory: &str) -> Result<(), AssetError> {
        if directory.is_empty() || self.directories.lock().contains(directory) {
            return Ok(());
        }
        if let Some((parent, _)) = directory.rsplit_once('/') {
            self.ensure(parent)?;
        }
        self.make(directory)
            .map_err(|e| self.failed("create the directory", directory)(e.into()))?;
        let status = statat(&self.root, directory, AtFlags::empty())
            .map_err(|e| self.failed("examine", directory)(e.into()))?;
        if status.st_dev != self.device {
            return Err(AssetError::OtherFileSystem {
                path: self.absolute(directory).display().to_string(),
                directory: self.path.display().to_string(),
            });
        }
        self.directories.lock().insert(directory.to_owned());
        Ok(())
    }

    fn make(&self, directory: &str) -> Result<(), Errno> {
        match mkdirat(&self.root, directory, DIRECTORY_MODE) {
            Ok(()) if self.umask => {
                rustix::fs::chmodat(&self.root, directory, DIRECTORY_MODE, AtFlags::empty())
            }
            Err(Errno::EXIST) => Ok(()),
            result => result,
        }
    }

    pub(super) fn read(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        let found = self.read_with_file(path)?.map(|(bytes, ..)| bytes);
        if path == CHECKPOINT {
            self.checkpoint.lock().get_or_insert_with(|| found.clone());
        }
        Ok(found)
    }

    /// Reads a file like [`read`](Self::read) and keeps a large file open for sending.
    pub(super) fn read_open(
        &self,
        path: &str,
    ) -> Result<Option<(Bytes, Option<OpenFile>)>, AssetError> {
        let Some((bytes, file, stamp)) = self.read_with_file(path)? else {
            return Ok(None);
        };
        let is_worth_it = cfg!(target_os = "linux") && bytes.len() >= WORTH_SENDING;
        let file = stamp
            .filter(|_| is_worth_it)
            .and_then(|stamp| OpenFile::keep_as(file, stamp));
        Ok(Some((bytes, file)))
    }

    /// Returns the bytes of a file, and its properties from before the read.
    fn read_with_file(
        &self,
        path: &str,
    ) -> Result<Option<(Bytes, File, Option<Stamp>)>, AssetError> {
        path::check(path)?;
        let read = || -> io::Result<(Bytes, File, Option<Stamp>)> {
            let mut file = self.open(path)?;
            let stamp = Stamp::of(&file);
            let bytes = file::read(&mut file, path)?;
            Ok((bytes, file, stamp))
        };
        use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
        match read() {
            Ok(found) => Ok(Some(found)),
            Err(e) if matches!(e.kind(), NotFound | NotADirectory | IsADirectory) => Ok(None),
            Err(e) => Err(self.failed("read", path)(e)),
        }
    }

    fn open(&self, path: &str) -> io::Result<File> {
        // `NONBLOCK`, because opening a FIFO would block.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(File::from(openat(&self.root, path, flags, Mode::empty())?))
    }

    /// Removes `<tile>.p` and its files.
    pub(super) fn remove_partials(&self, tile: &str) -> Result<(), AssetError> {
        path::check(tile)?;
        let directory = format!("{tile}.p");
        for name in self.list(&directory)? {
            let path = format!("{directory}/{name}");
            match unlinkat(&self.root, &path, AtFlags::empty()) {
                Ok(()) => self.stats.removed(),
                // A file that cannot be removed (`chattr +i`) does no harm.
                Err(Errno::NOENT | Errno::PERM) => {}
                Err(e) => return Err(self.failed("remove", &path)(e.into())),
            }
            self.unsettled.lock().remove(&path);
        }
        self.forget(&directory);
        match unlinkat(&self.root, &directory, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(e) => Err(self.failed("remove", &directory)(e.into())),
        }
    }

    pub(super) fn partials(&self, tile: &str) -> Result<Vec<u16>, AssetError> {
        path::check(tile)?;
        let names = self.list(&format!("{tile}.p"))?;
        let mut widths: Vec<u16> = names.iter().filter_map(|name| path::width(name)).collect();
        widths.sort_unstable();
        Ok(widths)
    }

    pub(super) fn beside(&self, tile: &str) -> Result<Vec<String>, AssetError> {
        self.list(path::directory(tile)?.trim_end_matches('/'))
    }

    /// Returns and clears the set of paths that a power failure could destroy.
    pub(super) fn take_unsettled(&self) -> HashSet<String> {
        std::mem::take(&mut self.unsettled.lock())
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, AssetError> {
        let failed = self.failed("list", directory);
        let entries = match std::fs::read_dir(self.absolute(directory)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            result => result,
        };
        let names = entries.and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
                .collect()
        });
        names.map_err(failed)
    }

    /// Forgets a directory that may no longer exist.
    fn forget(&self, directory: &str) {
        self.directories.lock().remove(directory);
    }

    /// Removes temporary files of a crashed process.
    fn sweep(&self) -> Result<(), AssetError> {
        for name in self.list(TEMPORARY)? {
            let path = format!("{TEMPORARY}/{name}");
            unlinkat(&self.root, &path, AtFlags::empty())
                .map_err(|e| self.failed("remove", &path)(e.into()))?;
        }
        Ok(())
    }

    /// Verifies that files can be created; returns `true` if a umask reduces their mode.
    fn probe(&self) -> Result<bool, AssetError> {
        let name = format!("{TEMPORARY}/probe");
        let probe = || -> io::Result<bool> {
            let mode = Mode::from_raw_mode(fstat(self.create(&name)?)?.st_mode);
            unlinkat(&self.root, &name, AtFlags::empty())?;
            Ok(!mode.contains(FILE_MODE))
        };
        probe().map_err(self.failed("write", &name))
    }

    fn failed(&self, action: &'static str, path: &str) -> impl FnOnce(io::Error) -> AssetError {
        let path = self.absolute(path).display().to_string();
        move |e| AssetError::io(action, path, e)
    }
}

/// Drops clean pages from the page cache, so that the next read comes from the disk, if the file
/// system supports this.
fn forget_pages(file: &File) {
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

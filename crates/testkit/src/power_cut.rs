//! The disk after a power failure: restores the files of a recorded run as they would be after a
//! failure at any moment.
//!
//! The disk follows the rules of POSIX, without the stronger guarantees of real file systems. Bytes
//! of a file and its length are durable after a later sync of the file, a name after a sync of its
//! directory, and everything after a `syncfs`. Changes that are not durable survive or not,
//! independently of each other. Only names that depend on each other change in order, because a
//! metadata journal guarantees this order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rand::Rng;

use crate::{Change, Recorded};

/// The changes without a sync that survive the power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Luck {
    /// All changes: the process died, but not the machine.
    All,
    /// No changes.
    None,
    /// A random selection of the changes.
    Some,
    /// A random selection of the sectors of the changes.
    Torn,
}

/// Size of a sector in bytes: a disk writes whole sectors.
const SECTOR: usize = 512;

/// The files before a run, and all later changes.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    directories: BTreeSet<PathBuf>,
    names: BTreeMap<PathBuf, u64>,
    files: HashMap<u64, Base>,
    changes: Vec<Recorded>,
}

/// A file before the run.
#[derive(Clone, Debug)]
struct Base {
    bytes: Vec<u8>,
    mode: u32,
}

/// The number of a file in a replay, because inodes may be reused.
type File = usize;

impl Disk {
    /// Reads all files below this directory before a run.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn before(root: &Path) -> io::Result<Self> {
        let mut disk = Self {
            root: root.to_owned(),
            directories: BTreeSet::new(),
            names: BTreeMap::new(),
            files: HashMap::new(),
            changes: Vec::new(),
        };
        disk.read(root)?;
        Ok(disk)
    }

    fn read(&mut self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let (path, status) = {
                let entry = entry?;
                (entry.path(), entry.metadata()?)
            };
            if status.is_dir() {
                self.read(&path)?;
                self.directories.insert(path);
            } else if status.is_file() {
                let (bytes, mode) = (fs::read(&path)?, status.mode());
                self.files.insert(status.ino(), Base { bytes, mode });
                self.names.insert(path, status.ino());
            }
        }
        Ok(())
    }

    /// Sets the changes of the run.
    pub fn ran(&mut self, changes: Vec<Recorded>) {
        self.changes = changes;
    }

    /// Returns the changes of the run.
    pub fn changes(&self) -> &[Recorded] {
        &self.changes
    }

    /// Restores the directory to its state after a power failure that follows the first `made`
    /// changes. No process may have a file of the directory open.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn cut(&self, made: usize, luck: Luck, random: &mut impl Rng) -> io::Result<()> {
        let state = Replay::new(self, made, luck, random).run();
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        for directory in &state.directories {
            fs::create_dir_all(directory)?;
        }
        for (path, file) in &state.names {
            let file = &state.files[*file];
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, &file.bytes)?;
            fs::set_permissions(path, fs::Permissions::from_mode(file.mode & 0o7777))?;
        }
        Ok(())
    }
}

/// A replay of the surviving changes.
struct Replay<'d, R> {
    disk: &'d Disk,
    made: usize,
    luck: Luck,
    random: &'d mut R,
    directories: BTreeSet<PathBuf>,
    names: BTreeMap<PathBuf, File>,
    files: Vec<Base>,
    /// The current file of an inode.
    inodes: HashMap<u64, File>,
}

impl<'d, R: Rng> Replay<'d, R> {
    fn new(disk: &'d Disk, made: usize, luck: Luck, random: &'d mut R) -> Self {
        let mut replay = Self {
            disk,
            made,
            luck,
            random,
            directories: disk.directories.clone(),
            names: BTreeMap::new(),
            files: Vec::new(),
            inodes: HashMap::new(),
        };
        for (inode, base) in &disk.files {
            replay.inodes.insert(*inode, replay.files.len());
            replay.files.push(base.clone());
        }
        let file = |(path, inode): (&PathBuf, &u64)| (path.clone(), replay.inodes[inode]);
        replay.names = disk.names.iter().map(file).collect();
        replay
    }

    fn run(mut self) -> Self {
        let changes = &self.disk.changes[..self.made];
        for (number, recorded) in changes.iter().enumerate() {
            match &recorded.change {
                Change::Create { inode, .. } => {
                    // The file exists even if none of its names survives.
                    self.inodes.insert(*inode, self.files.len());
                    self.files.push(Base {
                        bytes: Vec::new(),
                        mode: 0o600,
                    });
                    if self.survives(number) {
                        self.name(&recorded.change);
                    }
                }
                Change::Write {
                    inode,
                    offset,
                    bytes,
                    ..
                } => {
                    self.write(number, *inode, *offset as usize, bytes);
                }
                Change::Resize { inode, length, .. } => {
                    if self.survives(number)
                        && let Some(file) = self.inodes.get(inode)
                    {
                        self.files[*file].bytes.resize(*length as usize, 0);
                    }
                }
                Change::Sync { .. } | Change::SyncAll => {}
                _ if self.survives(number) => self.name(&recorded.change),
                _ => {}
            }
        }
        self
    }

    /// Applies a change of names, if its files exist.
    fn name(&mut self, change: &Change) {
        match change {
            Change::Create { path, inode } => {
                self.names.insert(path.clone(), self.inodes[inode]);
            }
            Change::Rename { from, to } if self.directories.contains(from) => {
                self.move_all(from, to)
            }
            Change::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Change::Link { from, to } => {
                if let Some(file) = self.names.get(from) {
                    self.names.insert(to.clone(), *file);
                }
            }
            Change::Remove { path } => {
                self.names.remove(path);
            }
            Change::MakeDirectory { path } => {
                self.directories.insert(path.clone());
            }
            Change::RemoveDirectory { path } => {
                self.directories.remove(path);
                self.names.retain(|name, _| !name.starts_with(path));
            }
            Change::Write { .. }
            | Change::Resize { .. }
            | Change::Sync { .. }
            | Change::SyncAll => {}
        }
    }

    fn move_all(&mut self, from: &Path, to: &Path) {
        let moved = |path: &Path| match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
            Ok(rest) => to.join(rest),
            Err(_) => path.to_owned(),
        };
        self.directories = self.directories.iter().map(|path| moved(path)).collect();
        self.names = self
            .names
            .iter()
            .map(|(path, file)| (moved(path), *file))
            .collect();
    }

    fn write(&mut self, number: usize, inode: u64, offset: usize, bytes: &[u8]) {
        let Some(file) = self.inodes.get(&inode).copied() else {
            return;
        };
        let torn = self.luck == Luck::Torn && !self.is_durable(number);
        if !torn && !self.survives(number) {
            return;
        }
        let end = offset + bytes.len();
        if self.files[file].bytes.len() < end {
            // The length may survive without the bytes.
            self.files[file].bytes.resize(end, 0);
        }
        let mut from = offset;
        while from < end {
            let to = ((from / SECTOR + 1) * SECTOR).min(end);
            if !torn || self.random.random() {
                let part = &bytes[from - offset..to - offset];
                self.files[file].bytes[from..to].copy_from_slice(part);
            }
            from = to;
        }
    }

    fn survives(&mut self, number: usize) -> bool {
        self.is_durable(number)
            || match self.luck {
                Luck::All => true,
                Luck::None => false,
                Luck::Some | Luck::Torn => self.random.random(),
            }
    }

    /// Returns whether a change is durable: a sync began after the change and returned before the
    /// power failure. After a failed sync, the kernel drops the bytes, still shows them, and lets
    /// later syncs succeed.
    fn is_durable(&self, number: usize) -> bool {
        let changes = &self.disk.changes;
        let change = &changes[number].change;
        let mut syncs = changes[number + 1..self.made].iter().filter(|later| {
            later.after > number
                && match &later.change {
                    Change::SyncAll => true,
                    Change::Sync { inode, path } => change.is_synced_by(*inode, path),
                    _ => false,
                }
        });
        let is_data = matches!(change, Change::Write { .. } | Change::Resize { .. });
        if is_data {
            syncs.next().is_some_and(|first| !first.failed)
        } else {
            // Names survive a failed sync: a file system that has lost a name stops completely.
            syncs.any(|sync| !sync.failed)
        }
    }
}

impl Change {
    fn is_synced_by(&self, synced: u64, path: &Path) -> bool {
        let within = |name: &Path| name.parent() == Some(path);
        match self {
            Change::Write { inode, .. } | Change::Resize { inode, .. } => *inode == synced,
            Change::Create { path, .. }
            | Change::Remove { path }
            | Change::MakeDirectory { path }
            | Change::RemoveDirectory { path } => within(path),
            // A rename changes two directories at once.
            Change::Rename { from, to } => within(from) || within(to),
            Change::Link { to, .. } => within(to),
            Change::Sync { .. } | Change::SyncAll => false,
        }
    }
}

//! Repair of files in a directory that another process has open. An immutable file (`chattr +i`,
//! which Sunlight sets on tiles and issuers) is replaced by an immutable file.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::{Access, IFlags, access, ioctl_getflags, ioctl_setflags};

use super::directory::DirectoryLock;
use super::journal::{Journal, open_directory};
use super::{OWN, existing, make_durably};
use crate::assets::KEPT;
use crate::{Asset, AssetError, Removed, Repairs, path};

/// Bit of `CAP_LINUX_IMMUTABLE` in a set of capabilities.
const CAP_LINUX_IMMUTABLE: u32 = 9;

/// Replaces damaged files in the directory of a log. A concurrent reader gets either the old or the
/// new bytes.
pub struct PosixRepairs {
    directory: PathBuf,
}

impl PosixRepairs {
    /// Uses a directory that is already open.
    pub(super) fn of(directory: &Path) -> Self {
        let directory = directory.to_owned();
        PosixRepairs { directory }
    }

    /// Opens the directory of a log, which must exist.
    ///
    /// # Errors
    ///
    /// [`AssetError::Missing`] if the directory does not exist.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, AssetError> {
        let directory = existing(directory.as_ref())?;
        Ok(PosixRepairs { directory })
    }

    /// Returns the damaged segments of the journal, and the segments before them.
    fn damaged_segments(&self) -> Result<Vec<PathBuf>, AssetError> {
        let journal = self.directory.join(OWN).join("journal");
        if !journal.exists() {
            return Ok(Vec::new());
        }
        Journal::new(journal, Arc::default()).damaged()
    }

    pub(super) fn put(&self, asset: &Asset) -> Result<Option<String>, AssetError> {
        let place = self.directory.join(path::check(&asset.path)?);
        let kept = self.directory.join(KEPT).join(&asset.path);
        make_durably(&self.directory.join(".lucarne"), 0o700)?;
        for folder in [&place, &kept].into_iter().filter_map(|file| file.parent()) {
            make_durably(folder, 0o755)?;
        }
        // The new file is not in `.lucarne/tmp`, because the log's process sweeps that directory.
        let new = kept.with_extension("new");
        write(&new, &asset.bytes).map_err(failed("write", &new))?;
        let moved = move_in(&new, &place, &kept);
        if moved.is_err() {
            let _ = fs::remove_file(&new);
        }
        sync_parent(&place)?;
        Ok(moved?.map(|kept| kept.display().to_string()))
    }

    fn check(&self, path: &str) -> Result<(), AssetError> {
        let place = self.directory.join(path::check(path)?);
        if is_locked(&place) {
            let path = place.display().to_string();
            return Err(AssetError::Immutable { path });
        }
        let folder = existing_above(&place);
        access(folder, Access::WRITE_OK)
            .map_err(|error| AssetError::io("replace", place.display().to_string(), error.into()))
    }
}

#[async_trait]
impl Repairs for PosixRepairs {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        let (directory, path) = (self.directory.clone(), asset.path.clone());
        let put = tokio::task::spawn_blocking(move || PosixRepairs { directory }.put(&asset));
        let lost = |error| Err(AssetError::io("replace", path, io::Error::other(error)));
        put.await.unwrap_or_else(lost)
    }

    async fn may_replace(&self, path: &str) -> Result<(), AssetError> {
        self.check(path)
    }

    async fn damaged_rounds(&self, _size: u64) -> Result<Vec<String>, AssetError> {
        // The process of a running log moves its damaged segments itself.
        let _alone = match DirectoryLock::look(&self.directory) {
            Err(AssetError::InUse { .. }) => return Ok(Vec::new()),
            looked => looked?,
        };
        let damaged = self.damaged_segments()?.into_iter();
        Ok(damaged.map(|path| path.display().to_string()).collect())
    }

    async fn remove_damaged_rounds(&self, _size: u64) -> Result<Vec<Removed>, AssetError> {
        let own = self.directory.join(OWN);
        if !own.exists() {
            return Ok(Vec::new());
        }
        let _alone = match DirectoryLock::take(&self.directory) {
            Err(AssetError::InUse { .. }) => return Ok(Vec::new()),
            taken => taken?,
        };
        let remove = |path: PathBuf| {
            let kept = set_aside(&path)?;
            let file = path.display().to_string();
            Ok(Removed { file, kept })
        };
        self.damaged_segments()?.into_iter().map(remove).collect()
    }
}

/// Moves a file of the directory `.lucarne/journal` to the damaged files. Returns its new name.
pub(super) fn set_aside(segment: &Path) -> Result<String, AssetError> {
    let name = segment.file_name().unwrap_or_default();
    let own = segment.parent().and_then(Path::parent).unwrap_or(segment);
    let folder = own.with_file_name(KEPT).join("journal");
    make_durably(&folder, 0o700)?;
    let kept = keep(segment, &folder.join(name)).map_err(failed("keep", segment))?;
    match fs::remove_file(segment) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", segment)(error));
        }
        _ => sync_parent(segment)?,
    }
    Ok(kept.map_or_else(String::new, |kept| kept.display().to_string()))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.sync_all()
}

/// Moves the file `new` to `place`, and keeps the old file. An immutable file is replaced by an
/// immutable file, if this process may do that.
fn move_in(new: &Path, place: &Path, kept: &Path) -> Result<Option<PathBuf>, AssetError> {
    let unlocked = Unlocked::of(place).map_err(failed("replace", place))?;
    let kept = keep(place, kept).map_err(failed("keep", place))?;
    fs::rename(new, place).map_err(failed("replace", place))?;
    if let Some(unlocked) = unlocked
        && let Err(error) = unlocked.pass_on(place)
    {
        tracing::warn!(%error, path = %place.display(), "the replaced file is not immutable");
    }
    Ok(kept)
}

/// Returns the closest existing directory above a path.
fn existing_above(path: &Path) -> &Path {
    let mut above = path.ancestors().skip(1);
    above.find(|folder| folder.exists()).unwrap_or(path)
}

/// Gives the file at `place` a second name: the first free name of `kept-1`, `kept-2` and so on.
/// Returns the second name.
fn keep(place: &Path, kept: &Path) -> io::Result<Option<PathBuf>> {
    for number in 1.. {
        let name = PathBuf::from(format!("{}-{number}", kept.display()));
        if name.symlink_metadata().is_ok() {
            continue;
        }
        // A directory, or a file on a file system without hard links, is moved instead. For a
        // moment, readers find no file.
        let linked = fs::hard_link(place, &name).or_else(|_| fs::rename(place, &name));
        return match linked {
            Ok(()) => {
                sync_parent(&name).map_err(io::Error::other)?;
                Ok(Some(name))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
    }
    Ok(None)
}

fn sync_parent(path: &Path) -> Result<(), AssetError> {
    let parent = path.parent().unwrap_or(path);
    let synced = open_directory(parent)?.sync_all();
    synced.map_err(failed("sync", parent))
}

/// Converts an error. `EPERM` for a writable file means `chattr +i`.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AssetError {
    let path = path.display().to_string();
    move |error| match error.raw_os_error() {
        Some(number) if number == rustix::io::Errno::PERM.raw_os_error() => {
            AssetError::Immutable { path }
        }
        _ => AssetError::io(action, path, error),
    }
}

/// An immutable file without its attribute, which is set again when this value is dropped.
#[derive(Debug)]
struct Unlocked {
    file: File,
    flags: IFlags,
}

impl Unlocked {
    /// Removes the attribute of the file at `path`. Returns `None` if the file is not immutable,
    /// does not exist, or is on a file system without attributes.
    ///
    /// # Errors
    /// If this process may not change the attribute.
    fn of(path: &Path) -> io::Result<Option<Self>> {
        let Some((file, flags)) = immutable(path) else {
            return Ok(None);
        };
        ioctl_setflags(&file, flags - IFlags::IMMUTABLE)?;
        Ok(Some(Unlocked { file, flags }))
    }

    /// Sets the attribute of the file that has replaced this one. The old file, which is kept as
    /// evidence, gets its attribute back as well.
    fn pass_on(self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let flags = ioctl_getflags(&file)?;
        Ok(ioctl_setflags(&file, flags | IFlags::IMMUTABLE)?)
    }
}

impl Drop for Unlocked {
    fn drop(&mut self) {
        if let Err(error) = ioctl_setflags(&self.file, self.flags) {
            tracing::warn!(%error, "cannot set the attribute of an immutable file again");
        }
    }
}

/// Checks without a change whether the attribute of a file would prevent its replacement.
fn is_locked(path: &Path) -> bool {
    immutable(path).is_some() && !may_unlock()
}

/// Returns a file with its attributes if it is immutable.
fn immutable(path: &Path) -> Option<(File, IFlags)> {
    let there = path.symlink_metadata().ok()?;
    if !there.is_file() && !there.is_dir() {
        return None;
    }
    let file = File::open(path).ok()?;
    let flags = ioctl_getflags(&file).ok()?;
    flags.contains(IFlags::IMMUTABLE).then_some((file, flags))
}

/// Returns whether this process has the capability to change the attribute.
fn may_unlock() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    effective.is_some_and(|set| set & (1 << CAP_LINUX_IMMUTABLE) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AssetKind;

    #[test]
    fn what_was_there_is_kept_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let repairs = PosixRepairs::open(&root).unwrap();
        let put = |bytes: &'static [u8]| {
            let asset = Asset::new("tile/0/000", bytes, AssetKind::HashTile);
            repairs.put(&asset).unwrap()
        };
        assert_eq!(put(b"first"), None);
        for (bytes, before, number) in [(b"again", b"first", 1), (b"third", b"again", 2)] {
            let kept = root.join(format!(".lucarne/damaged/tile/0/000-{number}"));
            assert_eq!(put(bytes), Some(kept.display().to_string()));
            assert_eq!(fs::read(kept).unwrap(), before);
            assert_eq!(fs::read(root.join("tile/0/000")).unwrap(), bytes);
        }
        // A directory in place of a file is kept, too.
        fs::remove_file(root.join("tile/0/000")).unwrap();
        fs::create_dir_all(root.join("tile/0/000/x")).unwrap();
        let kept = put(b"right").unwrap();
        assert!(Path::new(&kept).join("x").is_dir());
        let names = fs::read_dir(root.join(".lucarne/damaged/tile/0")).unwrap();
        assert_eq!(names.count(), 3, "nothing is left beside them");
    }

    #[test]
    fn a_path_leads_nowhere_else() {
        let directory = tempfile::tempdir().unwrap();
        let repairs = PosixRepairs::open(directory.path()).unwrap();
        for path in ["../x", ".lucarne/lock", "/etc/passwd"] {
            let asset = Asset::new(path, &b"x"[..], AssetKind::HashTile);
            assert!(matches!(
                repairs.put(&asset),
                Err(AssetError::BadPath { .. })
            ));
        }
    }
}

//! Files with the attribute `chattr +i`, which Sunlight sets on tiles and issuers.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

/// Bit of `CAP_LINUX_IMMUTABLE` in a set of capabilities.
const CAP_LINUX_IMMUTABLE: u32 = 9;

/// An immutable file without its attribute, which is set again when this value is dropped.
#[derive(Debug)]
pub(super) struct Unlocked {
    file: File,
    flags: IFlags,
}

impl Unlocked {
    /// Removes the attribute of the file at `path`. Returns `None` if the file is not immutable,
    /// does not exist, or is on a file system without attributes.
    ///
    /// # Errors
    /// If this process may not change the attribute.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let Some((file, flags)) = immutable(path) else {
            return Ok(None);
        };
        ioctl_setflags(&file, flags - IFlags::IMMUTABLE)?;
        Ok(Some(Unlocked { file, flags }))
    }

    /// Sets the attribute of the file that has replaced this one. The old file, which is kept as
    /// evidence, gets its attribute back as well.
    pub(super) fn pass_on(self, path: &Path) -> io::Result<()> {
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
pub(super) fn is_locked(path: &Path) -> bool {
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

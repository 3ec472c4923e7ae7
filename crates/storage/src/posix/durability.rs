//! The type [`Durability`]: how files are synced, depending on the file system.

use std::fs::File;

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

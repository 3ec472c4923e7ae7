//! A disk that a test can fill or make read-only: a tmpfs in a private mount namespace of the test.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::namespace::{self, mount};

/// A small file system, visible to this process and its children.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Runs `test` of this file again inside a new mount namespace (and, for users other than root,
    /// a user namespace), and returns a disk of this number of MiB there. Returns `None` outside,
    /// after the test has passed inside.
    ///
    /// # Panics
    /// If the test has not passed, or the system permits no namespaces: the message has the remedy.
    pub fn inside(test: &str, mebibytes: u32) -> Option<Self> {
        let place = namespace::enter(test, &[])?;
        let size = format!("size={mebibytes}m");
        mount(&[
            "-t",
            "tmpfs",
            "-o",
            &size,
            "tmpfs",
            &place.to_string_lossy(),
        ]);
        Some(SmallDisk(place))
    }

    /// Like [`inside`](Self::inside), with an ext4 that becomes read-only after an error. If this
    /// user is not permitted to mount an ext4, prints a message and returns `None`.
    ///
    /// # Panics
    /// The panics of [`inside`](Self::inside).
    pub fn ext4_inside(test: &str, mebibytes: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
            eprintln!("skipped: only root can mount an ext4 from a file");
            return None;
        }
        let place = namespace::enter(test, &[])?;
        let image = place.with_extension("ext4");
        let file = fs::File::create_new(&image).expect("an image");
        file.set_len(u64::from(mebibytes) << 20).expect("an image");
        let made = Command::new("mkfs.ext4").arg("-q").arg(&image).status();
        assert!(made.expect("`mkfs.ext4` (package e2fsprogs)").success());
        let (image, at) = (image.to_string_lossy(), place.to_string_lossy());
        mount(&["-o", "loop,errors=remount-ro", &image, &at]);
        Some(SmallDisk(place))
    }

    /// Triggers an error in the ext4, which then accepts no more writes.
    ///
    /// # Panics
    /// If the disk is not an ext4.
    pub fn meet_error(&self) {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let at = self.0.to_string_lossy();
        let line = mounts.lines().find(|line| line.contains(&*at));
        let device = line.and_then(|line| line.strip_prefix("/dev/")?.split(' ').next());
        let device = device.expect("a device");
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        fs::write(trigger, "a test").expect("an error");
    }

    /// Returns the path of the disk.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Uses all free space.
    ///
    /// # Panics
    /// If writing fails for any other reason than a full disk.
    pub fn fill(&self) {
        let mut filler = fs::File::create(self.0.join("filler")).expect("a filler");
        for piece in [1 << 20, 1 << 12] {
            let full = loop {
                if let Err(full) = filler.write_all(&vec![1; piece]) {
                    break full;
                }
            };
            assert_eq!(full.kind(), ErrorKind::StorageFull);
        }
    }

    /// Frees the space again.
    ///
    /// # Panics
    /// If the disk was not filled.
    pub fn free(&self) {
        fs::remove_file(self.0.join("filler")).expect("the filler");
    }

    /// Makes the disk read-only.
    pub fn make_read_only(&self) {
        mount(&["-o", "remount,ro", &self.0.to_string_lossy()]);
    }

    /// Makes the disk writable again.
    pub fn make_writable(&self) {
        mount(&["-o", "remount,rw", &self.0.to_string_lossy()]);
    }

    /// Mounts another file system at this path.
    pub fn mount_another(&self, place: &Path) {
        mount(&["-t", "tmpfs", "tmpfs", &place.to_string_lossy()]);
    }
}

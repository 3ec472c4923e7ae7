//! A disk that a test can fill or make read-only: a tmpfs in a mount namespace
//! of the test's own, gone with it.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const INSIDE: &str = "LUCARNE_TEST_NAMESPACE";

/// A small file system, at this place for this process and its children.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Runs `test` of this file again inside a new mount namespace (and, for
    /// other users than root, a user namespace) and gives it the disk there;
    /// `None` outside, once the test has passed inside.
    pub(crate) fn inside(test: &str) -> Option<Self> {
        if let Ok(place) = std::env::var(INSIDE) {
            mount(&["-t", "tmpfs", "-o", "size=24m", "tmpfs", &place]);
            return Some(SmallDisk(place.into()));
        }
        let place = lucarne_testkit::temp_dir();
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]);
        let status = command.env(INSIDE, place.path()).status();
        let status = status.expect("`unshare` (package util-linux) is needed for this test");
        assert!(
            status.success(),
            "failed inside a namespace. If `unshare` or `mount` says it is not permitted: run as \
             root, or allow unprivileged user namespaces (sysctl \
             kernel.unprivileged_userns_clone=1)"
        );
        None
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Takes all the space that is left.
    pub(crate) fn fill(&self) {
        let mut filler = fs::File::create(self.0.join("filler")).unwrap();
        for piece in [1 << 20, 1 << 12] {
            let full = loop {
                if let Err(full) = filler.write_all(&vec![1; piece]) {
                    break full;
                }
            };
            assert_eq!(full.kind(), ErrorKind::StorageFull);
        }
    }

    /// Gives it back.
    pub(crate) fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }

    pub(crate) fn make_read_only(&self) {
        mount(&["-o", "remount,ro", &self.0.to_string_lossy()]);
    }

    pub(crate) fn make_writable(&self) {
        mount(&["-o", "remount,rw", &self.0.to_string_lossy()]);
    }
}

fn mount(arguments: &[&str]) {
    let status = Command::new("mount").args(arguments).status().unwrap();
    assert!(status.success(), "mount {arguments:?}");
}

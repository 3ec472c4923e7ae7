//! Simulates a disk that loses a write, fails or hangs, and a clock that is set, for one process.
//! The process calls the C library through a few functions in `bad_disk.c`.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::Launch;

/// Faults that can be enabled while a process runs.
pub struct BadDisk(TempDir);

impl BadDisk {
    /// Creates a disk without faults.
    ///
    /// # Panics
    /// If there is no C compiler (`cc`).
    pub fn new() -> Self {
        let place = crate::temp_dir();
        let source = place.path().join("bad_disk.c");
        fs::write(&source, include_str!("bad_disk.c")).expect("a file");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]);
        compiler.arg(place.path().join("bad_disk.so")).arg(&source);
        let status = compiler.arg("-ldl").status();
        assert!(
            status.expect("a C compiler (`cc`)").success(),
            "bad_disk.c is compiled"
        );
        Self(place)
    }

    /// Runs the process on this disk.
    pub fn under(&self, launch: Launch) -> Launch {
        launch
            .env("LD_PRELOAD", self.file("bad_disk.so"))
            .env("LUCARNE_BAD_DISK", self.0.path())
    }

    /// Loses the next write to a file whose path contains `path`: the bytes stay in the kernel's
    /// memory, one sync fails, and the disk never gets them.
    ///
    /// # Panics
    /// If the fault cannot be recorded.
    pub fn lose_next_write(&self, path: &str) {
        self.set("lose", path);
    }

    /// Returns `true` if the write was lost.
    pub fn has_lost(&self) -> bool {
        !self.file("lose").exists()
    }

    /// Loses the next write to a file whose path contains `path`, although its sync succeeds.
    /// Direct reads return the content of the disk.
    ///
    /// # Panics
    /// If the fault cannot be recorded.
    pub fn lie_about_next_write(&self, path: &str) {
        self.set("lie", path);
    }

    /// Returns `true` if a write was lost and its sync succeeded.
    pub fn has_lied(&self) -> bool {
        !self.file("lie").exists()
    }

    /// Disables direct reads for files whose path contains `path`.
    ///
    /// # Panics
    /// If the fault cannot be recorded.
    pub fn refuse_direct_reads(&self, path: &str) {
        self.set("cached", path);
    }

    /// Makes files and directories whose path contains `path` read-only, until
    /// [`make_writable`](Self::make_writable).
    ///
    /// # Panics
    /// If the fault cannot be recorded.
    pub fn make_read_only(&self, path: &str) {
        self.set("readonly", path);
    }

    /// Makes the files and directories writable again.
    pub fn make_writable(&self) {
        let _ = fs::remove_file(self.file("readonly"));
    }

    /// Exceeds the quota of files whose path contains `path`, until
    /// [`lift_quota`](Self::lift_quota): they can neither grow nor be created.
    ///
    /// # Panics
    /// If the fault cannot be recorded.
    pub fn exceed_quota(&self, path: &str) {
        self.set("quota", path);
    }

    /// Ends the exceeded quota.
    pub fn lift_quota(&self) {
        let _ = fs::remove_file(self.file("quota"));
    }

    /// Makes files whose path contains `path` hang, until [`wake`](Self::wake).
    ///
    /// # Panics
    /// If the fault cannot be recorded.
    pub fn hang(&self, path: &str) {
        self.set("hang", path);
    }

    /// Ends the hang.
    pub fn wake(&self) {
        let _ = fs::remove_file(self.file("hang"));
    }

    /// Makes every operation on files and directories whose path contains `path` fail with an I/O
    /// error, until [`heal`](Self::heal).
    ///
    /// # Panics
    /// If the fault cannot be recorded.
    pub fn fail(&self, path: &str) {
        self.set("fail", path);
    }

    /// Ends the errors.
    pub fn heal(&self) {
        let _ = fs::remove_file(self.file("fail"));
    }

    /// Sets the wall clock of the process ahead by `ms` milliseconds, or back if `ms` is negative.
    ///
    /// # Panics
    /// If the fault cannot be recorded.
    pub fn step_clock(&self, ms: i64) {
        self.set("clock", &ms.to_string());
    }

    /// Records writes to files whose path contains `path`, and their failed syncs, from now on.
    ///
    /// # Panics
    /// If the fault cannot be recorded.
    pub fn watch(&self, path: &str) {
        self.set("watch", path);
    }

    /// Returns the inodes of watched files that were written after a failed sync of any of them;
    /// `None` if no sync has failed.
    pub fn written_after_failure(&self) -> Option<Vec<u64>> {
        let seen = fs::read_to_string(self.file("seen")).unwrap_or_default();
        let mut lines = seen.lines().skip_while(|line| !line.starts_with("failed"));
        lines.next()?;
        let written = lines.filter_map(|line| line.strip_prefix("write "));
        Some(written.filter_map(|inode| inode.parse().ok()).collect())
    }

    /// Kills the process immediately before its `n`th call (from 1) that changes a file or
    /// directory.
    pub fn killing_at(&self, n: u32, launch: Launch) -> Launch {
        self.under(launch).env("LUCARNE_KILL_AT", n.to_string())
    }

    /// Replaces lost writes in this file by the bytes on the disk, as a power failure or an unmount
    /// does. Other writes stay. No process may have the file open.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn forget_memory(&self, path: &Path) {
        let Ok(file) = fs::OpenOptions::new().write(true).open(path) else {
            return;
        };
        let inode = file.metadata().expect("a file").ino();
        for entry in fs::read_dir(self.0.path()).expect("a directory") {
            let lost = entry.expect("an entry").path();
            let name = lost.file_name().and_then(|name| name.to_str());
            let place = name.and_then(|name| name.strip_prefix(&format!("lost-{inode}-")));
            if let Some(offset) = place.and_then(|place| place.parse().ok()) {
                let old = fs::read(&lost).expect("what was there");
                file.write_all_at(&old, offset).expect("it is written");
                println!(
                    "{}: {} bytes at {offset} were lost",
                    path.display(),
                    old.len()
                );
            }
        }
    }

    /// Replaces the file atomically, because a reader must never see half of a path.
    fn set(&self, fault: &str, path: &str) {
        let beside = self.file("next");
        fs::write(&beside, path).expect("a fault is noted");
        fs::rename(beside, self.file(fault)).expect("a fault is noted");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Default for BadDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for BadDisk {
    fn drop(&mut self) {
        self.wake();
    }
}

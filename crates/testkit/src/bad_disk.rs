//! A disk that loses a write, fails, or does not answer, and a clock that is set:
//! for one process, which calls the C library through a few functions of ours (`bad_disk.c`).

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::Launch;

/// Faults that can be turned on while a process runs.
pub struct BadDisk(TempDir);

impl BadDisk {
    /// A disk without faults yet.
    ///
    /// # Panics
    /// Without a C compiler (`cc`).
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

    /// The process will be on this disk.
    pub fn under(&self, launch: Launch) -> Launch {
        launch
            .env("LD_PRELOAD", self.file("bad_disk.so"))
            .env("LUCARNE_BAD_DISK", self.0.path())
    }

    /// Loses the next write to a file whose path has this part: it is in the
    /// kernel's memory, one sync fails, and the disk never has it.
    ///
    /// # Panics
    /// If that cannot be noted.
    pub fn lose_next_write(&self, path: &str) {
        self.set("lose", path);
    }

    /// Returns whether a write was lost since.
    pub fn has_lost(&self) -> bool {
        !self.file("lose").exists()
    }

    /// Loses the next write to a file whose path has this part, though its sync reports
    /// success. Direct reads show what the disk has.
    ///
    /// # Panics
    /// If that cannot be noted.
    pub fn lie_about_next_write(&self, path: &str) {
        self.set("lie", path);
    }

    /// Returns whether a write was lost and its sync reported success since.
    pub fn has_lied(&self) -> bool {
        !self.file("lie").exists()
    }

    /// Files whose path has this part have no direct reads.
    ///
    /// # Panics
    /// If that cannot be noted.
    pub fn refuse_direct_reads(&self, path: &str) {
        self.set("cached", path);
    }

    /// Files and directories whose path has this part are on a read-only file system,
    /// until [`make_writable`](Self::make_writable).
    ///
    /// # Panics
    /// If that cannot be noted.
    pub fn make_read_only(&self, path: &str) {
        self.set("readonly", path);
    }

    /// They can be written again.
    pub fn make_writable(&self) {
        let _ = fs::remove_file(self.file("readonly"));
    }

    /// Nothing is added to files whose path has this part, and none is made: the quota is
    /// exceeded, until [`lift_quota`](Self::lift_quota).
    ///
    /// # Panics
    /// If that cannot be noted.
    pub fn exceed_quota(&self, path: &str) {
        self.set("quota", path);
    }

    /// There is space again.
    pub fn lift_quota(&self) {
        let _ = fs::remove_file(self.file("quota"));
    }

    /// Files whose path has this part do not answer, until [`wake`](Self::wake).
    ///
    /// # Panics
    /// If that cannot be noted.
    pub fn hang(&self, path: &str) {
        self.set("hang", path);
    }

    /// They answer again.
    pub fn wake(&self) {
        let _ = fs::remove_file(self.file("hang"));
    }

    /// Whatever is done to files and directories whose path has this part is an
    /// I/O error, until [`heal`](Self::heal).
    ///
    /// # Panics
    /// If that cannot be noted.
    pub fn fail(&self, path: &str) {
        self.set("fail", path);
    }

    /// They can be used again.
    pub fn heal(&self) {
        let _ = fs::remove_file(self.file("fail"));
    }

    /// Sets the wall clock ahead of the real one, or behind it, by milliseconds.
    ///
    /// # Panics
    /// If that cannot be noted.
    pub fn step_clock(&self, ms: i64) {
        self.set("clock", &ms.to_string());
    }

    /// Notes writes to files whose path has this part, and syncs of them that
    /// fail, from now on.
    ///
    /// # Panics
    /// If that cannot be noted.
    pub fn watch(&self, path: &str) {
        self.set("watch", path);
    }

    /// The inodes of watched files that were written after a sync of any of them
    /// had failed; `None` if none has.
    pub fn written_after_failure(&self) -> Option<Vec<u64>> {
        let seen = fs::read_to_string(self.file("seen")).unwrap_or_default();
        let mut lines = seen.lines().skip_while(|line| !line.starts_with("failed"));
        lines.next()?;
        let written = lines.filter_map(|line| line.strip_prefix("write "));
        Some(written.filter_map(|inode| inode.parse().ok()).collect())
    }

    /// The process is killed right before its `n`th call (from 1) that changes a
    /// file or directory.
    pub fn killing_at(&self, n: u32, launch: Launch) -> Launch {
        self.under(launch).env("LUCARNE_KILL_AT", n.to_string())
    }

    /// Makes of this file what a power cut, or unmounting, leaves: what was lost is
    /// not there. (All else that was written is.) Nobody may have it open.
    ///
    /// # Panics
    /// If it cannot be written.
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

    /// At once for a reader: no half of a path is ever meant.
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

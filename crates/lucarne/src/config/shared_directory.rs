//! Directories on file systems of several machines, whose locks may be local to each machine.
//!
//! One process at a time may use the directory of a log, which a file system lock (`flock`)
//! ensures. A network file system can be mounted so that this lock is local to the machine. Then
//! two machines could write one journal, and the journal could lack entries that the lock in the
//! database has signed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lucarne_settings::Report;

use super::{LockPlace, LogSettings};

/// Refuses a directory with machine-local locks, if other machines can reach the log's lock. A lock
/// in a file excludes other machines anyway.
pub(super) fn refuse(lock: &LockPlace, logs: &[LogSettings], report: &mut Report) {
    if let LockPlace::Sqlite(_) = lock {
        return;
    }
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else {
        return;
    };
    for log in logs {
        let Some(directory) = log.data.value.directory() else {
            continue;
        };
        if let Some(why) = device(directory).and_then(|device| unseen(&mounts, &device)) {
            let message = format!(
                "{} is on a network file system, mounted without locks that other machines see: \
                 {why}. Because other machines can reach the lock ({lock}), two machines could \
                 write the same journal",
                directory.display()
            );
            report.problem(log.data.line, log.key_path("localdirectory"), message);
        }
    }
}

/// Returns the device number in the format of `mountinfo`.
fn device(directory: &Path) -> Option<String> {
    let device = directory.metadata().ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    Some(format!("{major}:{minor}"))
}

/// Returns the remedy if the file system is shared and its locks are local to this machine. Returns
/// `None` for other file systems (`proc_pid_mountinfo(5)`).
fn unseen(mounts: &str, device: &str) -> Option<&'static str> {
    let line = mounts
        .lines()
        .rev()
        .find(|line| line.split(' ').nth(2) == Some(device))?;
    let (_, rest) = line.split_once(" - ")?;
    let mut words = rest.split(' ');
    let kind = words.next()?;
    let options = words.nth(1).unwrap_or_default();
    let has = |wanted: &[&str]| options.split(',').any(|option| wanted.contains(&option));
    match kind {
        "nfs" | "nfs4" if has(&["nolock", "local_lock=all", "local_lock=flock"]) => {
            Some("mount it without `nolock`, and with `local_lock=none`")
        }
        "cifs" | "smb3" if has(&["nobrl", "nolock"]) => Some("mount it without `nobrl`"),
        "lustre" if !has(&["flock"]) => Some("mount it with `flock`"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(device: &str, kind: &str, options: &str) -> String {
        format!("36 35 {device} / /srv rw,noatime shared:1 - {kind} server:/export {options}\n")
    }

    #[test]
    fn locks_that_other_machines_do_not_see_are_known_by_the_mount() {
        for (kind, options, refused) in [
            (
                "nfs4",
                "rw,vers=4.2,hard,local_lock=none,addr=192.0.2.1",
                false,
            ),
            ("nfs", "rw,vers=3,nolock,local_lock=all", true),
            ("nfs", "rw,vers=3,local_lock=flock", true),
            ("nfs", "rw,vers=3,local_lock=posix", false),
            ("cifs", "rw,nobrl", true),
            ("smb3", "rw,cache=strict", false),
            ("lustre", "rw,flock", false),
            ("lustre", "rw,localflock", true),
            ("ceph", "rw", false),
            ("ext4", "rw,nolock", false),
        ] {
            let mounts = line("8:1", "ext4", "rw") + &line("0:42", kind, options);
            assert_eq!(
                unseen(&mounts, "0:42").is_some(),
                refused,
                "{kind} {options}"
            );
            assert_eq!(unseen(&mounts, "8:1"), None);
            assert_eq!(unseen(&mounts, "9:9"), None);
        }
    }

    #[test]
    fn this_machine_s_own_file_systems_are_found() {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let device = device(Path::new("/proc")).unwrap();
        assert!(
            mounts
                .lines()
                .any(|line| line.split(' ').nth(2) == Some(device.as_str()))
        );
    }
}

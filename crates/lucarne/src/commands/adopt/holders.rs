//! Detection of software that still holds the log without signing it, because it is idle or paused.

use lucarne_storage::{AssetError, PosixAssets, holders};

use super::findings::{Findings, Verdict};
use crate::config::{DataPlace, LockPlace, LogSettings};
use crate::open;

/// Searches for processes that hold the log's directory, or have files of the directory or the lock
/// open.
pub(super) async fn look(log: &LogSettings, lock: &LockPlace, findings: &mut Findings) {
    let DataPlace::Directory(directory) = &log.data.value else {
        return findings.add(
            "holder",
            Verdict::Noted,
            "processes that use a bucket are not visible from this machine",
        );
    };
    let examined = directory.clone();
    match open::blocking(move || PosixAssets::examine(examined)).await {
        Ok(_) => {}
        Err(error @ AssetError::InUse { .. }) => {
            return findings.refused("holder", &error.to_string());
        }
        Err(error) => return findings.add("holder", Verdict::Unknown, &error.to_string()),
    }
    let lock = match lock {
        LockPlace::Sqlite(path) => vec![path.clone()],
        _ => Vec::new(),
    };
    let holders = holders(directory, &lock);
    if let Some(holder) = holders.found.first() {
        let why = format!("{holder}: stop it permanently; a paused process signs later");
        return findings.refused("holder", &why);
    }
    let unseen = match holders.unseen {
        0 => String::new(),
        unseen => format!("; {unseen} processes of other users were not checked: run as root"),
    };
    findings.right(
        "holder",
        &format!("no process has files of the log open{unseen}"),
    );
}

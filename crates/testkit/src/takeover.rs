use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Once,
};

use crate::{TempDir, temp_dir};

/// A directory that another log left behind, unpacked from
/// `$LUCARNE_TAKEOVER/<name>.tar.gz`, or from `../shared/takeover` beside the
/// workspace. Where there is none, a test says so (this function prints one line
/// per process) and passes.
///
/// # Panics
/// If the archive cannot be unpacked.
pub fn takeover(name: &str) -> Option<TempDir> {
    static SAID: Once = Once::new();
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/takeover");
    let folder = std::env::var_os("LUCARNE_TAKEOVER").map_or_else(beside, PathBuf::from);
    let archive = folder.join(format!("{name}.tar.gz"));
    if !archive.is_file() {
        SAID.call_once(|| {
            let folder = folder.display();
            eprintln!("skipped: no directories of other logs at {folder} (set LUCARNE_TAKEOVER)");
        });
        return None;
    }
    let directory = temp_dir();
    let mut tar = Command::new("tar");
    let tar = tar
        .arg("-xzf")
        .arg(&archive)
        // TesseraCT's index of duplicates, which has gigabytes of room: nobody else reads it.
        .args(["--exclude=*/antispam/*", "--strip-components=1", "-C"]);
    let status = tar.arg(directory.path()).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "cannot unpack {}",
        archive.display()
    );
    Some(directory)
}

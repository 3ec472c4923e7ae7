use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Once,
};

use lucarne_mint::testing::once_per_run;

use crate::{TempDir, temp_dir};

/// Unpacks the directory of another log from `$LUCARNE_TAKEOVER/<name>.tar.gz`, or from
/// `../shared/takeover` next to the workspace. Without the archives, this function prints one line
/// per process, and tests pass.
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
    let unpacked = once_per_run(&format!("takeover-{name}"), |to| unpack(&archive, to));
    match unpacked {
        Some(unpacked) => copy_directory(&unpacked, directory.path()),
        None => unpack(&archive, directory.path()),
    }
    Some(directory)
}

fn unpack(archive: &Path, to: &Path) {
    let mut tar = Command::new("tar");
    tar.arg("-xzf")
        .arg(archive)
        // TesseraCT's deduplication index takes gigabytes, and no other program reads it.
        .args(["--exclude=*/antispam/*", "--strip-components=1", "-C"])
        .arg(to);
    succeed(&mut tar);
}

/// Copies a directory with all owners, modes and times. `to` need not exist.
///
/// # Panics
/// If the copy fails.
pub(crate) fn copy_directory(from: &Path, to: &Path) {
    let mut cp = Command::new("cp");
    cp.args(["--archive", "--no-target-directory"])
        .arg(from)
        .arg(to);
    succeed(&mut cp);
}

fn succeed(command: &mut Command) {
    let status = command.status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{command:?} failed"
    );
}

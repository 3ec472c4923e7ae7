//! Atomic writing of files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes `text` to a temporary file beside `path` and renames it to `path`. A pipe or device
/// (`/dev/stdout`) is written to directly.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    write_bytes(path, text.as_bytes())
}

/// Writes `bytes` as [`write`] writes text.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Symbolic links stay; the file that they point to is replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        let mut special = OpenOptions::new().write(true).open(&path)?;
        special.write_all(bytes)?;
        return special.flush();
    }
    let beside = beside(&path);
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let placed = written.and_then(|()| fs::rename(&beside, &path));
    if placed.is_err() {
        let _ = fs::remove_file(&beside);
    }
    placed
}

/// Tests whether [`write`] can create the file, before a long run.
pub(crate) fn probe(path: &Path) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|found| found.is_dir()) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if path.exists() {
        let opened = OpenOptions::new().append(true).open(&path).map(|_| ());
        // Pipes and devices are written to directly.
        if opened.is_err() || !fs::metadata(&path).is_ok_and(|found| found.is_file()) {
            return opened;
        }
    }
    let beside = beside(&path);
    File::create(&beside)?;
    fs::remove_file(&beside)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_stays_beside() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("summary.json");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&file, "old").unwrap();
        write(&link, "new").unwrap();
        probe(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let nowhere = directory.path().join("no/such/file");
        assert!(write(&nowhere, "x").is_err() && probe(&nowhere).is_err());
        assert!(write(directory.path(), "x").is_err() && probe(directory.path()).is_err());
        if Path::new("/dev/full").exists() {
            assert!(write(Path::new("/dev/full"), "x").is_err());
            assert!(!fs::metadata("/dev/full").unwrap().is_file());
        }
    }
}

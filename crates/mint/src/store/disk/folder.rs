//! Directory of a store: a folder for each CA, a file for each key, and lock files.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use super::private::{Lock, STRIPES, open_regular, private_directory, private_file, saying};
use super::{OpenError, file};
use crate::store::minted::CertificateFields;
use crate::store::{Fingerprint, Minted, StoreKey};
use crate::{check_access, pem};

/// Size limit of a certificate's file in bytes.
const MAX_FILE: u64 = 256 * 1024;

/// Number of writes between sweeps.
const SWEEP_EVERY: u64 = 256;

/// Age after which a sweep removes an unfinished file.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

const LOCKS: &str = "locks";
const UNFINISHED: &str = "unfinished-";

#[derive(Debug)]
pub(super) struct Folder {
    directory: PathBuf,
    writes: AtomicU64,
}

/// Numbers of removed files.
#[derive(Debug, Default)]
pub(super) struct Swept {
    pub(super) expired: u64,
    pub(super) evicted: u64,
}

impl Folder {
    pub(super) fn open(directory: &Path) -> Result<Self, OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io { path, source }
        };
        private_directory(directory).map_err(failed(directory))?;
        match check_access(directory) {
            Ok(None) => {}
            Ok(Some(shared)) => {
                tracing::warn!("the certificate store {} {shared}", directory.display())
            }
            Err(exposed) => {
                return Err(OpenError::Exposed {
                    path: directory.to_owned(),
                    exposed,
                });
            }
        }
        Ok(Folder {
            directory: directory.to_owned(),
            writes: AtomicU64::new(0),
        })
    }

    /// Checks that locks can be taken, and thus that the directory is writable.
    pub(super) fn check(&self) -> io::Result<()> {
        let locks = self.directory.join(LOCKS);
        private_directory(&locks).map_err(|error| saying(&locks, error))?;
        Lock::try_take(&locks.join("00")).map(drop)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of a key's certificate.
    pub(super) fn path(&self, key: &StoreKey) -> PathBuf {
        self.of_ca(&key.ca).join(name(key))
    }

    fn of_ca(&self, ca: &Fingerprint) -> PathBuf {
        self.directory.join(hex::encode(&ca.0[..16]))
    }

    /// Waits for the lock of a key.
    pub(super) async fn lock(&self, key: &StoreKey) -> io::Result<Lock> {
        Lock::take(&self.lock_of(&name(key))).await
    }

    /// Returns the lock file for a certificate's file.
    fn lock_of(&self, name: &str) -> PathBuf {
        let digits = name.get(..2).unwrap_or_default();
        let stripe = u8::from_str_radix(digits, 16).unwrap_or(0) % STRIPES;
        self.directory.join(LOCKS).join(format!("{stripe:02}"))
    }

    /// Reads the file of a key. Returns `None` if the file does not exist.
    pub(super) fn read(&self, key: &StoreKey) -> io::Result<Option<String>> {
        let path = self.path(key);
        let said = |error| saying(&path, error);
        let file = match open_regular(File::options().read(true), &path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(said(error)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes).map_err(said)?;
        // Content that is not UTF-8 is not PEM either: the parser reports the error.
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Writes a certificate's file. Returns whether a sweep is due.
    ///
    /// The modification time of the file is the end of the certificate's validity, so a sweep need
    /// not read the file.
    pub(super) fn write(&self, key: &StoreKey, minted: &Minted) -> io::Result<bool> {
        let number = self.writes.fetch_add(1, Relaxed);
        let (path, folder) = (self.path(key), self.of_ca(&key.ca));
        private_directory(&folder).map_err(|error| saying(&folder, error))?;
        let unfinished = folder.join(format!("{UNFINISHED}{}-{number}", unique()));
        let text = file::write(key, minted);
        let written = write_and_rename(&unfinished, &path, &text, minted.not_after);
        if let Err(error) = written {
            // The file may not exist.
            let _ = fs::remove_file(&unfinished);
            return Err(saying(&path, error));
        }
        File::open(&folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| saying(&folder, error))?;
        Ok(number.is_multiple_of(SWEEP_EVERY))
    }

    /// Removes expired certificates. Then removes the certificates that expire first, until at most
    /// `keep` are left.
    pub(super) fn sweep(&self, now: SystemTime, keep: usize) -> io::Result<Swept> {
        let (mut swept, mut good) = (Swept::default(), Vec::new());
        for folder in entries(&self.directory)? {
            if folder.file_name().is_some_and(|name| name == LOCKS) {
                continue;
            }
            for path in entries(&folder)? {
                let Some(ends) = modified(&path) else {
                    continue;
                };
                if file_name(&path).starts_with(UNFINISHED) {
                    // A younger file is not evicted: a process may be writing it.
                    if written(&path).is_some_and(|written| written + LEFT_BEHIND <= now) {
                        self.remove(&path, ends)?;
                    }
                } else if ends > now {
                    good.push((ends, path));
                } else if let Some(ends) = copied(&path, now) {
                    good.push((ends, path));
                } else {
                    swept.expired += u64::from(self.remove(&path, ends)?);
                }
            }
            // Succeeds only if no file of this CA is left.
            let _ = fs::remove_dir(&folder);
        }
        if good.len() > keep {
            good.sort_unstable();
            // Removes a tenth more, so that the next certificate needs no sweep.
            let surplus = good.len() - (keep - keep / 10);
            for (ends, path) in &good[..surplus] {
                swept.evicted += u64::from(self.remove(path, *ends)?);
            }
        }
        Ok(swept)
    }

    /// Removes a file, unless another caller is replacing it or has replaced it.
    fn remove(&self, path: &Path, ends: SystemTime) -> io::Result<bool> {
        let lock = Lock::try_take(&self.lock_of(file_name(path)))?;
        if lock.is_none() || modified(path) != Some(ends) {
            return Ok(false);
        }
        fs::remove_file(path).map_err(|error| saying(path, error))?;
        Ok(true)
    }
}

/// Returns the name of a key's file. The name is a hash, because hosts can be longer than names of
/// files. The first two digits of the hash determine the lock file.
fn name(key: &StoreKey) -> String {
    let text = format!("{} {} {}", key.ca, key.key_type, key.host);
    let digest = Fingerprint::of(text.as_bytes());
    format!("{}.pem", hex::encode(&digest.0[..20]))
}

/// Returns a suffix that is unique among processes, including earlier processes with the same
/// number.
fn unique() -> String {
    let mut random = [0; 8];
    // Without random bytes, only the process number distinguishes the names.
    let _ = crate::random(&mut random);
    format!("{}-{}", std::process::id(), hex::encode(random))
}

fn write_and_rename(at: &Path, to: &Path, text: &str, modified: SystemTime) -> io::Result<()> {
    let mut file = create(at)?;
    file.write_all(text.as_bytes())?;
    file.set_modified(modified)?;
    file.sync_all()?;
    fs::rename(at, to)
}

/// Creates a new file. If a sweep has removed the empty folder, creates the folder again.
fn create(at: &Path) -> io::Result<File> {
    let open = || private_file().create_new(true).open(at);
    match (open(), at.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            private_directory(folder)?;
            open()
        }
        (opened, _) => opened,
    }
}

/// Returns the entries of a directory, or none if there is no directory.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let listed = match fs::read_dir(directory) {
        Ok(listed) => listed,
        Err(error) if gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(saying(directory, error)),
    };
    listed.map(|entry| Ok(entry?.path())).collect()
}

fn gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Returns the end of validity of the certificate in a file, if this end is in the future. A copied
/// file has a wrong modification time; this function corrects it.
fn copied(path: &Path, now: SystemTime) -> Option<SystemTime> {
    let mut text = Vec::new();
    let file = open_regular(File::options().read(true), path).ok()?;
    file.take(MAX_FILE).read_to_end(&mut text).ok()?;
    let blocks = pem::blocks(&text).into_iter();
    let mut certificates = blocks.filter(|block| block.label == "CERTIFICATE");
    let leaf = certificates.next()?.contents.ok()?;
    let ends = CertificateFields::read(&leaf)?.not_after;
    if ends <= now {
        return None;
    }
    // If this fails, the next sweep reads the file again.
    let written = File::options().write(true).open(path);
    let _ = written.and_then(|file| file.set_modified(ends));
    Some(modified(path).unwrap_or(ends))
}

/// Returns the modification time of a regular file; `None` for everything else.
fn modified(path: &Path) -> Option<SystemTime> {
    let metadata = fs::symlink_metadata(path).ok()?;
    metadata.is_file().then(|| metadata.modified().ok())?
}

/// Returns the time of the last write to an unfinished file. Its modification time may already be
/// the end of the certificate's validity.
fn written(path: &Path) -> Option<SystemTime> {
    let seconds = u64::try_from(fs::symlink_metadata(path).ok()?.ctime()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn file_name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_a_sweep_has_removed_is_created_again() {
        let home = tempfile::tempdir().unwrap();
        let store = home.path().join("store");
        let other_process = Folder::open(&store).unwrap();
        let folder = store.join("ca");
        private_directory(&folder).unwrap();
        other_process.sweep(SystemTime::now(), 1).unwrap();
        assert!(!folder.exists());

        let (at, to) = (folder.join("unfinished-1"), folder.join("a.pem"));
        write_and_rename(&at, &to, "certificate", SystemTime::now()).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "certificate");
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }
}

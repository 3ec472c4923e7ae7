//! The last signed tree head, on disk.
//!
//! The file is the signed note itself. The signature of the note identifies the log and protects
//! against changes. A log that has signed nothing has a file that states this. A missing or damaged
//! file is therefore always an error.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use lucarne_ct::{CheckpointError, KeyHolder, verify_checkpoint};
use lucarne_tlog::{SignedNote, VerifierKey};

use crate::guard::Head;

/// The last line of the file of a log that has signed nothing; the line before it is the origin.
const NOTHING: &str = "nothing signed yet\n";

/// The reasons why a memory is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The file system failed.
    #[error("cannot access {path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Other users can write to the directory or to a file in it.
    #[error(
        "{path} is writable by all users of this machine (mode {mode:o}): they could replace the \
         record of the last signature, so run: chmod go-w {path}"
    )]
    Exposed {
        /// The file or directory.
        path: PathBuf,
        /// Permission bits of the file or directory.
        mode: u32,
    },
    /// Another signer uses the directory.
    #[error("{0} is in use by another signer")]
    Taken(PathBuf),
    /// The file is missing.
    #[error(
        "{path}, the record of the last signature by the key of {origin}, is missing: nothing is \
         signed without it. Restore the file. If it is lost, create it from the newest known \
         checkpoint of the log with `lucarne signer adopt`. For a log that never signed \
         anything, use `lucarne signer first-use`"
    )]
    Missing {
        /// Path of the file.
        path: PathBuf,
        /// The log's origin.
        origin: String,
    },
    /// The file is damaged.
    #[error(
        "{path}, the record of the last signature by the key of {origin}, is damaged: {problem}. \
         Nothing is signed; restore the file from the newest known checkpoint of the log"
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The log's origin.
        origin: String,
        /// The error in the file or note.
        problem: String,
    },
    /// The file exists and must not be created again.
    #[error("{0} exists: the record of a key's signatures is never replaced")]
    Exists(PathBuf),
    /// The note is not a checkpoint of this log.
    #[error("not a checkpoint signed by the key of {origin}: {source}")]
    Checkpoint {
        /// The log's origin.
        origin: String,
        /// The error in the file or note.
        source: CheckpointError,
    },
}

fn at(path: &Path) -> impl Fn(io::Error) -> MemoryError {
    let path = path.to_owned();
    move |source| MemoryError::Io {
        path: path.clone(),
        source,
    }
}

/// Permission bits of all users outside the group, and of the group, to write.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;

/// Returns the permission bits of a file or directory.
pub(crate) fn mode(metadata: &fs::Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

/// Refuses a file or directory that all users can write to. Warns if its group can write to it.
fn check_writers(path: &Path, metadata: &fs::Metadata) -> Result<(), MemoryError> {
    let mode = mode(metadata);
    if mode & OTHERS_WRITE != 0 {
        return Err(MemoryError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    if mode & GROUP_WRITES != 0 {
        tracing::warn!(
            "{path} is writable by its group (mode {mode:o}): members could replace the record of \
             the last signature; run `chmod g-w {path}`",
            path = path.display()
        );
    }
    Ok(())
}

/// The directory with the memories of all logs of a signer, locked by this process.
#[derive(Debug)]
pub struct MemoryDirectory {
    path: PathBuf,
    _lock: File,
}

impl MemoryDirectory {
    /// Opens the directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// If all users can write to the directory, another process uses it, or the file system fails.
    pub fn open(path: &Path) -> Result<Self, MemoryError> {
        let mut make = fs::DirBuilder::new();
        make.recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(at(path))?;
        check_writers(path, &fs::metadata(path).map_err(at(path))?)?;
        let file = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&file)
            .map_err(at(&file))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(MemoryError::Taken(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(at(&file)(error)),
        }
    }

    /// Returns the memory of a log, whether or not its file exists.
    pub fn of(&self, origin: &str, key: &dyn KeyHolder) -> Memory {
        let cosigner = key.cosigner(origin).ok().flatten();
        Memory {
            path: self.path.join(hex::encode(key.log_id().0)),
            origin: origin.to_owned(),
            spki: key.public_key_spki().to_vec(),
            second: cosigner.map(|cosigner| cosigner.verifier().clone()),
        }
    }
}

/// The memory of one log.
#[derive(Debug)]
pub struct Memory {
    path: PathBuf,
    origin: String,
    spki: Vec<u8>,
    /// The key of the second signature, if the notes of this log have one.
    second: Option<VerifierKey>,
}

impl Memory {
    /// Reads the last signed note; `None` if nothing was signed.
    ///
    /// # Errors
    /// If the memory is missing or damaged, or all users can write to it.
    pub fn read(&self) -> Result<Option<(Head, Vec<u8>)>, MemoryError> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(MemoryError::Missing {
                    path: self.path.clone(),
                    origin: self.origin.clone(),
                });
            }
            Err(error) => return Err(at(&self.path)(error)),
        };
        let metadata = fs::metadata(&self.path).map_err(at(&self.path))?;
        check_writers(&self.path, &metadata)?;
        if bytes == self.nothing().as_bytes() {
            return Ok(None);
        }
        match self.head(&bytes) {
            Ok(head) => Ok(Some((head, bytes))),
            Err(problem) => Err(self.damaged(problem)),
        }
    }

    /// Returns the tree head of a signed note of this log. A note without a second signature is
    /// valid; an invalid one is refused, because the note may be sent again.
    ///
    /// # Errors
    /// If the note is not a signed note of this log.
    pub fn head(&self, note: &[u8]) -> Result<Head, CheckpointError> {
        let (checkpoint, timestamp_ms) = verify_checkpoint(note, &self.origin, &self.spki)?;
        if let Some(second) = &self.second {
            second.verify(&SignedNote::parse(note)?)?;
        }
        Ok(Head {
            size: checkpoint.size,
            root: checkpoint.root,
            timestamp_ms,
        })
    }

    fn damaged(&self, problem: impl ToString) -> MemoryError {
        MemoryError::Damaged {
            path: self.path.clone(),
            origin: self.origin.clone(),
            problem: problem.to_string(),
        }
    }

    /// Stores a note before it is sent. The note is on disk when `write` returns.
    ///
    /// # Errors
    /// If it is unknown whether the note is on disk. The note must not be sent then.
    pub fn write(&self, note: &[u8]) -> Result<(), MemoryError> {
        let beside = self.path.with_extension("part");
        let written = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&beside)
            .and_then(|mut file| {
                file.write_all(note)?;
                file.sync_all()
            });
        written.map_err(at(&beside))?;
        fs::rename(&beside, &self.path).map_err(at(&self.path))?;
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(at(directory))
    }

    /// Creates the memory of a log that has never signed anything.
    ///
    /// # Errors
    /// If the memory exists, or the file system fails.
    pub fn first_use(&self) -> Result<(), MemoryError> {
        self.absent()?;
        self.write(self.nothing().as_bytes())
    }

    /// Creates the memory of a log from its last signed note.
    ///
    /// # Errors
    /// If the memory exists, the note is not a checkpoint of the log, or the file system fails.
    pub fn adopt(&self, note: &[u8]) -> Result<Head, MemoryError> {
        self.absent()?;
        let head = self.head(note).map_err(|source| MemoryError::Checkpoint {
            origin: self.origin.clone(),
            source,
        })?;
        self.write(note)?;
        Ok(head)
    }

    fn absent(&self) -> Result<(), MemoryError> {
        if self.path.try_exists().map_err(at(&self.path))? {
            Err(MemoryError::Exists(self.path.clone()))
        } else {
            Ok(())
        }
    }

    fn nothing(&self) -> String {
        format!("{}\n{NOTHING}", self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucarne_ct::LogKey;
    use lucarne_tlog::EMPTY_ROOT;

    const ORIGIN: &str = "log.example/2026h2";

    fn memory(directory: &MemoryDirectory, key: &LogKey) -> Memory {
        directory.of(ORIGIN, key)
    }

    #[test]
    fn what_was_written_is_remembered() {
        let place = tempfile::tempdir().unwrap();
        let directory = MemoryDirectory::open(&place.path().join("memory")).unwrap();
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let memory = memory(&directory, &key);
        assert!(matches!(memory.read(), Err(MemoryError::Missing { .. })));
        memory.first_use().unwrap();
        assert!(memory.read().unwrap().is_none());
        assert!(matches!(memory.first_use(), Err(MemoryError::Exists(_))));

        let note = key.sign_checkpoint(ORIGIN, 0, &EMPTY_ROOT, 5).unwrap();
        memory.write(note.as_bytes()).unwrap();
        let (head, bytes) = memory.read().unwrap().unwrap();
        assert_eq!((head.size, head.timestamp_ms), (0, 5));
        assert_eq!(bytes, note.as_bytes());
        assert!(matches!(
            memory.adopt(note.as_bytes()),
            Err(MemoryError::Exists(_))
        ));
    }

    #[test]
    fn a_damaged_memory_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let directory = MemoryDirectory::open(place.path()).unwrap();
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let memory = memory(&directory, &key);
        let note = key.sign_checkpoint(ORIGIN, 0, &EMPTY_ROOT, 5).unwrap();
        let second = note.rfind('—').unwrap();
        let note = note.as_bytes();
        memory.head(&note[..second]).unwrap();
        let mut flipped = note.to_vec();
        let at = second + 100;
        flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
        fs::write(&memory.path, &flipped).unwrap();
        assert!(matches!(memory.read(), Err(MemoryError::Damaged { .. })));
        fs::remove_file(&memory.path).unwrap();
        let adopted = memory.adopt(&flipped);
        assert!(matches!(adopted, Err(MemoryError::Checkpoint { .. })));
        for at in 0..second {
            let mut flipped = note.to_vec();
            flipped[at] ^= 1;
            for damaged in [&flipped[..], &note[..at]] {
                fs::write(&memory.path, damaged).unwrap();
                assert!(
                    matches!(memory.read(), Err(MemoryError::Damaged { .. })),
                    "{at}"
                );
            }
        }
    }

    #[test]
    fn only_a_checkpoint_of_the_log_is_adopted() {
        let place = tempfile::tempdir().unwrap();
        let directory = MemoryDirectory::open(place.path()).unwrap();
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let memory = memory(&directory, &key);
        let sign = |key: &LogKey, origin: &str| key.sign_checkpoint(origin, 0, &EMPTY_ROOT, 5);
        let other = LogKey::from_seed(&[8; 32]).unwrap();
        for foreign in [sign(&other, ORIGIN), sign(&key, "log.example/2026h1")] {
            let adopted = memory.adopt(foreign.unwrap().as_bytes());
            assert!(matches!(adopted, Err(MemoryError::Checkpoint { .. })));
        }
        memory
            .adopt(sign(&key, ORIGIN).unwrap().as_bytes())
            .unwrap();
        assert_eq!(memory.read().unwrap().unwrap().0.timestamp_ms, 5);
    }

    #[test]
    fn a_memory_that_all_users_can_change_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let permit = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (mode, accepted) in [
            (0o777, false),
            (0o1777, false),
            (0o775, true),
            (0o755, true),
        ] {
            permit(place.path(), mode);
            let opened = MemoryDirectory::open(place.path());
            assert_eq!(opened.is_ok(), accepted, "{mode:o}");
            if let Err(refused) = opened {
                let told = format!("(mode {mode:o}): they could replace");
                assert!(refused.to_string().contains(&told), "{refused}");
                assert!(refused.to_string().contains("run: chmod go-w"), "{refused}");
            }
        }
        let directory = MemoryDirectory::open(place.path()).unwrap();
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let memory = memory(&directory, &key);
        memory.first_use().unwrap();
        permit(&memory.path, 0o666);
        assert!(matches!(memory.read(), Err(MemoryError::Exposed { .. })));
        permit(&memory.path, 0o600);
        assert!(memory.read().unwrap().is_none());
    }

    #[test]
    fn two_signers_do_not_share_a_memory() {
        let place = tempfile::tempdir().unwrap();
        let held = MemoryDirectory::open(place.path()).unwrap();
        let second = MemoryDirectory::open(place.path());
        assert!(matches!(second, Err(MemoryError::Taken(_))));
        drop(held);
        MemoryDirectory::open(place.path()).unwrap();
    }
}

//! The list of stored files that differ from the bytes of the log, for the operator.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;

use crate::error::ReadError;
use crate::read::read_cache::FileId;

/// The time during which a damaged file is not read again. Otherwise, each retry of a client would
/// cost two reads of storage.
const RESPITE: Duration = Duration::from_secs(1);

/// Maximum number of files in the list. Further files are only counted.
const MOST_NAMES: usize = 1000;

/// Maximum number of files that a report lists, and that are read again at once.
const MOST_LISTED: usize = 5;

/// The files that were damaged at their last read.
#[derive(Default)]
pub(crate) struct DamagedFiles {
    files: Mutex<HashMap<FileId, Damage>>,
    /// Files that are wrong although every hash matches, with the checksum of their bytes and the
    /// problem.
    condemned: Mutex<HashMap<FileId, (u128, String)>>,
    /// The time during which a result is reused.
    respite: Duration,
    /// Number of reads that returned wrong bytes or no bytes.
    found: Counter,
    /// The number of files in the list.
    named: Gauge,
    /// Notifies that the list has a file that the log has not tried to restore yet.
    news: Notify,
}

struct Damage {
    problem: String,
    /// Whether entries of the log refer to the file, so that its absence is damage as well.
    needed: bool,
    at: Instant,
    /// The value of the counter `found` at the last read. Files are sorted by this number.
    number: u64,
    /// Whether the log has tried to restore the file.
    tried: bool,
}

impl DamagedFiles {
    /// Creates an empty list that counts damage in these metrics.
    pub(crate) fn new(found: Counter, named: Gauge) -> Self {
        DamagedFiles {
            files: Mutex::default(),
            condemned: Mutex::default(),
            respite: RESPITE,
            found,
            named,
            news: Notify::new(),
        }
    }

    /// Counts a read in which storage returned wrong bytes or no bytes.
    pub(crate) fn count(&self) {
        self.found.inc();
    }

    /// Adds a file to the list, and returns the error for its readers. All attempts to read the
    /// file failed.
    pub(crate) fn name(&self, file: FileId, problem: String) -> ReadError {
        let mut files = self.files.lock();
        let before = files.get(&file);
        let needed = before.is_some_and(|before| before.needed);
        let tried = before.is_some_and(|before| before.tried);
        if files.len() < MOST_NAMES || before.is_some() {
            let damage = Damage {
                needed,
                problem: problem.clone(),
                at: Instant::now(),
                number: self.found.get(),
                tried,
            };
            files.insert(file, damage);
        }
        self.named.set(files.len() as i64);
        if !tried {
            self.news.notify_one();
        }
        let path = file.path();
        ReadError::Damaged { path, problem }
    }

    /// Waits until the list has a file that [`untried`](Self::untried) has not returned yet.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// Returns the files that the log has not tried to restore yet, and marks these files as tried.
    pub(crate) fn untried(&self) -> Vec<FileId> {
        let mut files = self.files.lock();
        let untried = files.iter_mut().filter(|(_, damage)| !damage.tried);
        untried
            .map(|(file, damage)| {
                damage.tried = true;
                *file
            })
            .collect()
    }

    /// Makes [`untried`](Self::untried) return this file again.
    pub(crate) fn try_again(&self, file: FileId) {
        if let Some(damage) = self.files.lock().get_mut(&file) {
            damage.tried = false;
        }
    }

    /// Marks all files as not tried, so that [`untried`](Self::untried) returns every file again: a
    /// restored file may help to restore other files.
    pub(crate) fn try_all_again(&self) {
        let mut files = self.files.lock();
        files.values_mut().for_each(|damage| damage.tried = false);
        if !files.is_empty() {
            self.news.notify_one();
        }
    }

    /// Adds a file with this problem to the list, and records that entries refer to the file. The
    /// file then stays in the list while it is missing.
    pub(crate) fn need(&self, file: FileId, problem: String) {
        self.name(file, problem);
        if let Some(damage) = self.files.lock().get_mut(&file) {
            damage.needed = true;
        }
    }

    /// Records that the bytes with this checksum are wrong, although every hash matches.
    pub(crate) fn condemn(&self, file: FileId, sum: u128, problem: String) {
        let mut condemned = self.condemned.lock();
        if condemned.len() < MOST_NAMES || condemned.contains_key(&file) {
            condemned.insert(file, (sum, problem));
        }
    }

    /// Returns whether the last known bytes of a file were condemned.
    pub(crate) fn is_condemned(&self, file: FileId) -> bool {
        self.condemned.lock().contains_key(&file)
    }

    /// Returns the problem with the bytes that have this checksum, if they are condemned. If other
    /// bytes have replaced condemned bytes, the record is removed.
    pub(crate) fn condemned(&self, file: FileId, sum: impl FnOnce() -> u128) -> Option<String> {
        let mut condemned = self.condemned.lock();
        let (wrong, problem) = condemned.get(&file)?.clone();
        if wrong == sum() {
            return Some(problem);
        }
        condemned.remove(&file);
        None
    }

    /// Removes a missing file from the list.
    ///
    /// # Errors
    /// If entries refer to the file.
    pub(crate) fn absent(&self, file: FileId) -> Result<(), ReadError> {
        let files = self.files.lock();
        let needed = files.get(&file).is_some_and(|damage| damage.needed);
        drop(files);
        if needed {
            Err(self.name(file, "is missing, but entries refer to it".into()))
        } else {
            self.forget(file);
            Ok(())
        }
    }

    /// Removes an intact file from the list.
    pub(crate) fn forget(&self, file: FileId) {
        let mut files = self.files.lock();
        files.remove(&file);
        self.named.set(files.len() as i64);
    }

    /// Returns the problem with the file if a read found the problem within the respite.
    pub(crate) fn just_now(&self, file: FileId) -> Option<ReadError> {
        let files = self.files.lock();
        let damage = files.get(&file)?;
        (damage.at.elapsed() < self.respite).then(|| ReadError::Damaged {
            path: file.path(),
            problem: damage.problem.clone(),
        })
    }

    /// Returns the files whose last read is the oldest.
    pub(crate) fn oldest(&self) -> Vec<FileId> {
        let files = self.files.lock();
        let mut oldest: Vec<_> = files.iter().collect();
        oldest.sort_by_key(|(_, damage)| damage.number);
        let oldest = oldest.iter().take(MOST_LISTED);
        oldest.map(|(file, _)| **file).collect()
    }

    /// Formats some of the files with their problems; `None` if no file is damaged.
    pub(crate) fn in_words(&self) -> Option<String> {
        let listed = self.oldest();
        let files = self.files.lock();
        let words = listed.iter().filter_map(|file| {
            let damage = files.get(file)?;
            Some(format!("{}: {}", file.path(), damage.problem))
        });
        let mut words = words.collect::<Vec<_>>().join("; ");
        if files.len() > MOST_LISTED {
            words += &format!("; and {} more", files.len() - MOST_LISTED);
        }
        (!words.is_empty()).then_some(words)
    }
}

#[cfg(test)]
mod tests {
    use lucarne_tlog::{Level, Tile};

    use super::*;

    fn file(index: u64) -> FileId {
        FileId::Tile(Tile::new(Level::Hashes(0), index, 256).unwrap())
    }

    #[test]
    fn damaged_files_are_named_until_they_are_whole() {
        let damaged = DamagedFiles::default();
        assert_eq!(damaged.in_words(), None);
        for n in 0..7 {
            damaged.count();
            let error = damaged.name(file(n), "is short".into());
            assert_eq!(error.to_string(), format!("tile/0/00{n}: is short"));
        }
        let words = damaged.in_words().unwrap();
        assert!(words.starts_with("tile/0/000: is short; tile/0/001: "));
        assert!(words.ends_with("; and 2 more"), "{words}");
        damaged.count();
        damaged.name(file(0), "is short".into());
        assert_eq!(damaged.oldest().first(), Some(&file(1)));
        (0..7).for_each(|n| damaged.forget(file(n)));
        assert_eq!(damaged.in_words(), None);
    }

    #[test]
    fn what_was_found_stands_for_a_moment() {
        let mut damaged = DamagedFiles::new(Counter::default(), Gauge::default());
        damaged.respite = Duration::from_secs(1000);
        assert!(damaged.just_now(file(0)).is_none());
        damaged.name(file(0), "is short".into());
        assert!(damaged.just_now(file(0)).is_some());
        assert!(damaged.just_now(file(1)).is_none());
        damaged.respite = Duration::ZERO;
        assert!(damaged.just_now(file(0)).is_none());
    }

    #[test]
    fn a_file_that_is_needed_stays_named_while_it_is_missing() {
        let damaged = DamagedFiles::default();
        damaged.name(file(0), "is short".into());
        damaged.need(file(1), "is short".into());
        assert!(damaged.absent(file(0)).is_ok());
        assert!(damaged.absent(file(1)).is_err());
        let words = damaged.in_words().unwrap();
        assert_eq!(words, "tile/0/001: is missing, but entries refer to it");
        damaged.forget(file(1));
        assert_eq!(damaged.in_words(), None);
    }

    #[test]
    fn names_are_bounded() {
        let damaged = DamagedFiles::default();
        for n in 0..MOST_NAMES as u64 + 10 {
            damaged.name(file(n), String::new());
        }
        assert_eq!(damaged.files.lock().len(), MOST_NAMES);
        assert_eq!(damaged.named.get(), MOST_NAMES as i64);
    }
}

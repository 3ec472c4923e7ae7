//! The files of a log's storage that are not what the log wrote, for the operator.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;

use crate::ReadError;
use crate::read_cache::FileId;

/// The time that nobody asks again for a file that was found damaged: readers who
/// insist must not have storage asked twice each time.
const RESPITE: Duration = Duration::from_secs(1);

/// Most names that are remembered; more are only counted.
const MOST_NAMES: usize = 1000;

/// Most names that an answer lists, and files that are looked at again at once.
const MOST_LISTED: usize = 5;

/// The files that were damaged when they were last read.
#[derive(Default)]
pub(crate) struct Damaged {
    files: Mutex<HashMap<FileId, Damage>>,
    /// The files whose stored bytes, by their sum, are wrong in a way that no hash tells.
    condemned: Mutex<HashMap<FileId, (u128, String)>>,
    /// The time that what was found stands.
    respite: Duration,
    /// Reads that found what is not what the log wrote.
    found: Counter,
    /// The number of files that are named now.
    named: Gauge,
    /// A file was named that nothing has tried to restore.
    news: Notify,
}

struct Damage {
    problem: String,
    /// Entries of the log lead to it: that it is gone is damage as well.
    needed: bool,
    at: Instant,
    /// The number of those found before it.
    number: u64,
    /// The log has tried to restore the file.
    tried: bool,
}

impl Damaged {
    /// Nothing is damaged yet; what will be is counted here.
    pub(crate) fn new(found: Counter, named: Gauge) -> Self {
        Damaged {
            files: Mutex::default(),
            condemned: Mutex::default(),
            respite: RESPITE,
            found,
            named,
            news: Notify::new(),
        }
    }

    /// Counts a read that storage answered with something else, or not at all.
    pub(crate) fn count(&self) {
        self.found.inc();
    }

    /// Names a file that was damaged each time it was read.
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

    /// Waits until a file is named that [`untried`](Self::untried) has not returned.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// The named files that nothing has tried to restore. They count as tried from now on.
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

    /// Has [`untried`](Self::untried) return this file again.
    pub(crate) fn try_again(&self, file: FileId) {
        if let Some(damage) = self.files.lock().get_mut(&file) {
            damage.tried = false;
        }
    }

    /// Has [`untried`](Self::untried) return every named file again, because one was restored on
    /// which others may depend.
    pub(crate) fn try_all_again(&self) {
        let mut files = self.files.lock();
        files.values_mut().for_each(|damage| damage.tried = false);
        if !files.is_empty() {
            self.news.notify_one();
        }
    }

    /// Says of a file that was named in which words, and that entries lead to it:
    /// it stays named while it is missing.
    pub(crate) fn need(&self, file: FileId, problem: String) {
        self.name(file, problem);
        if let Some(damage) = self.files.lock().get_mut(&file) {
            damage.needed = true;
        }
    }

    /// Remembers that the bytes with this sum are wrong, although every hash agrees.
    pub(crate) fn condemn(&self, file: FileId, sum: u128, problem: String) {
        let mut condemned = self.condemned.lock();
        if condemned.len() < MOST_NAMES || condemned.contains_key(&file) {
            condemned.insert(file, (sum, problem));
        }
    }

    /// The problem with the bytes with this sum. Other bytes have taken the place of condemned
    /// ones: those are forgotten.
    pub(crate) fn condemned(&self, file: FileId, sum: impl FnOnce() -> u128) -> Option<String> {
        let mut condemned = self.condemned.lock();
        let (wrong, problem) = condemned.get(&file)?.clone();
        if wrong == sum() {
            return Some(problem);
        }
        condemned.remove(&file);
        None
    }

    /// Takes a file off the list that is no longer there.
    ///
    /// # Errors
    /// If it is needed.
    pub(crate) fn absent(&self, file: FileId) -> Result<(), ReadError> {
        let files = self.files.lock();
        let needed = files.get(&file).is_some_and(|damage| damage.needed);
        drop(files);
        match needed {
            true => Err(self.name(file, "is missing, although entries lead to it".into())),
            false => {
                self.forget(file);
                Ok(())
            }
        }
    }

    /// Takes a file off the list that is whole.
    pub(crate) fn forget(&self, file: FileId) {
        let mut files = self.files.lock();
        files.remove(&file);
        self.named.set(files.len() as i64);
    }

    /// The problem with the file a moment ago.
    pub(crate) fn just_now(&self, file: FileId) -> Option<ReadError> {
        let files = self.files.lock();
        let damage = files.get(&file)?;
        (damage.at.elapsed() < self.respite).then(|| ReadError::Damaged {
            path: file.path(),
            problem: damage.problem.clone(),
        })
    }

    /// The files that nobody has read for the longest time.
    pub(crate) fn oldest(&self) -> Vec<FileId> {
        let files = self.files.lock();
        let mut oldest: Vec<_> = files.iter().collect();
        oldest.sort_by_key(|(_, damage)| damage.number);
        let oldest = oldest.iter().take(MOST_LISTED);
        oldest.map(|(file, _)| **file).collect()
    }

    /// Some of them in words; `None` if nothing is damaged.
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
        let damaged = Damaged::default();
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
        let mut damaged = Damaged::new(Counter::default(), Gauge::default());
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
        let damaged = Damaged::default();
        damaged.name(file(0), "is short".into());
        damaged.need(file(1), "is short".into());
        assert!(damaged.absent(file(0)).is_ok());
        assert!(damaged.absent(file(1)).is_err());
        let words = damaged.in_words().unwrap();
        assert_eq!(words, "tile/0/001: is missing, although entries lead to it");
        damaged.forget(file(1));
        assert_eq!(damaged.in_words(), None);
    }

    #[test]
    fn names_are_bounded() {
        let damaged = Damaged::default();
        for n in 0..MOST_NAMES as u64 + 10 {
            damaged.name(file(n), String::new());
        }
        assert_eq!(damaged.files.lock().len(), MOST_NAMES);
        assert_eq!(damaged.named.get(), MOST_NAMES as i64);
    }
}

//! Read-back of objects that PUT has written, after the last iteration.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lucarne_load::http::Client;
use lucarne_load::{Note, Recorder, Tags};
use parking_lot::Mutex;

use super::acknowledged::ENTITY_TAG;
use super::content::Header;
use super::options::{Operation, Size};
use super::schedule::Cell;
use super::shared_state::{SharedState, WRITTEN};
use super::store::Store;
use crate::random::Random;

/// Share of damaged objects that the read-back finds with the probability [`CERTAINTY`].
const DAMAGED: f64 = 0.01;
/// Probability that a sample of an unlimited number of objects has a damaged object.
const CERTAINTY: f64 = 0.99;
/// Time limit for all stores and sizes together; requests in progress may exceed it.
const LIMIT: Duration = Duration::from_secs(120);
/// Limit of concurrent requests.
const AT_ONCE: usize = 8;

/// Reads a random sample of the objects of each store and size. Returns a note with the number of
/// objects, if PUT has written any.
pub(super) async fn read_back(shared: &SharedState, recorder: &Recorder) -> Option<Note> {
    if !shared.options.operations.contains(&Operation::Put) {
        return None;
    }
    let until = Instant::now() + LIMIT;
    let sizes = &shared.options.sizes;
    let mut left = shared.stores.len() * sizes.len();
    let mut lines = Vec::new();
    for index in 0..shared.stores.len() {
        for &size in sizes {
            let share = until.saturating_duration_since(Instant::now()) / left.max(1) as u32;
            left -= 1;
            let reader = Reader {
                shared,
                index,
                size,
                recorder,
                tags: recorder.tags(&[("op", "read-back")]),
                until: Instant::now() + share,
            };
            lines.extend(reader.read().await);
        }
    }
    let title = "Objects read back".into();
    (!lines.is_empty()).then_some(Note { title, lines })
}

/// Reads the objects of one store and size.
struct Reader<'a> {
    shared: &'a SharedState,
    /// Index of the store.
    index: usize,
    size: Size,
    recorder: &'a Recorder,
    tags: Tags,
    until: Instant,
}

impl Reader<'_> {
    /// Reads a sample. Returns the line of the note.
    async fn read(&self) -> Option<String> {
        let written = self.written();
        let total = written.len();
        let mut random = Random::new(self.shared.seed, self.size.0);
        let sample = choose(written, sample_size(), &mut random);
        let workers = AT_ONCE.min(sample.len());
        let sample = Mutex::new(sample.into_iter());
        let store = &self.shared.stores[self.index];
        let clients = (0..workers).filter_map(|_| store.client());
        let read = clients.map(|client| self.work(store, client, &sample));
        let read = join_all(read).await.into_iter().sum();
        (total > 0).then(|| line(&store.name, self.size, read, total))
    }

    /// Returns the objects that PUT has written.
    fn written(&self) -> Vec<(String, Header)> {
        let cell = Cell {
            store: self.index,
            operation: Operation::Put,
            size: self.size,
            concurrency: None,
        };
        let numbers = 0..self.shared.put_numbers(self.index);
        let all = numbers.map(|number| self.shared.object("put", &cell, number));
        let acknowledged = &self.shared.acknowledged[self.index];
        all.filter(|(key, _)| acknowledged.contains(key)).collect()
    }

    /// Reads objects until there are no more, or until the end of the time. Returns their number.
    async fn work(
        &self,
        store: &Store,
        mut client: Client,
        objects: &Mutex<std::vec::IntoIter<(String, Header)>>,
    ) -> usize {
        let mut read = 0;
        loop {
            let next = objects.lock().next();
            let Some((key, header)) = next else {
                return read;
            };
            self.check(store, &mut client, &key, &header).await;
            read += 1;
            if Instant::now() >= self.until {
                return read;
            }
        }
    }

    /// Reads one object, and compares it with the written bytes.
    async fn check(&self, store: &Store, client: &mut Client, key: &str, header: &Header) {
        let mut comparison = self.shared.content.comparison(header, self.size.0);
        let response = store.get(client, key, &mut comparison).await;
        let outcome = match &response.exchange.outcome {
            Err(failure) => Err(failure.to_string()),
            Ok(()) => comparison.result().map_err(|error| error.to_string()),
        };
        if outcome.is_ok() {
            let tag = self.shared.acknowledged[self.index].compare(key, &response);
            let tag = tag.map_err(|how| format!("{key}: {how}"));
            self.recorder.check(self.tags, ENTITY_TAG, tag);
        }
        let name = &store.name;
        let outcome = outcome.map_err(|how| format!("{key} at {name}, read back: {how}"));
        self.recorder.check(self.tags, WRITTEN, outcome);
    }
}

/// Returns the number of objects that finds a share of [`DAMAGED`] with [`CERTAINTY`]: the smallest
/// n with 1 - (1 - DAMAGED)^n >= CERTAINTY.
fn sample_size() -> usize {
    ((1.0 - CERTAINTY).ln() / (1.0 - DAMAGED).ln()).ceil() as usize
}

/// Chooses `count` items at random, or all if there are fewer.
fn choose<T>(mut all: Vec<T>, count: usize, random: &mut Random) -> Vec<T> {
    let total = all.len();
    let count = count.min(total);
    for index in 0..count {
        let other = index + random.below((total - index) as u64) as usize;
        all.swap(index, other);
    }
    all.truncate(count);
    all
}

fn line(name: &str, size: Size, read: usize, total: usize) -> String {
    if read == total {
        return format!("{name}: {size}: all {total} objects");
    }
    let certainty = 1.0 - (1.0 - DAMAGED).powi(i32::try_from(read).unwrap_or(i32::MAX));
    format!(
        "{name}: {size}: {read} of {total} objects; this finds 1% damaged objects with a \
         probability of {:.0}%",
        100.0 * certainty
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn samples_are_large_enough_and_have_no_object_twice() {
        assert_eq!(sample_size(), 459);
        let chosen = choose((0..1000).collect(), 459, &mut Random::new(7, 1));
        assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 459);
        // The first objects have no preference.
        assert!(chosen.iter().filter(|number| **number >= 500).count() > 150);
        assert_eq!(choose(vec![1], 459, &mut Random::new(7, 1)), [1]);
        assert!(choose(Vec::<u8>::new(), 459, &mut Random::new(7, 1)).is_empty());
    }

    #[test]
    fn the_note_has_the_certainty() {
        assert_eq!(line("a", Size(4096), 64, 64), "a: 4KiB: all 64 objects");
        assert_eq!(
            line("a", Size(4096), 459, 1000),
            "a: 4KiB: 459 of 1000 objects; this finds 1% damaged objects with a probability of 99%"
        );
        let few = line("a", Size(4096), 100, 1000);
        assert!(few.ends_with("a probability of 63%"), "{few}");
    }
}

//! State that all users of the scenario share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lucarne_load::http::kind;
use lucarne_load::{Note, PrepareError, Recorder, Tags};

use super::acknowledged::{AcknowledgedObjects, ENTITY_TAG};
use super::conditional_put::RaceCounts;
use super::content::{Content, Header, header, mix};
use super::objects::{self, ListError, RemoveError};
use super::options::{Operation, S3Options};
use super::schedule::{Cell, Progress, Schedule};
use super::store::Store;
use crate::connection_options::wrong;

/// Name of the check of an object's bytes.
pub(super) const WRITTEN: &str = "object is what was written";

/// State that all users share.
pub(super) struct SharedState {
    pub(super) stores: Vec<Store>,
    pub(super) cells: Vec<Cell>,
    /// `None` if all cells run in turn.
    pub(super) schedule: Option<Schedule>,
    pub(super) content: Content,
    pub(super) objects: u64,
    pub(super) racers: u32,
    pub(super) seed: u64,
    /// Counts of each store.
    pub(super) counts: Vec<RaceCounts>,
    /// Acknowledged objects of each store.
    pub(super) acknowledged: Vec<AcknowledgedObjects>,
    /// Prefix of all names of this run.
    pub(super) prefix: String,
    pub(super) puts: Vec<AtomicU64>,
    pub(super) made_bucket: Vec<AtomicBool>,
    pub(super) options: S3Options,
}

impl SharedState {
    pub(super) fn new(options: S3Options, seed: u64) -> Result<Self, PrepareError> {
        validate(&options)?;
        let stores = Store::all(&options)?;
        let cells = Cell::all(&options, stores.len());
        let limits = cells.iter().map(|cell| cell.concurrency);
        let limits: Option<Vec<u32>> = limits.collect();
        let largest = options.sizes.iter().max().map_or(0, |size| size.0);
        // Two runs with one seed must use different names, so the name includes the time.
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let run = mix(seed ^ now.as_nanos() as u64);
        Ok(Self {
            cells,
            schedule: limits.map(|limits| Schedule::new(limits, options.cell_duration.0)),
            content: Content::new(seed, largest),
            objects: u64::from(options.objects),
            racers: options.racers,
            seed,
            counts: stores.iter().map(|_| RaceCounts::default()).collect(),
            acknowledged: stores
                .iter()
                .map(|_| AcknowledgedObjects::default())
                .collect(),
            prefix: format!("{}{run:016x}/", options.prefix),
            puts: stores.iter().map(|_| AtomicU64::new(0)).collect(),
            made_bucket: stores.iter().map(|_| AtomicBool::new(false)).collect(),
            stores,
            options,
        })
    }

    /// Returns name and header of an object.
    pub(super) fn object(&self, purpose: &str, cell: &Cell, number: u64) -> (String, Header) {
        let key = format!("{}{purpose}-{}-{number:x}", self.prefix, cell.size);
        (key, header(self.seed, purpose, number, 0))
    }

    /// Returns the number of the next object to write. The numbers repeat, so that the disk does
    /// not fill up.
    pub(super) fn next_put(&self, store: usize) -> u64 {
        self.puts[store].fetch_add(1, Ordering::Relaxed) % self.objects
    }

    /// Returns the end of the numbers of objects that [`next_put`](Self::next_put) has returned.
    pub(super) fn put_numbers(&self, store: usize) -> u64 {
        self.objects.min(self.puts[store].load(Ordering::Relaxed))
    }

    /// Returns the tags of a cell.
    pub(super) fn tags(&self, cell: &Cell, recorder: &Recorder) -> Tags {
        let concurrency = match cell.concurrency {
            Some(users) => users.to_string(),
            None => "mixed".to_owned(),
        };
        recorder.tags(&[
            ("op", cell.operation.name()),
            ("size", &cell.size.to_string()),
            ("concurrency", &concurrency),
            ("endpoint", &self.stores[cell.store].name),
        ])
    }

    /// Writes the objects to read, and an object that stays until the end. A store that keeps
    /// objects in directories may remove an empty directory during a write into it (versitygw 1.8.0
    /// then responds with 409 or 500).
    pub(super) async fn fill(&self, store: usize) -> Result<(), PrepareError> {
        let keeper = (format!("{}run", self.prefix), [0; 32]);
        self.write(store, &[keeper], 0).await?;
        let reads = |operation: &Operation| matches!(operation, Operation::Get | Operation::Head);
        if !self.options.operations.iter().any(reads) {
            return Ok(());
        }
        for &size in &self.options.sizes {
            let cell = Cell {
                store,
                operation: Operation::Get,
                size,
                concurrency: None,
            };
            let objects: Vec<_> = (0..self.objects)
                .map(|number| self.object("get", &cell, number))
                .collect();
            self.write(store, &objects, size.0).await?;
        }
        Ok(())
    }

    /// Writes objects before the run, and stores their entity tags.
    async fn write(
        &self,
        store: usize,
        objects: &[(String, Header)],
        size: u64,
    ) -> Result<(), PrepareError> {
        let name = &self.stores[store].name;
        let written = objects::write(&self.stores[store], objects, &self.content, size).await;
        let written = written.map_err(|failure| match failure.kind {
            kind::STATUS | "content" => {
                objects::faulty(format!("objects cannot be written to {name}: {failure}"))
            }
            _ => PrepareError::of_request(name, &failure),
        })?;
        let mut seen = HashMap::new();
        for (key, tag) in written {
            // Objects smaller than the header may have equal bytes.
            if size >= size_of::<Header>() as u64
                && let Some(other) = seen.insert(tag.clone(), key.clone())
            {
                let detail = format!("{name}: {other} and {key} differ, and have the ETag {tag}");
                let check = ENTITY_TAG;
                return Err(PrepareError::Faulty { check, detail });
            }
            self.acknowledged[store].remember(&key, tag);
        }
        Ok(())
    }

    /// Records the duration of each cell. Returns a note about incomplete cells.
    pub(super) fn tell_cells(&self, recorder: &Recorder) -> Option<Note> {
        let progress = self.schedule.as_ref()?.progress();
        let mut lines = Vec::new();
        for (cell, progress) in self.cells.iter().zip(&progress) {
            let wanted = cell.concurrency.unwrap_or(0);
            let name = format!(
                "{} of {} by {wanted} at {}",
                cell.operation.name(),
                cell.size,
                self.stores[cell.store].name
            );
            match seconds(cell, progress) {
                None => lines.push(format!("{name}: the run ended before its turn")),
                Some(seconds) => {
                    let tags = self.tags(cell, recorder);
                    recorder.gauge(tags, "cell_seconds", seconds.as_secs_f64());
                    if progress.most < wanted {
                        let most = progress.most;
                        lines.push(format!("{name}: only {most} users were active (--vus)"));
                    }
                }
            }
        }
        (!lines.is_empty()).then(|| Note {
            title: "Cells that were not measured completely".into(),
            lines,
        })
    }

    /// Records the check of the object lists of the cleanup, unless another failure came before the
    /// end of the lists.
    fn check_list(&self, store: usize, removed: &Result<u64, RemoveError>, recorder: &Recorder) {
        let acknowledged = self.acknowledged[store].count();
        let too_few = |found| ListError::TooFew {
            acknowledged,
            found,
        };
        let outcome = match removed {
            Ok(found) if *found < acknowledged => Err(too_few(*found).to_string()),
            Ok(_) => Ok(()),
            Err(RemoveError::List(error)) => Err(error.to_string()),
            Err(RemoveError::Request(_)) => return,
        };
        let name = &self.stores[store].name;
        let outcome = outcome.map_err(|error| format!("{name}: {error}"));
        recorder.check(recorder.tags(&[("op", "list")]), objects::LISTED, outcome);
    }

    pub(super) async fn tidy(&self, recorder: &Recorder) -> Note {
        let mut lines = Vec::new();
        for (index, (store, made)) in self.stores.iter().zip(&self.made_bucket).enumerate() {
            let name = &store.name;
            let removed = objects::remove(store, &self.prefix).await;
            self.check_list(index, &removed, recorder);
            match removed {
                Ok(removed) => lines.push(format!("{name}: {removed} objects removed")),
                Err(failure) => lines.push(format!(
                    "{name}: objects are left under {}: {failure}",
                    self.prefix
                )),
            }
            if made.load(Ordering::Relaxed)
                && let Err(failure) = objects::remove_bucket(store).await
            {
                let bucket = store.bucket.name();
                lines.push(format!("{name}: the bucket `{bucket}` is left: {failure}"));
            }
        }
        Note {
            title: "Tidying up".into(),
            lines,
        }
    }
}

/// Returns the time that a cell had for its own requests. The work between two deletes or two races
/// is excluded.
pub(super) fn seconds(cell: &Cell, progress: &Progress) -> Option<Duration> {
    let (started, finished) = progress.started.zip(progress.finished)?;
    Some(match cell.operation {
        Operation::Delete | Operation::Create => progress.busy / progress.most.max(1),
        _ => finished - started,
    })
}

/// Returns whether names with this prefix could leave the bucket: `..` in a URL names another path,
/// and stores normalize slashes.
fn leaves(prefix: &str) -> bool {
    let parts = prefix.strip_suffix('/').unwrap_or(prefix);
    !parts.is_empty() && parts.split('/').any(|part| matches!(part, "" | "." | ".."))
}

pub(super) fn validate(options: &S3Options) -> Result<(), PrepareError> {
    let said = [
        (options.bucket.is_empty(), "`--bucket` is empty"),
        (options.operations.is_empty(), "`--operations` is empty"),
        (options.sizes.is_empty(), "`--sizes` is empty"),
        (
            options.concurrency.is_empty() && !options.mixed,
            "`--concurrency` is empty",
        ),
        (
            options.concurrency.contains(&0),
            "`--concurrency` must not be 0",
        ),
        (
            leaves(&options.prefix),
            "`--prefix` has a part that is empty, `.` or `..`: object names would leave the bucket",
        ),
        (options.objects == 0, "`--objects` is 0"),
        (options.racers < 2, "`--racers` must be at least 2"),
        (
            options.cell_duration.0.is_zero() && !options.mixed,
            "`--cell-duration` is 0",
        ),
    ];
    match said.into_iter().find(|(said, _)| *said) {
        Some((_, message)) => Err(wrong(message)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_stay_in_their_bucket() {
        for (prefix, refused) in [
            ("", false),
            ("load/", false),
            ("a/b-", false),
            ("..a/", false),
            ("../other/", true),
            ("a/../", true),
            ("a/./b", true),
            ("/a", true),
            ("a//b/", true),
        ] {
            assert_eq!(leaves(prefix), refused, "{prefix}");
        }
    }
}

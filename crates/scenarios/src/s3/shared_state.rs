//! State that all users of the scenario share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lucarne_load::{Note, PrepareError, Recorder, Tags};

use super::conditional_put::RaceCounts;
use super::content::{Content, Header, header, mix};
use super::objects;
use super::options::{Operation, S3Options};
use super::schedule::{Cell, Progress, Schedule};
use super::store::{Store, wrong};

/// State that all users share.
pub(super) struct SharedState {
    pub(super) stores: Vec<Store>,
    pub(super) cells: Vec<Cell>,
    /// `None` if everything is done in turn.
    pub(super) schedule: Option<Schedule>,
    pub(super) content: Content,
    pub(super) objects: u64,
    pub(super) racers: u32,
    pub(super) seed: u64,
    /// One for each store.
    pub(super) counts: Vec<RaceCounts>,
    /// The prefix of all names of this run.
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
        // Two runs with one seed must not meet: the clock is part of the name.
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
            prefix: format!("{}{run:016x}/", options.prefix),
            puts: stores.iter().map(|_| AtomicU64::new(0)).collect(),
            made_bucket: stores.iter().map(|_| AtomicBool::new(false)).collect(),
            stores,
            options,
        })
    }

    /// Name and header of an object.
    pub(super) fn object(&self, purpose: &str, cell: &Cell, number: u64) -> (String, Header) {
        let key = format!("{}{purpose}-{}-{number:x}", self.prefix, cell.size);
        (key, header(self.seed, purpose, number, 0))
    }

    /// The object to be written next: in a ring, so that a disk is not filled.
    pub(super) fn next_put(&self, store: usize) -> u64 {
        self.puts[store].fetch_add(1, Ordering::Relaxed) % self.objects
    }

    /// The tags of a cell.
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

    /// Writes what will be read, and an object that stays until the end: a store
    /// that keeps objects in directories may take away an empty one while
    /// somebody writes into it (versitygw 1.8.0 then answers 409 or 500).
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

    pub(super) async fn write(
        &self,
        store: usize,
        objects: &[(String, Header)],
        size: u64,
    ) -> Result<(), PrepareError> {
        let store = &self.stores[store];
        let written = objects::write(store, objects, &self.content, size).await;
        written.map_err(|failure| {
            let name = &store.name;
            wrong(format!("objects cannot be written to {name}: {failure}"))
        })
    }

    /// Tells how long each cell took, and what it lacked.
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
                        lines.push(format!("{name}: only {most} users were there (--vus)"));
                    }
                }
            }
        }
        (!lines.is_empty()).then(|| Note {
            title: "Cells that were not measured as asked".into(),
            lines,
        })
    }

    pub(super) async fn tidy(&self) -> Note {
        let mut lines = Vec::new();
        for (store, made) in self.stores.iter().zip(&self.made_bucket) {
            let name = &store.name;
            match objects::remove(store, &self.prefix).await {
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

/// The time that a cell had for its own requests. What lies between two deletes or
/// two races is not theirs.
pub(super) fn seconds(cell: &Cell, progress: &Progress) -> Option<Duration> {
    let (started, finished) = progress.started.zip(progress.finished)?;
    Some(match cell.operation {
        Operation::Delete | Operation::Create => progress.busy / progress.most.max(1),
        _ => finished - started,
    })
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
            "`--concurrency` 0 is nobody",
        ),
        (options.objects == 0, "`--objects` is 0"),
        (
            options.racers < 2,
            "`--racers` is less than 2: nobody races alone",
        ),
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

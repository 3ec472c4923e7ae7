//! Brings the dedup index up to date from the log's own data tiles, and keeps an index of another
//! history from being used.
//!
//! The entries that an index lacks when the log is opened are its backlog. A small backlog is read
//! before the log takes submissions. A large backlog is read while the log is open, from the
//! newest entry to the oldest. The log can then soon distinguish new submissions from duplicates in
//! most cases. An index without any entry begins with a snapshot, if there is one (`snapshot.rs`).
//! The index of an earlier version is removed when the backlog has been empty for an hour.
//!
//! Every entry from a tile is verified against the signed root: its leaf hash must match the tree.
//! If a tile does not match, the index uses only the entries with the right hashes. The other
//! entries of the tile are gaps (`unreadable_entries.rs`), and the log reads the tile again until
//! the tile is repaired.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join3;
use futures_util::{TryStreamExt, pin_mut};
use lucarne_tlog::TILE_WIDTH;
use tokio::task::{JoinHandle, spawn_blocking};

use self::history::usable;
use self::source::{Found, Source};
use crate::data::tree::Tree;
use crate::error::Fatal;
use crate::index::dedup::{self, Dedup, Part};
use crate::index::log_index::LogIndex;
use crate::index::unreadable_entries::Gap;
use lucarne_ctread::read_ahead;

mod history;
mod mend;
mod snapshot;
mod source;
mod unpack;

pub(crate) use self::history::examine;

/// The pause before a failed read is retried, and before the tiles of gaps are reread.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The time from the last entry of the backlog to the removal of an earlier version's index. A
/// hand-over that fails, or a downgrade, needs the earlier index.
const KEEP_EARLIER: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 3600 });

/// The time between two log lines about the progress of reading.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Opens the index of a log with the signed tree `tree`. The function reads a small backlog, for
/// example after a crash, before it returns. An index that cannot be read, or that has failed
/// while the log ran, is set aside and rebuilt.
///
/// # Errors
/// If the index belongs to another history than the tree, or cannot be opened, or if storage does
/// not respond.
pub(crate) async fn open(log: &LogIndex, tree: &Tree) -> Result<Arc<Dedup>, Fatal> {
    let source = Source::new(&*log.assets, log.reader.tiles(), tree);
    let dedup = opened(log, &source).await?;
    if dedup.backlog().entries() <= log.read_before_open {
        read_backlog(log, &source, &dedup).await?;
    }
    Ok(dedup)
}

/// Opens the index and reads its whole backlog. Returns the index, and the number of entries that
/// the index had before.
///
/// # Errors
/// Returns the same errors as [`open`].
pub(crate) async fn bring_up(log: &LogIndex, tree: &Tree) -> Result<(Arc<Dedup>, u64), Fatal> {
    let source = Source::new(&*log.assets, log.reader.tiles(), tree);
    let dedup = opened(log, &source).await?;
    let from = dedup.known();
    read_backlog(log, &source, &dedup).await?;
    Ok((dedup, from))
}

/// Opens the index. The entries of the tree that are missing in the index become its backlog.
async fn opened(log: &LogIndex, source: &Source<'_>) -> Result<Arc<Dedup>, Fatal> {
    let dedup = Arc::new(usable(log, source).await?);
    let (index, head) = (dedup.clone(), source.tree.head());
    blocking(move || index.go_over(head)).await?;
    dedup.pace.note(&dedup.backlog());
    Ok(dedup)
}

/// Reads the backlog while the log is open, repairs gaps, and writes snapshots. A failure of the
/// index is passed to `fail`, which ends the session.
pub(crate) async fn attend(
    log: &LogIndex,
    dedup: &Arc<Dedup>,
    fail: impl Fn(Fatal),
    tree: &Tree,
) -> Infallible {
    let reading = async {
        let source = Source::new(&*log.assets, log.reader.tiles(), tree);
        if let Err(error) = snapshot::take(log, dedup, &source).await {
            return fail(error);
        }
        drop(source);
        while let Err(error) = read_on(log, dedup, tree).await {
            if matches!(error, Fatal::Dedup { .. } | Fatal::Internal(_)) {
                return fail(error);
            }
            let name = &log.config.shortname;
            tracing::warn!(log = name, %error, retry_in = ?LOOK_AGAIN, "dedup index: cannot catch up");
            dedup.pace.note_problem(error.to_string());
            // Give the store time to recover before the next attempt.
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        remove_earlier(log).await;
    };
    let mending = mend::again_and_again(log, dedup);
    let snapshots = snapshot::keep(log, dedup);
    let (never, (), ()) = join3(mending, reading, snapshots).await;
    never
}

async fn read_on(log: &LogIndex, dedup: &Arc<Dedup>, tree: &Tree) -> Result<(), Fatal> {
    let source = Source::new(&*log.assets, log.reader.tiles(), tree);
    read_backlog(log, &source, dedup).await
}

/// Removes the index of an earlier version after [`KEEP_EARLIER`]. If that fails, the next session
/// of the log retries.
async fn remove_earlier(log: &LogIndex) {
    tokio::time::sleep(KEEP_EARLIER).await;
    let (name, path) = (&log.config.shortname, log.config.cache.clone());
    let removed = spawn_blocking(move || dedup::earlier::remove(&path)).await;
    match removed.map_err(panicked).flatten() {
        Ok(false) => {}
        Ok(true) => tracing::info!(log = name, "removed the dedup index of an earlier version"),
        Err(error) => tracing::warn!(
            log = name,
            %error,
            "cannot remove the dedup index of an earlier version"
        ),
    }
}

/// Reads the backlog until it is empty, the newest entries first.
async fn read_backlog(
    log: &LogIndex,
    source: &Source<'_>,
    dedup: &Arc<Dedup>,
) -> Result<(), Fatal> {
    let backlog = dedup.backlog();
    if backlog.entries() == 0 {
        return Ok(());
    }
    let name = &log.config.shortname;
    let (path, began) = (log.config.cache.display(), Instant::now());
    let entries = backlog.entries();
    tracing::info!(log = name, entries, %path, "dedup index: catching up");
    let mut said = began;
    while let Some(range) = dedup.backlog().newest() {
        read_range(log, source, dedup, range, &mut said).await?;
    }
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!(log = name, entries, seconds, "dedup index: caught up");
    Ok(())
}

/// Reads the newest range of the backlog. Entries that were read before an error are kept.
async fn read_range(
    log: &LogIndex,
    source: &Source<'_>,
    dedup: &Arc<Dedup>,
    range: Gap,
    said: &mut Instant,
) -> Result<(), Fatal> {
    let tiles = range.first / TILE_WIDTH..range.end.div_ceil(TILE_WIDTH);
    let tiles = tiles.rev().map(|tile| source.read(tile));
    let tiles = read_ahead(tiles, |found| found.as_ref().map_or(0, |found| found.read));
    pin_mut!(tiles);
    let (mut part, mut writing) = (Part::before(&range), Writing::default());
    let read = loop {
        let found = match tiles.try_next().await {
            Ok(Some(found)) => found,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if let Some(gap) = found.gaps.first() {
            warn(log, gap);
        }
        part.add(found, &range);
        if part.records.len() as u64 >= dedup::PART {
            let next = part.following();
            writing
                .go_on(dedup, std::mem::replace(&mut part, next))
                .await?;
            log.note(dedup);
            say(log, dedup, said);
        }
    };
    if part.from < part.to {
        writing.go_on(dedup, part).await?;
    }
    writing.end().await?;
    log.note(dedup);
    read
}

fn warn(log: &LogIndex, gap: &Gap) {
    tracing::warn!(
        "{}/{} differs from the signed tree, or cannot be read: restore the file from a copy. \
         Until then, the log refuses submissions that may be among its entries",
        log.assets.location(),
        gap.tile()
    );
}

/// Logs the number of remaining entries, at most every [`SAY_EVERY`].
fn say(log: &LogIndex, dedup: &Dedup, said: &mut Instant) {
    if said.elapsed() < SAY_EVERY {
        return;
    }
    *said = Instant::now();
    let left = dedup.backlog().entries();
    let per_second = dedup.pace.entries_per_second().unwrap_or(0.0).round();
    let seconds_left = dedup.pace.time_left().map(|time| time.as_secs());
    tracing::info!(
        log = log.config.shortname,
        left,
        per_second,
        seconds_left,
        "dedup index: catching up"
    );
}

impl Part {
    /// Creates an empty part at the end of `range`.
    fn before(range: &Gap) -> Self {
        Part {
            from: range.end,
            to: range.end,
            timestamp_ms: range.latest_ms,
            ..Part::default()
        }
    }

    /// Creates an empty part that ends at the first entry of this part.
    fn following(&self) -> Self {
        Part {
            records: Vec::with_capacity(self.records.len()),
            gaps: Vec::new(),
            to: self.from,
            ..*self
        }
    }

    /// Adds the entries of the next older tile that are in the range.
    fn add(&mut self, found: Found, range: &Gap) {
        let within = range.first..self.from;
        for mut gap in found.gaps {
            (gap.first, gap.end) = (gap.first.max(within.start), gap.end.min(within.end));
            // The gap ends at or before `self.from`, so no entry of the gap is newer than
            // `self.timestamp_ms`.
            gap.latest_ms = gap.latest_ms.min(self.timestamp_ms);
            if gap.first < gap.end {
                self.gaps.push(gap);
            }
        }
        let entries = found.entries.iter();
        let entries = entries.filter(|(_, place)| within.contains(&place.index));
        let before = self.records.len();
        self.records.extend(entries);
        if let Some((_, oldest)) = self.records.get(before) {
            self.timestamp_ms = oldest.timestamp_ms;
        }
        self.from = found.first.max(within.start);
    }
}

/// The table that is being written while tiles are read.
#[derive(Default)]
struct Writing(Option<JoinHandle<Result<(), Fatal>>>);

impl Writing {
    /// Waits until the previous table is written, then begins the next table.
    async fn go_on(&mut self, dedup: &Arc<Dedup>, part: Part) -> Result<(), Fatal> {
        self.end().await?;
        let index = dedup.clone();
        self.0 = Some(spawn_blocking(move || index.take_up(part)));
        Ok(())
    }

    async fn end(&mut self) -> Result<(), Fatal> {
        let Some(writing) = self.0.take() else {
            return Ok(());
        };
        writing.await.map_err(panicked)?
    }
}

/// Runs work that waits for a disk. A hung disk blocks only the thread of this work. Later work,
/// and the next opening of the index, wait until this work has ended.
async fn blocking(work: impl FnOnce() -> Result<(), Fatal> + Send + 'static) -> Result<(), Fatal> {
    spawn_blocking(work).await.map_err(panicked)?
}

fn panicked(error: tokio::task::JoinError) -> Fatal {
    Fatal::Internal(error.to_string())
}

#[cfg(test)]
mod tests;

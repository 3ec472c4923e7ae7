//! Brings the dedup index up to date from the log's own data tiles, and keeps
//! an index of another history from being used.
//!
//! What an index lacks when the log is opened is its backlog. A little of it is read before
//! anything is taken; more is read while the log is open, from the newest entry to the oldest, so
//! that most of what is submitted can soon be told from what is left.
//!
//! Nothing is taken over that the signed root does not vouch for: a data tile
//! must hash to what the tree has in its place. Of one that does not, those
//! entries are taken whose own hashes are right; the rest are gaps (`gaps.rs`),
//! which are looked at again until the tile has been mended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join3;
use futures_util::{TryStreamExt, pin_mut};
use lucarne_tlog::TILE_WIDTH;
use tokio::task::{JoinHandle, spawn_blocking};

use self::history::usable;
use self::source::{Found, Source};
use crate::Fatal;
use crate::dedup::{self, Dedup, Part};
use crate::gaps::Gap;
use crate::read_ahead::read_ahead;
use crate::session::Session;
use crate::shared::Shared;
use crate::tree::Tree;

mod history;
mod mend;
mod snapshot;
mod source;
mod unpack;

pub(crate) use self::history::examine;

/// The pause after which reading is tried again, and entries that are not known are looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The time between two log lines that say how far reading has come.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Opens the index of the log whose signed tree this is. What it lacks is read before anything is
/// taken, if that is little, as after a crash. An index that cannot be read is set aside and made
/// anew; so is one that has failed while the log ran.
///
/// # Errors
/// If the index is of another history than the tree, or cannot be opened, or
/// storage does not answer.
pub(crate) async fn open(log: &Shared, tree: &Tree) -> Result<Arc<Dedup>, Fatal> {
    let source = Source::new(&*log.assets, log.reader.tiles(), tree);
    let dedup = opened(log, &source).await?;
    if dedup.backlog().entries() <= log.read_before_open {
        read_backlog(log, &source, &dedup).await?;
    }
    Ok(dedup)
}

/// Opens the index and reads all that it lacks. Returns it with the number of entries that it
/// knew before.
///
/// # Errors
/// As [`open`].
pub(crate) async fn bring_up(log: &Shared, tree: &Tree) -> Result<(Arc<Dedup>, u64), Fatal> {
    let source = Source::new(&*log.assets, log.reader.tiles(), tree);
    let dedup = opened(log, &source).await?;
    let from = dedup.known();
    read_backlog(log, &source, &dedup).await?;
    Ok((dedup, from))
}

/// The index, which has gone over to the tree.
async fn opened(log: &Shared, source: &Source<'_>) -> Result<Arc<Dedup>, Fatal> {
    let dedup = Arc::new(usable(log, source).await?);
    let (index, head) = (dedup.clone(), source.tree.head());
    blocking(move || index.go_over(head)).await?;
    dedup.pace.note(&dedup.backlog());
    Ok(dedup)
}

/// Reads the backlog while the log is open, and looks for what could not be read, again and again.
/// What the index then cannot do ends the session.
pub(crate) async fn attend(log: &Shared, session: &Session, tree: &Tree) -> Infallible {
    let reading = async {
        let source = Source::new(&*log.assets, log.reader.tiles(), tree);
        if let Err(error) = snapshot::take(log, &session.dedup, &source).await {
            return session.pool.fail(error);
        }
        drop(source);
        while let Err(error) = read_on(log, &session.dedup, tree).await {
            if matches!(error, Fatal::Dedup { .. } | Fatal::Internal(_)) {
                return session.pool.fail(error);
            }
            let name = &log.config.shortname;
            tracing::warn!(log = name, %error, retry_in = ?LOOK_AGAIN, "dedup index: not read on");
            session.dedup.pace.note_problem(error.to_string());
            // The store has to come back.
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let mending = mend::again_and_again(log, &session.dedup);
    let snapshots = snapshot::keep(log, &session.dedup);
    let (never, (), ()) = join3(mending, reading, snapshots).await;
    never
}

async fn read_on(log: &Shared, dedup: &Arc<Dedup>, tree: &Tree) -> Result<(), Fatal> {
    let source = Source::new(&*log.assets, log.reader.tiles(), tree);
    read_backlog(log, &source, dedup).await
}

/// Reads what the index lacks until it lacks nothing, the newest first.
async fn read_backlog(log: &Shared, source: &Source<'_>, dedup: &Arc<Dedup>) -> Result<(), Fatal> {
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

/// Reads the newest range of the backlog. What was read before an error is kept.
async fn read_range(
    log: &Shared,
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
            log.note_dedup(dedup);
            say(log, dedup, said);
        }
    };
    if part.from < part.to {
        writing.go_on(dedup, part).await?;
    }
    writing.end().await?;
    log.note_dedup(dedup);
    read
}

fn warn(log: &Shared, gap: &Gap) {
    tracing::warn!(
        "{}/{} is not what was signed, or cannot be read: put it back from a copy. \
         Submissions that may be among its entries are refused until then",
        log.assets.location(),
        gap.tile()
    );
}

/// Says now and then how much is left.
fn say(log: &Shared, dedup: &Dedup, said: &mut Instant) {
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
    /// One of which nothing is read, at the end of this range.
    fn before(range: &Gap) -> Self {
        Part {
            from: range.end,
            to: range.end,
            timestamp_ms: range.latest_ms,
            ..Part::default()
        }
    }

    /// One of which nothing is read, before this one.
    fn following(&self) -> Self {
        Part {
            records: Vec::with_capacity(self.records.len()),
            gaps: Vec::new(),
            to: self.from,
            ..*self
        }
    }

    /// Adds the entries of the range that the next older tile has.
    fn add(&mut self, found: Found, range: &Gap) {
        let within = range.first..self.from;
        for mut gap in found.gaps {
            (gap.first, gap.end) = (gap.first.max(within.start), gap.end.min(within.end));
            // How old the last ones are is told by the entry after them.
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
    /// Begins the next one, once the last one is written.
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

/// Does what waits for a disk. One that hangs takes this thread and no other: the next work is
/// begun after it, and the index is not opened again before it has let go of it.
async fn blocking(work: impl FnOnce() -> Result<(), Fatal> + Send + 'static) -> Result<(), Fatal> {
    spawn_blocking(work).await.map_err(panicked)?
}

fn panicked(error: tokio::task::JoinError) -> Fatal {
    Fatal::Internal(error.to_string())
}

#[cfg(test)]
mod tests;

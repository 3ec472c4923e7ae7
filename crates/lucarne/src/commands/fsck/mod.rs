//! `lucarne fsck`: every file of a log against its signed tree.

mod beside;
mod files;
mod place;
mod report;
mod state;

use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::StreamExt;
use lucarne_log::{Checked, Looked, fsck};
use lucarne_tlog::{Checkpoint, TILE_WIDTH};

use self::files::Counted;
use self::place::Place;
use self::report::Report;
use self::state::State;
use crate::cli::Fsck;
use crate::commands::atomic;
use crate::commands::lock::show;
use crate::config::rfc3339;
use crate::runtime;
use crate::signals::{Signals, Wish};

/// Exit code if it cannot be told whether all is right.
const UNTOLD: u8 = 2;
/// The interval at which the state is written down.
const NOTED_EVERY: Duration = Duration::from_secs(5);

/// Checks a log.
pub(crate) fn run(options: &Fsck) -> ExitCode {
    match runtime::run(check(options)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lucarne: the log was not checked: {error:#}");
            ExitCode::from(UNTOLD)
        }
    }
}

async fn check(options: &Fsck) -> Result<ExitCode> {
    let place = Place::of(options).await?;
    let mut report = Report::new(options.json);
    if place.by_its_own_key {
        let location = &place.location;
        report.note(&format!(
            "the key is the one that {location} names itself: it shows that all fits together, \
             and not whose log it is (--log-public-key)"
        ));
    }
    let (note, published) = published(&place).await?;
    let mut state = State::begin(note);
    if let Some(path) = &options.state {
        let kept = atomic::probe(path);
        kept.with_context(|| format!("the state cannot be kept in {}", path.display()))?;
        if let Some(left) = State::read(path)? {
            let (then, _) = place.verifier.verify(&left.note)?;
            state::grown(&then, &published)?;
            state = left;
        }
    }
    let (signed, signed_ms) = place.verifier.verify(&state.note)?;
    (report.wrong, report.unread) = (state.wrong, state.unread);
    let walk = tree(&place, options, &signed, &mut state, &mut report).await?;
    if state.next.timestamp_ms > signed_ms {
        let (entry, tree) = (rfc3339(state.next.timestamp_ms), rfc3339(signed_ms));
        let detail = format!("the last entry is of {entry}, after the tree was signed at {tree}");
        report.wrong("timestamp", &detail);
    }
    if walk.whole {
        surroundings(&place, (&signed, &published), &mut report).await?;
    }
    let (verdict, code) = verdict(walk.whole, &report);
    report.end(verdict, (walk.first, walk.last), walk.bytes, signed.size);
    Ok(code)
}

/// What was looked at of a tree.
struct Walk {
    /// Its end was reached.
    whole: bool,
    /// The entry that it began at, and the one before which it ended.
    first: u64,
    last: u64,
    /// Bytes that were read.
    bytes: u64,
}

/// The published checkpoint of the log, as signed and as read.
async fn published(place: &Place) -> Result<(Bytes, Checkpoint)> {
    let location = &place.location;
    let read = place.files.read("checkpoint").await;
    let note = read.map_err(anyhow::Error::msg);
    let note = note.with_context(|| format!("cannot read the checkpoint in {location}"))?;
    let note = note.with_context(|| format!("there is no checkpoint in {location}"))?;
    let verified = place.verifier.verify(&note);
    let (checkpoint, _) = verified.with_context(|| format!("{location}/checkpoint"))?;
    Ok((note, checkpoint))
}

/// Checks the tree from where `state` has got to, unless somebody stops it.
async fn tree(
    place: &Place,
    options: &Fsck,
    signed: &Checkpoint,
    state: &mut State,
    report: &mut Report,
) -> Result<Walk> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let at_once = options.at_once.map_or(2 * cores, usize::from);
    let counted = Arc::new(Counted::new(place.files.clone()));
    let first = (state.next.tile * TILE_WIDTH).min(signed.size);
    let (mut last, mut noted) = (first, Instant::now());
    let mut signals = Signals::listen()?;
    let mut tiles = pin!(fsck(counted.clone(), signed.clone(), state.next, at_once));
    let whole = loop {
        let checked = tokio::select! {
            biased;
            () = stopped(&mut signals) => break false,
            checked = tiles.next() => checked,
        };
        let Some(Checked {
            entries,
            next,
            findings,
        }) = checked
        else {
            break true;
        };
        findings.iter().for_each(|finding| report.finding(finding));
        last = entries;
        *state = State {
            note: state.note.clone(),
            next,
            wrong: report.wrong,
            unread: report.unread,
        };
        report.progress(last, first, signed.size, counted.bytes());
        if let Some(path) = &options.state
            && noted.elapsed() >= NOTED_EVERY
        {
            state.write(path)?;
            noted = Instant::now();
        }
    };
    match (&options.state, whole) {
        (Some(path), true) => State::remove(path)?,
        (Some(path), false) => state.write(path)?,
        (None, _) => {}
    }
    Ok(Walk {
        whole,
        first,
        last,
        bytes: counted.bytes(),
    })
}

async fn stopped(signals: &mut Signals) {
    while signals.next().await == Wish::Reread {}
}

/// Looks at what is beside the tree: the lock, and files that it does not lead to.
async fn surroundings(
    place: &Place,
    (signed, published): (&Checkpoint, &Checkpoint),
    report: &mut Report,
) -> Result<()> {
    if published.size > signed.size {
        let more = published.size - signed.size;
        report.note(&format!(
            "the log has {more} more entries than the tree that was checked"
        ));
    }
    if let Some((config, log)) = &place.configured {
        match show::ask(config, log).await {
            Ok((_, _, looked)) => lock_and_journal(&looked, report),
            Err(error) => report.unread("lock", &format!("the lock was not read: {error:#}")),
        }
    }
    if let Some(directory) = &place.directory {
        beside::look(directory, place.files.clone(), signed.size, report).await?;
    }
    Ok(())
}

/// Says whether lock and journal are as a running log leaves them beside its data.
fn lock_and_journal(looked: &Looked, report: &mut Report) {
    if let Some(problem) = show::problem(looked) {
        report.wrong("lock", &problem);
    } else if let Some(ahead) = show::ahead(looked) {
        report.note(&format!("signed, and not published yet: {ahead}"));
    }
}

/// The last word, and the exit code that goes with it.
fn verdict(whole: bool, report: &Report) -> (&'static str, ExitCode) {
    match (whole, report.wrong, report.unread) {
        (_, 1.., _) => ("wrong", ExitCode::FAILURE),
        (false, _, _) => ("interrupted", ExitCode::from(UNTOLD)),
        (true, 0, 1..) => ("not to be told", ExitCode::from(UNTOLD)),
        (true, 0, 0) => ("right", ExitCode::SUCCESS),
    }
}

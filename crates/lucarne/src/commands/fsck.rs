//! `lucarne fsck` and `lucarne repair`: compare every file of a log with its signed tree, and
//! replace wrong files.

mod beside;
mod copy;
mod files;
mod mending;
pub(crate) mod options;
mod place;
mod report;
mod state;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use lucarne_cosign::mirror::EntryFormat;
use lucarne_ctread::Source;
use lucarne_log::{Checked, FsckOptions, FsckPosition, Inspection, Parts, Repaired, fsck};
use lucarne_net::counted;
use lucarne_storage::AssetError;
use lucarne_tlog::{Checkpoint, MAX_TREE_SIZE, SignedNote, TILE_WIDTH};

use self::copy::Copy;
use self::files::Counted;
use self::mending::Mending;
use self::options::{Fsck, Repair};
pub(crate) use self::place::{InvalidConfiguration, Place, opened};
use self::report::Report;
pub(crate) use self::state::State;
use crate::causes::causes;
use crate::commands::atomic;
use crate::commands::lock::show;
use crate::config::rfc3339;
use crate::open;
use crate::runtime;
use crate::signals::Signals;

/// Exit code if the check is incomplete.
const INCOMPLETE: u8 = 2;
/// Number of consecutive data tiles without a right file after which a check ends. Without this
/// limit, a checkpoint of an absurd size would keep the check busy for years. The limit exceeds the
/// 1000 tiles of a lost directory.
const MAX_ABSENT: u64 = 4096;
/// Interval at which the state file is written.
const NOTED_EVERY: Duration = Duration::from_secs(5);

/// Checks a log without repairs.
pub(crate) fn run(options: &Fsck) -> ExitCode {
    ended(check(options, None))
}

/// Checks a log and repairs wrong files.
pub(crate) fn repair(options: &Repair) -> ExitCode {
    ended(check(&options.fsck, Some(options)))
}

fn ended(check: impl Future<Output = Result<ExitCode>>) -> ExitCode {
    match runtime::run(check) {
        Ok(code) => code,
        Err(error) => {
            errln!("lucarne: the log was not checked: {}", causes(&error));
            if error.is::<InvalidConfiguration>() || error.is::<TooLarge>() {
                ExitCode::FAILURE
            } else {
                ExitCode::from(INCOMPLETE)
            }
        }
    }
}

async fn check(options: &Fsck, repair: Option<&Repair>) -> Result<ExitCode> {
    if options.log.at.is_none()
        && let Some(copy) = Copy::named(&place::config(&options.log)?, options.log.name.as_deref())
        && copy.format == EntryFormat::Bundles
    {
        return copy.check(options, repair).await;
    }
    let mut place = Place::of(&options.log).await?;
    let mut report = Report::new(options.json, repair.is_some_and(|repair| repair.dry_run));
    let mending = match repair {
        Some(repair) => Some(Mending::of(&mut place, repair, &report).await?),
        None => None,
    };
    if place.by_its_own_key {
        let location = &place.location;
        report.note(&format!(
            "the key comes from {location} itself: the check shows consistency, but not the owner \
             of the log (use --log-public-key)"
        ));
    }
    let head = Head::of(&place, &report).await?;
    let mut state = State::begin(head.note.clone());
    if let Some(path) = &options.state {
        let kept = atomic::probe(path);
        kept.with_context(|| format!("cannot store the state in {}", path.display()))?;
        if let Some(left) = State::read(path)? {
            let (then, _) = place.verifier.verify(&left.note)?;
            state::grown(&then, &head.checkpoint)?;
            state = left;
        }
    }
    let (signed, signed_ms) = place.verifier.verify(&state.note)?;
    (report.wrong, report.unread) = (state.wrong, state.unread);
    let counted = Arc::new(Counted::new(place.files.clone()));
    let tiles = tiles(
        counted.clone(),
        mending.as_ref(),
        &signed,
        state.next,
        options,
    );
    let kept = (options.state.as_deref(), &mut state);
    let walk = walk(tiles, &counted, kept, signed.size, &mut report).await?;
    if state.next.newest_ms > signed_ms {
        let (entry, tree) = (rfc3339(state.next.newest_ms), rfc3339(signed_ms));
        let detail =
            format!("the newest entry has the time {entry}, but the tree was signed at {tree}");
        report.wrong("timestamp", &detail);
    }
    report.disorder();
    match walk.end {
        End::Whole => {
            surroundings(&place, (&signed, &head), mending.as_ref(), &mut report).await?;
        }
        End::Absent => {
            report.absent(MAX_ABSENT, walk.last, signed.size);
            lock(&place, &mut report).await;
        }
        End::Interrupted => {}
    }
    let (verdict, code) = verdict(walk.end == End::Whole, &report);
    report.end(verdict, (walk.first, walk.last), walk.bytes, signed.size);
    Ok(code)
}

/// The part of a tree that a run has checked.
struct Walk {
    end: End,
    /// First entry that was checked, and the entry after the last one.
    first: u64,
    last: u64,
    /// Number of bytes read.
    bytes: u64,
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The run reached the end of the tree.
    Whole,
    /// A signal stopped the run.
    Interrupted,
    /// The last [`MAX_ABSENT`] data tiles have no right file.
    Absent,
}

/// The signed size is beyond every static CT log.
#[derive(Debug, thiserror::Error)]
#[error(
    "the checkpoint in {location} is wrong: it has {size} entries, but a static CT log has at most \
     {MAX_TREE_SIZE}"
)]
struct TooLarge {
    location: String,
    size: u64,
}

/// The newest signed tree head.
struct Head {
    note: Bytes,
    checkpoint: Checkpoint,
    /// `false` if the tree head comes from the lock.
    is_published: bool,
}

impl Head {
    /// Returns the published checkpoint, or the lock's checkpoint if none is published.
    ///
    /// # Errors
    /// If neither can be read and verified; [`TooLarge`].
    async fn of(place: &Place, report: &Report) -> Result<Head> {
        let location = &place.location;
        let note = place.files.read("checkpoint").await;
        let note = note.with_context(|| format!("cannot read the checkpoint in {location}"))?;
        // After a power failure, the published file may have any content.
        let note =
            note.filter(|note| place.configured.is_none() || SignedNote::parse(note).is_ok());
        let is_published = note.is_some();
        let note = match note {
            Some(note) => note,
            None => {
                let note = in_lock(place).await?;
                report.note(&format!(
                    "there is no checkpoint in {location}: the tree that the lock has signed is checked"
                ));
                note
            }
        };
        let verified = place.verifier.verify(&note);
        let (checkpoint, _) =
            verified.with_context(|| format!("cannot verify the checkpoint in {location}"))?;
        let size = checkpoint.size;
        ensure!(
            size <= MAX_TREE_SIZE,
            TooLarge {
                location: location.clone(),
                size,
            }
        );
        Ok(Head {
            note,
            checkpoint,
            is_published,
        })
    }
}

/// Returns the checkpoint in the lock of a configured log.
async fn in_lock(place: &Place) -> Result<Bytes> {
    let missing = || format!("there is no checkpoint in {}", place.location);
    let (config, log) = place.configured.as_ref().with_context(missing)?;
    let lock = open::watched_lock(&config.checkpoints.value).await;
    let unread = || format!("{}, and its lock cannot be read", missing());
    let lock = lock.with_context(unread)?;
    let held = lock.load(&log.to_log_config().key.log_id().0).await;
    let held = held.with_context(unread)?;
    let note = held.with_context(|| format!("{}, nor in the lock", missing()))?;
    lock.close().await;
    Ok(note.into())
}

/// Streams the checked tiles of the tree, repaired if requested.
fn tiles(
    files: Arc<dyn Source>,
    mending: Option<&Mending>,
    signed: &Checkpoint,
    from: FsckPosition,
    options: &Fsck,
) -> BoxStream<'static, Result<Repaired, AssetError>> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let at_once = options.at_once.map_or(2 * cores, usize::from);
    let extent = FsckOptions {
        parts: if options.skip_signatures {
            Parts::Uncompressed
        } else {
            Parts::All
        },
        ..FsckOptions::new(at_once)
    };
    match mending {
        Some(mending) => mending.repair(files, signed, from, extent).boxed(),
        None => fsck(files, signed.clone(), from, extent)
            .map(|checked| {
                Ok(Repaired {
                    checked,
                    cures: Vec::new(),
                    refusals: Vec::new(),
                    unwritten: Vec::new(),
                })
            })
            .boxed(),
    }
}

/// Checks the tiles from the position of `state` on, until the end, a signal, or the first
/// [`MAX_ABSENT`] consecutive tiles without a right file.
async fn walk(
    mut tiles: BoxStream<'static, Result<Repaired, AssetError>>,
    counted: &Counted,
    (kept, state): (Option<&Path>, &mut State),
    size: u64,
    report: &mut Report,
) -> Result<Walk> {
    let first = (state.next.tile * TILE_WIDTH).min(size);
    let (mut last, mut noted) = (first, Instant::now());
    let (mut absent, mut signals) = (0, Signals::listen()?);
    let end = loop {
        let repaired = tokio::select! {
            biased;
            () = stopped(&mut signals) => break End::Interrupted,
            repaired = tiles.next() => repaired,
        };
        let Some(repaired) = repaired.transpose()? else {
            break End::Whole;
        };
        let Repaired {
            checked,
            cures,
            refusals,
            unwritten,
        } = repaired;
        cures.iter().for_each(|cure| report.cure(cure));
        refusals.iter().for_each(|refusal| report.refusal(refusal));
        unwritten.iter().for_each(|file| report.unwritten(file));
        let findings = checked.findings.iter();
        findings.for_each(|finding| report.finding(finding));
        report.disordered += checked.disordered;
        last = checked.entries;
        *state = State {
            note: state.note.clone(),
            next: checked.next,
            wrong: report.wrong,
            unread: report.unread,
        };
        absent = if is_absent(&checked) { absent + 1 } else { 0 };
        if absent == MAX_ABSENT {
            break End::Absent;
        }
        report.progress(last, first, size, counted.bytes());
        if let Some(path) = kept
            && noted.elapsed() >= NOTED_EVERY
        {
            state.write(path)?;
            noted = Instant::now();
        }
    };
    match (kept, end) {
        (Some(path), End::Whole) => State::remove(path)?,
        (Some(path), _) => state.write(path)?,
        (None, _) => {}
    }
    Ok(Walk {
        end,
        first,
        last,
        bytes: counted.bytes(),
    })
}

/// Returns whether neither the entries of a data tile nor their hash tile are right.
fn is_absent(checked: &Checked) -> bool {
    let is_wrong = |level: &str| {
        let mut findings = checked.findings.iter();
        findings.any(|finding| finding.path.starts_with(level))
    };
    is_wrong("tile/data/") && is_wrong("tile/0/")
}

async fn stopped(signals: &mut Signals) {
    signals.stop().await;
}

/// Checks the lock, and the files outside the tree.
async fn surroundings(
    place: &Place,
    (signed, head): (&Checkpoint, &Head),
    mending: Option<&Mending>,
    report: &mut Report,
) -> Result<()> {
    if head.checkpoint.size > signed.size {
        let more = counted(head.checkpoint.size - signed.size, "more entry");
        report.note(&format!(
            "the log has {more} than the tree that was checked"
        ));
    }
    let agrees = lock(place, report).await && report.wrong == 0;
    // Objects of a bucket are durable when they are published. The files of a directory replace its
    // journal only if the lock has signed no more.
    let covered = head.is_published && (place.directory().is_none() || agrees);
    if let Some(mending) = mending.filter(|_| covered) {
        mending.rounds(head.checkpoint.size, report).await?;
    }
    if let Some(directory) = place.directory() {
        beside::look(directory, &place.files, signed.size, mending, report).await?;
    }
    Ok(())
}

/// Checks the lock of a configured log. Returns whether it has the published tree.
async fn lock(place: &Place, report: &mut Report) -> bool {
    let Some((config, log)) = &place.configured else {
        return false;
    };
    match show::ask(config, log).await {
        Ok((_, _, inspection)) => lock_and_journal(&inspection, report),
        Err(error) => {
            report.unread("lock", &format!("the lock was not read: {error:#}"));
            false
        }
    }
}

/// Reports whether lock and journal agree with the data. Returns whether the lock has the published
/// tree.
fn lock_and_journal(inspection: &Inspection, report: &mut Report) -> bool {
    if let Some(problem) = show::problem(inspection) {
        report.wrong("lock", &problem);
        return false;
    }
    let ahead = show::ahead(inspection);
    if let Some(ahead) = &ahead {
        report.note(&format!("signed, and not published yet: {ahead}"));
    }
    ahead.is_none()
}

/// Returns the final verdict and its exit code.
fn verdict(whole: bool, report: &Report) -> (&'static str, ExitCode) {
    match (whole, report.still_wrong(), report.unread) {
        (_, 1.., _) => ("wrong", ExitCode::FAILURE),
        (false, _, _) => ("interrupted", ExitCode::from(INCOMPLETE)),
        (true, 0, 1..) => ("not to be told", ExitCode::from(INCOMPLETE)),
        (true, 0, 0) => ("right", ExitCode::SUCCESS),
    }
}

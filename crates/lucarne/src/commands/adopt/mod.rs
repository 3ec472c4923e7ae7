//! `lucarne adopt`: a log that Sunlight or TesseraCT left is looked at as a whole,
//! and made ready to go on with Lucarne.
//!
//! The order is what keeps it safe: everything is looked at before anything is
//! written; then the index is made, which is Lucarne's own and can be lost; the lock,
//! where there was none, comes last.

mod checked;
mod places;
mod preflight;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};

pub(crate) use self::checked::Checked;
use self::preflight::{Findings, LockState, Preflight, Verdict};
use crate::cli::Adopt;
use crate::commands::{fsck, lock, looking};
use crate::config::{Config, LogSettings};
use crate::signals::{Signals, Wish};
use crate::{open, runtime};

/// Exit code if something could not be looked at.
const UNTOLD: u8 = 2;
/// The interval at which a log that goes on is looked at: each time it grew, the index
/// gets a table.
const PACE: Duration = Duration::from_secs(2);
/// Passes in a row that may fail: the other process removes partial tiles while they
/// are read.
const MOST_FAILURES: u32 = 5;

/// Makes the log ready, or follows it until it is stopped.
pub(crate) fn run(options: &Adopt) -> ExitCode {
    let (config, report) = match options.flags.given() {
        true => options.flags.read(),
        false => Config::read(&options.config),
    };
    let config = match (config, report.problems()) {
        (Some(config), []) => config,
        _ => {
            for line in report.problem_lines() {
                eprintln!("problem: {line}");
            }
            eprintln!("lucarne: nothing was written; correct this first");
            return ExitCode::from(UNTOLD);
        }
    };
    for line in report.warning_lines() {
        println!("warning: {line}");
    }
    let adopted = runtime::run(async {
        let log = looking::the_one(&config, options.name.as_deref())?;
        match options.follow {
            true => follow(log).await,
            false => adopt(&config, log, options.check).await,
        }
    });
    adopted.unwrap_or_else(|error| {
        eprintln!("lucarne: {error:#}");
        ExitCode::from(UNTOLD)
    })
}

/// Looks at everything, and then makes index and lock.
async fn adopt(config: &Config, log: &LogSettings, only_look: bool) -> Result<ExitCode> {
    let seen = Preflight::of(config, log).await?;
    let (Some(left), Some(lock)) = (&seen.left, seen.lock) else {
        return Ok(refused(&seen.findings));
    };
    if seen.findings.worst() != Verdict::Right {
        return Ok(refused(&seen.findings));
    }
    let name = &log.shortname.value;
    if only_look {
        println!("log {name} can be taken over; nothing was written");
        return Ok(ExitCode::SUCCESS);
    }
    if let Err(error) = index(log, left).await {
        println!("✗ index: {error:#}");
        eprintln!("lucarne: the log was not taken over; its files and its lock are as they were");
        return Ok(ExitCode::FAILURE);
    }
    if lock == LockState::Absent {
        println!("{}", lock::rebuild::from_data(config, log).await?);
    }
    println!(
        "log {name} is Lucarne's now, with {} entries. Take the old software's unit away, so that it \
         never starts beside this one, and start `lucarne serve`",
        left.published().size
    );
    Ok(ExitCode::SUCCESS)
}

fn refused(findings: &Findings) -> ExitCode {
    eprintln!("lucarne: the log was not taken over; nothing was written");
    match findings.worst() {
        Verdict::Refused => ExitCode::FAILURE,
        Verdict::Right | Verdict::Untold => ExitCode::from(UNTOLD),
    }
}

/// Brings the index up to what is published, and says what that took.
async fn index(log: &LogSettings, left: &lucarne_log::Left) -> Result<()> {
    std::fs::create_dir_all(&log.cache.value)?;
    let indexed = left.index().await?;
    println!(
        "✓ index: {} entries, {} of them new, from {} data tiles",
        indexed.to,
        indexed.to - indexed.from,
        indexed.tiles()
    );
    Ok(())
}

/// Checks and indexes the log again and again, while the other software goes on
/// with it, until a signal stops it.
async fn follow(log: &LogSettings) -> Result<ExitCode> {
    let mut findings = Findings::default();
    places::look(log, &mut findings);
    if findings.worst() != Verdict::Right {
        return Ok(refused(&findings));
    }
    let mut signals = Signals::listen()?;
    tokio::select! {
        biased;
        () = stopped(&mut signals) => {
            println!("stopped following; what is indexed stays");
            Ok(ExitCode::SUCCESS)
        }
        ended = passes(log) => ended,
    }
}

async fn stopped(signals: &mut Signals) {
    while signals.next().await == Wish::Reread {}
}

/// Follows the log, and ends only where it cannot be followed.
async fn passes(log: &LogSettings) -> Result<ExitCode> {
    let (mut size, mut failures) = (None, 0);
    loop {
        match pass(log, &mut size).await {
            Ok(()) => failures = 0,
            Err(error) if failures == MOST_FAILURES => return Err(error),
            Err(_) => failures += 1,
        }
        tokio::time::sleep(PACE).await;
    }
}

/// Checks and indexes what is published now, if that is more than `size`.
async fn pass(log: &LogSettings, size: &mut Option<u64>) -> Result<()> {
    let assets = open::watched_assets(&log.data.value).await?;
    let left = lucarne_log::Log::left(log.to_log_config(), assets).await?;
    let now = left.published().size;
    if size.is_some_and(|before| before >= now) {
        return Ok(());
    }
    let (files, _) = fsck::opened(&log.data.value).await?;
    std::fs::create_dir_all(&log.cache.value)?;
    let checked = Checked::up_to(log, &left, files).await?;
    if let Some(problem) = checked.problem() {
        bail!("{problem}");
    }
    index(log, &left).await?;
    checked.remember(log)?;
    *size = Some(now);
    Ok(())
}

//! `lucarne adopt --follow`: checks and indexes a log that still belongs to the other software,
//! repeatedly until a signal.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use lucarne_log::{ForeignLog, Log, Published};
use lucarne_storage::make_private_directory;

use super::checked::Checked;
use super::findings::{Findings, Verdict};
use super::{index, places, refused};
use crate::causes::causes;
use crate::commands::fsck;
use crate::config::LogSettings;
use crate::open;
use crate::signals::Signals;

/// Interval between two passes. Each pass over a log that has grown adds a table to the index.
const PACE: Duration = Duration::from_secs(2);
/// Number of consecutive failures that are tolerated: the other process removes partial tiles while
/// a pass reads them.
const MAX_FAILURES: u32 = 5;

/// Checks and indexes the log while it grows.
pub(super) async fn follow(log: &LogSettings, findings: &mut Findings) -> Result<ExitCode> {
    places::look_beside(log, findings);
    if !findings.stand() {
        return Ok(refused(findings));
    }
    let mut signals = Signals::listen()?;
    let mut last = None;
    let ended = tokio::select! {
        biased;
        () = stopped(&mut signals) => None,
        code = passes(log, &mut last, findings) => Some(code),
    };
    Ok(ended.unwrap_or_else(|| {
        let size = last.map_or(0, |last| last.size);
        findings.end("stopped", "stopped following; the index is kept", size)
    }))
}

async fn stopped(signals: &mut Signals) {
    signals.stop().await;
}

/// Repeats the passes, and returns only if the log cannot be followed.
async fn passes(
    log: &LogSettings,
    last: &mut Option<Published>,
    findings: &mut Findings,
) -> ExitCode {
    let mut failures = 0;
    loop {
        match pass(log, last, findings).await {
            Ok(()) => failures = 0,
            Err(error) if failures == MAX_FAILURES => {
                let verdict = if is_verdict(&error) {
                    Verdict::Refused
                } else {
                    Verdict::Unknown
                };
                findings.add("follow", verdict, &causes(&error));
                return findings.fail("cannot follow the log; the index is kept");
            }
            Err(error) => {
                failures += 1;
                findings.note(&format!(
                    "reading the log failed {failures} of {MAX_FAILURES} times: {}",
                    causes(&error)
                ));
            }
        }
        tokio::time::sleep(PACE).await;
    }
}

/// The published checkpoints contradict each other.
#[derive(Debug, thiserror::Error)]
#[error(
    "{published} entries are published with the root {root}, after {before} entries with the root \
     {before_root}: the log was rolled back or forked. Keep both checkpoints: they are evidence"
)]
struct RolledBack {
    published: u64,
    root: String,
    before: u64,
    before_root: String,
}

/// Returns whether the error proves that the log is wrong, rather than unreadable.
fn is_verdict(error: &anyhow::Error) -> bool {
    let of_log = error.downcast_ref::<lucarne_log::Fatal>();
    error.is::<RolledBack>() || of_log.is_some_and(lucarne_log::Fatal::is_verdict)
}

/// Checks and indexes the published tree, if it has grown since the `last` pass.
async fn pass(
    log: &LogSettings,
    last: &mut Option<Published>,
    findings: &mut Findings,
) -> Result<()> {
    let assets = open::watched_assets(&log.data.value).await?;
    let foreign = Log::foreign(log.to_log_config(), assets).await?;
    let now = foreign.published();
    if let Some(last) = last {
        if (last.size, last.root) == (now.size, now.root) {
            return Ok(());
        }
        ensure!(
            last.size < now.size,
            RolledBack {
                published: now.size,
                root: now.root.to_string(),
                before: last.size,
                before_root: last.root.to_string(),
            }
        );
    }
    take_in(log, &foreign, findings).await?;
    *last = Some(now);
    Ok(())
}

async fn take_in(log: &LogSettings, foreign: &ForeignLog, findings: &mut Findings) -> Result<()> {
    let (files, _) = fsck::opened(&log.data.value).await?;
    make_private_directory(&log.cache.value)?;
    let checked = Checked::up_to(log, foreign, files).await?;
    if let Some(problem) = checked.problem() {
        bail!("{problem}");
    }
    index(log, foreign, findings).await?;
    checked.remember(log)
}

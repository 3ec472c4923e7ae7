//! `lucarne adopt --follow`: checks and indexes a log that still belongs to the other software,
//! repeatedly until a signal.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use lucarne_log::{ForeignLog, Published};
use lucarne_storage::make_private_directory;

use super::checked::Checked;
use super::findings::{Findings, Verdict};
use super::{index, places, refused};
use crate::causes::causes;
use crate::commands::fsck;
use crate::config::{LogSettings, rfc3339};
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
    let mut seen = Seen::default();
    let ended = tokio::select! {
        biased;
        () = stopped(&mut signals) => None,
        code = passes(log, &mut seen, findings) => Some(code),
    };
    Ok(ended.unwrap_or_else(|| {
        let size = seen.newest.map_or(0, |newest| newest.size);
        findings.end("stopped", "stopped following; the index is kept", size)
    }))
}

async fn stopped(signals: &mut Signals) {
    signals.stop().await;
}

/// Repeats the passes, and returns only if the log cannot be followed.
async fn passes(log: &LogSettings, seen: &mut Seen, findings: &mut Findings) -> ExitCode {
    let mut failures = 0;
    loop {
        match pass(log, seen, findings).await {
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

/// Checkpoints that earlier passes have read.
#[derive(Default)]
struct Seen {
    newest: Option<Published>,
    /// Timestamp of the last ignored checkpoint, so that it is reported once.
    ignored_ms: Option<u64>,
}

/// Relation of a published checkpoint to the newest one.
#[derive(Debug, PartialEq, Eq)]
enum Relation {
    Grown,
    /// The same tree, signed again or not.
    Same,
    /// The same tree with an earlier timestamp.
    Earlier,
}

impl Seen {
    /// Compares a published checkpoint with the newest one.
    ///
    /// # Errors
    /// If the tree of the newest checkpoint is not a prefix of this tree.
    fn compare(&self, now: &Published) -> Result<Relation, RolledBack> {
        match &self.newest {
            None => Ok(Relation::Grown),
            Some(newest) if newest.size < now.size => Ok(Relation::Grown),
            Some(newest) if (newest.size, newest.root) != (now.size, now.root) => Err(RolledBack {
                published: now.size,
                root: now.root.to_string(),
                before: newest.size,
                before_root: newest.root.to_string(),
            }),
            Some(newest) if now.timestamp_ms < newest.timestamp_ms => Ok(Relation::Earlier),
            Some(_) => Ok(Relation::Same),
        }
    }

    /// Reports a checkpoint that is ignored because of its earlier timestamp, unless the last
    /// ignored one had the same timestamp.
    fn ignore(&mut self, now: &Published, findings: &Findings) {
        if self.ignored_ms.replace(now.timestamp_ms) == Some(now.timestamp_ms) {
            return;
        }
        let newest_ms = self.newest.as_ref().map_or(0, |newest| newest.timestamp_ms);
        findings.note(&format!(
            "ignored a checkpoint of {} entries from {}: an earlier pass has read one of the same \
             tree from {}",
            now.size,
            rfc3339(now.timestamp_ms),
            rfc3339(newest_ms)
        ));
    }
}

/// Checks and indexes the published tree, if it has grown since the last pass.
async fn pass(log: &LogSettings, seen: &mut Seen, findings: &mut Findings) -> Result<()> {
    let assets = open::watched_assets(&log.data.value).await?;
    let foreign = ForeignLog::open(log.to_log_config(), assets).await?;
    let now = foreign.published();
    match seen.compare(&now)? {
        Relation::Earlier => {
            seen.ignore(&now, findings);
            return Ok(());
        }
        Relation::Same => {}
        Relation::Grown => take_in(log, &foreign, findings).await?,
    }
    seen.newest = Some(now);
    Ok(())
}

async fn take_in(log: &LogSettings, foreign: &ForeignLog, findings: &mut Findings) -> Result<()> {
    let (files, _) = fsck::opened(&log.data.value).await?;
    make_private_directory(&log.cache.value)?;
    let checked = Checked::up_to(log, foreign, files).await?;
    if checked.only_names() && !checked.names.is_empty() {
        // The takeover checks these tiles again, and writes their names tiles.
        return Ok(());
    }
    if let Some(problem) = checked.problem() {
        bail!("{problem}");
    }
    index(log, foreign, findings).await?;
    checked.remember(log)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use lucarne_tlog::leaf_hash;

    use super::*;

    fn published(size: u64, root: &[u8], timestamp_ms: u64) -> Published {
        Published {
            size,
            root: leaf_hash(root),
            timestamp_ms,
            checkpoint: Bytes::new(),
            at: Instant::now(),
        }
    }

    #[test]
    fn a_checkpoint_is_compared_with_the_newest_one() {
        let mut seen = Seen::default();
        assert_eq!(
            seen.compare(&published(5, b"five", 1000)).unwrap(),
            Relation::Grown
        );
        seen.newest = Some(published(5, b"five", 1000));
        for (now, relation) in [
            (published(5, b"five", 1000), Relation::Same),
            (published(5, b"five", 2000), Relation::Same),
            (published(5, b"five", 999), Relation::Earlier),
            (published(6, b"six", 2000), Relation::Grown),
        ] {
            assert_eq!(seen.compare(&now).unwrap(), relation, "{now:?}");
        }
        for now in [published(5, b"FIVE", 2000), published(4, b"four", 2000)] {
            let error = seen.compare(&now).unwrap_err().to_string();
            assert!(error.contains("rolled back or forked"), "{error}");
        }
    }
}

//! Checks before a log is taken over. Nothing is written.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lucarne_log::{ForeignLog, Inspection};
use lucarne_net::counted;
use lucarne_storage::{Assets, LockError, SqlLock, read_file};
use lucarne_tlog::Tile;
use tokio::time::Instant;

use super::checked::Checked;
use super::findings::{Findings, Verdict};
use super::{holders, places, promised};
use crate::causes::causes;
use crate::commands::fsck;
use crate::commands::lock::show;
use crate::config::{Config, DataPlace, LockPlace, LogSettings, Report};
use crate::files::is_absent;
use crate::roots::{self, Purpose};
use crate::{inception, open};

/// Observation time that exceeds the signing interval of an idle log of Sunlight or Lucarne.
const STILL: Duration = Duration::from_secs(6);
/// Observation time for TesseraCT, whose interval is 30 s unless a flag sets a longer one.
const TESSERACT_STILL: Duration = Duration::from_secs(35);
/// Margin that is added to the configured interval of checkpoints for the observation time.
const MARGIN: Duration = Duration::from_secs(5);
/// Age of a checkpoint after which its signer is stopped or paused, even if the clock is somewhat
/// wrong.
const LONG_AGO_MS: u64 = 600_000;
/// Interval at which the checkpoint is read during the observation.
const LOOK: Duration = Duration::from_millis(500);

/// State of the lock of a log that can be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockState {
    /// The lock has a checkpoint of this log, which agrees with storage.
    Agrees,
    /// The lock has no checkpoint of this log; `adopt` copies the published checkpoint to the lock.
    Absent,
}

/// Results of the checks that the takeover needs.
pub(super) struct Preflight {
    pub(super) foreign: Option<ForeignLog>,
    pub(super) lock: Option<LockState>,
    /// Data tiles whose names tiles must be written again.
    pub(super) names: Vec<Tile>,
}

impl Preflight {
    /// Runs all checks, the cheapest first, and prints each result.
    ///
    /// # Errors
    /// If the data cannot be opened.
    pub(super) async fn of(
        config: &Config,
        log: &LogSettings,
        sequenced: Option<u64>,
        findings: &mut Findings,
    ) -> Result<Preflight> {
        let begun = Instant::now();
        places::look(log, &config.checkpoints.value, findings).await;
        holders::look(log, &config.checkpoints.value, findings).await;
        accepted_roots(log, findings);
        let assets = open::watched_assets(&log.data.value).await?;
        let (foreign, lock) = match ForeignLog::open(log.to_log_config(), assets.clone()).await {
            Ok(foreign) => {
                let published = foreign.published();
                let entries = counted(published.size, "entry");
                let said = format!("{entries}, signed with this key");
                findings.right("checkpoint", &said);
                let lock = lock(config, log, findings).await;
                if matches!(log.data.value, DataPlace::Bucket(_)) && lock == Some(LockState::Absent)
                {
                    let place = &config.checkpoints.value;
                    promised::look(place, sequenced, &published, findings).await;
                }
                (Some(foreign), lock)
            }
            Err(fatal) => {
                findings.fatal("checkpoint", &fatal);
                (None, None)
            }
        };
        let mut names = Vec::new();
        if let Some(foreign) = &foreign {
            if let DataPlace::Directory(directory) = &log.data.value {
                tesseract_state(directory, foreign, findings);
            }
            names = files(log, foreign, findings).await;
            let still = still(log, foreign, findings);
            stopped(begun + still, log, foreign, &assets, findings).await;
        }
        Ok(Preflight {
            foreign,
            lock,
            names,
        })
    }
}

/// Returns the time during which nothing may be signed. Reports this time if it is longer than
/// usual.
fn still(log: &LogSettings, foreign: &ForeignLog, findings: &mut Findings) -> Duration {
    let age_ms = log
        .clock
        .now_ms()
        .saturating_sub(foreign.published().timestamp_ms);
    let still = time_to_sign(
        &log.data.value,
        age_ms,
        log.rounds.sequencer.max_checkpoint_age,
    );
    if still == STILL || !findings.stand() {
        return STILL;
    }
    findings.note(&format!(
        "the log was signed {} s ago: waiting up to {} s to detect other software that signs it",
        age_ms / 1000,
        still.as_secs()
    ));
    still
}

/// Returns the time within which a process that still holds the log would sign again, if the
/// checkpoint is `age_ms` old.
fn time_to_sign(data: &DataPlace, age_ms: u64, interval: Duration) -> Duration {
    let perhaps_tesseracts = match data {
        DataPlace::Directory(directory) => directory.join(".state").is_dir(),
        // The process that owns a bucket cannot be detected. An agreeing lock does not exclude
        // TesseraCT, which uses another lock.
        DataPlace::Bucket(_) => true,
    };
    if perhaps_tesseracts && age_ms <= LONG_AGO_MS {
        TESSERACT_STILL.max(interval + MARGIN)
    } else {
        STILL
    }
}

/// Checks until `until` that no process signs the log.
async fn stopped(
    until: Instant,
    log: &LogSettings,
    foreign: &ForeignLog,
    assets: &Arc<dyn Assets>,
    findings: &mut Findings,
) {
    loop {
        match ForeignLog::open(log.to_log_config(), assets.clone()).await {
            Ok(now) if now.published().checkpoint == foreign.published().checkpoint => {}
            Ok(_) => {
                let why = "the log was signed during the check: stop the other software \
                           permanently first; to build the index while that software runs, use \
                           --follow";
                return findings.refused("stopped", why);
            }
            Err(fatal) => return findings.fatal("stopped", &fatal),
        }
        if Instant::now() >= until {
            return findings.right("stopped", "nothing was published during the check");
        }
        tokio::time::sleep_until(until.min(Instant::now() + LOOK)).await;
    }
}

fn accepted_roots(log: &LogSettings, findings: &mut Findings) {
    let mut report = Report::default();
    let roots = roots::load(log, Purpose::Look, &mut report);
    match report.problems() {
        [] => findings.right("roots", &format!("{} are accepted", roots.len())),
        _ => findings.add(
            "roots",
            Verdict::Refused,
            &report.problem_lines().join("; "),
        ),
    }
}

/// Compares the lock with storage, including staged rounds.
async fn lock(config: &Config, log: &LogSettings, findings: &mut Findings) -> Option<LockState> {
    let place = &config.checkpoints.value;
    match known(place, log).await {
        Err(error) => {
            findings.add("lock", Verdict::Unknown, &error.to_string());
            None
        }
        Ok(false) => unlocked(log, findings).await,
        Ok(true) => match show::ask(config, log).await {
            Ok((_, _, inspection)) => agreed(inspection, findings),
            Err(fatal) => {
                findings.fatal("lock", &fatal);
                None
            }
        },
    }
}

/// Returns whether the lock has the log. A lock that does not exist yet has no logs.
async fn known(place: &LockPlace, log: &LogSettings) -> Result<bool, LockError> {
    let is_there = match place {
        LockPlace::Sqlite(path) => !is_absent(path),
        LockPlace::Server(url) => SqlLock::is_there(url).await?,
        LockPlace::Bucket(_) => true,
    };
    if !is_there {
        return Ok(false);
    }
    let lock = open::watched_lock(place).await?;
    let known = inception::exists(log, &*lock).await;
    lock.close().await;
    known
}

fn agreed(mut inspection: Inspection, findings: &mut Findings) -> Option<LockState> {
    // The doubt alone does not refuse: another program may have left the mark of a killed server.
    let doubt = inspection.doubt.take_if(|_| inspection.refusal.is_none());
    if let Some(problem) = show::problem(&inspection) {
        findings.add("lock", Verdict::Refused, &problem);
        return None;
    }
    if let Some(doubt) = doubt {
        findings.add("lock", Verdict::Noted, &doubt);
    }
    match show::ahead(&inspection) {
        Some(ahead) => findings.right("lock", &format!("agrees with storage; {ahead}")),
        None => findings.right(
            "lock",
            "matches the storage: all signed entries are published",
        ),
    }
    Some(LockState::Agrees)
}

/// Checks whether the lock can be created from the published checkpoint: storage must hold nothing
/// newer, and neither Sunlight nor Lucarne may have signed more.
async fn unlocked(log: &LogSettings, findings: &mut Findings) -> Option<LockState> {
    if let DataPlace::Directory(directory) = &log.data.value {
        let theirs = directory.join(".state").is_dir();
        let sunlights = directory.join("staging").is_dir() || directory.join("_roots.pem").exists();
        if sunlights && !theirs {
            let why = "the lock has no checkpoint of this log, but Sunlight wrote the directory: \
                       set `checkpoints` to Sunlight's lock. If that lock is lost: \
                       docs/how-to/disaster-recovery.md, \
                       \"The lock is lost\"";
            findings.refused("lock", why);
            return None;
        }
    }
    let assets = match open::watched_assets(&log.data.value).await {
        Ok(assets) => assets,
        Err(error) => {
            findings.add("lock", Verdict::Unknown, &error.to_string());
            return None;
        }
    };
    if let (DataPlace::Bucket(_), Ok(Some(_))) = (&log.data.value, assets.get("_roots.pem").await) {
        let why = "the lock has no checkpoint of this log, but Sunlight wrote the bucket: set \
                   `checkpoints` to Sunlight's lock, if that lock is an SQLite database. If \
                   Sunlight uses `etags3` or \
                   `dynamodb`, stop Sunlight, copy the lock's checkpoint of this log to a file, \
                   and run `lucarne lock rebuild --known FILE` first: the command refuses if more \
                   entries are signed than published";
        findings.refused("lock", why);
        return None;
    }
    match lucarne_log::newest(&log.to_log_config(), assets, &[]).await {
        Ok(newest) => {
            let size = newest.published().size;
            let why = format!(
                "there is no checkpoint of this log; `adopt` creates one with {}",
                counted(size, "entry")
            );
            findings.right("lock", &why);
            Some(LockState::Absent)
        }
        Err(fatal) => {
            findings.fatal("lock", &fatal);
            None
        }
    }
}

/// Compares the integrated tree of TesseraCT with the published one.
fn tesseract_state(directory: &Path, foreign: &ForeignLog, findings: &mut Findings) {
    let path = directory.join(".state/treeState");
    let json = match read_file(directory, ".state/treeState") {
        Ok(None) => return,
        Err(error) => {
            let why = format!("{}: {error}", path.display());
            return findings.add(".state", Verdict::Unknown, &why);
        }
        Ok(Some(json)) => json,
    };
    let said: Option<serde_json::Value> = serde_json::from_slice(&json).ok();
    let size = said.as_ref().and_then(|said| said.get("size")?.as_u64());
    let root = said.as_ref().and_then(|said| {
        base64_simd::STANDARD
            .decode_to_vec(said.get("root")?.as_str()?)
            .ok()
    });
    let (Some(size), Some(root)) = (size, root) else {
        let why = format!("{} is not a state file of TesseraCT", path.display());
        return findings.add(".state", Verdict::Unknown, &why);
    };
    let published = foreign.published();
    if size == published.size && root == published.root.0 {
        return findings.right(
            ".state",
            "all entries that TesseraCT has integrated are published",
        );
    }
    let entries = counted(size, "entry");
    let why = if size > published.size {
        format!(
            "TesseraCT has integrated {entries} and published {}: start TesseraCT again \
             without submissions, wait until all entries are published, and stop TesseraCT",
            published.size
        )
    } else {
        format!(
            "TesseraCT's state has {entries}, and {} are published with another root: state \
             and tiles belong to different logs, or the state was restored",
            published.size
        )
    };
    findings.add(".state", Verdict::Refused, &why);
}

/// Checks all files. Returns the data tiles whose names tiles must be written again.
async fn files(log: &LogSettings, foreign: &ForeignLog, findings: &mut Findings) -> Vec<Tile> {
    let checked = match fsck::opened(&log.data.value).await {
        Ok((files, _)) => Checked::up_to(log, foreign, files).await,
        Err(error) => Err(error),
    };
    let checked = match checked {
        Err(error) => {
            findings.add("files", Verdict::Unknown, &causes(&error));
            return Vec::new();
        }
        Ok(checked) => checked,
    };
    match checked.problem() {
        Some(problem) if !checked.only_names() => {
            findings.add("files", checked.verdict(), &problem);
            return Vec::new();
        }
        _ => findings.right("files", &checked.extent()),
    }
    if !checked.names.is_empty() {
        let said = format!(
            "{} names tiles do not match their entries: `adopt` computes and writes them again",
            checked.names.len()
        );
        findings.add("names", Verdict::Noted, &said);
    }
    checked.names
}

#[cfg(test)]
mod tests {
    use lucarne_storage::ObjectStoreConfig;

    use super::*;

    /// The software that owns a bucket cannot be detected.
    #[test]
    fn the_wait_is_longer_than_other_software_waits_before_it_signs() {
        let directory = tempfile::tempdir().unwrap();
        let place = DataPlace::Directory(directory.path().to_owned());
        let bucket = ObjectStoreConfig::from_url("s3://bucket/log/?region=a").unwrap();
        let bucket = DataPlace::Bucket(Box::new(bucket));
        let (short, long) = (Duration::from_secs(5), Duration::from_secs(60));
        assert_eq!(time_to_sign(&place, 0, short), STILL);
        assert_eq!(time_to_sign(&bucket, 0, short), TESSERACT_STILL);
        assert_eq!(time_to_sign(&bucket, 30_000, long), long + MARGIN);
        assert_eq!(time_to_sign(&bucket, LONG_AGO_MS + 1, short), STILL);
        std::fs::create_dir(directory.path().join(".state")).unwrap();
        assert_eq!(time_to_sign(&place, 0, short), TESSERACT_STILL);
    }
}

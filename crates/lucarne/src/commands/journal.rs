//! `lucarne journal list`: the rounds of the journal and their states.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use lucarne_log::{
    Fatal, FoundCheckpoint, LogConfig, Record, RecordError, Standing, Step, standings,
};
use lucarne_net::counted;
use lucarne_storage::{Assets, JournalContents, Lock, StagedRecord};
use serde_json::{Value, json};

use super::looking::{self, LOOKING_CODES, Look, Report, Verdict};
use crate::config::{Config, LogSettings, rfc3339};
use crate::open;

/// Maximum number of reads, for a log that signs faster than its journal is read.
const LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(20);

/// Commands for the journal.
#[derive(Debug, Subcommand)]
pub enum Journal {
    /// List the rounds of the journal and the state of each
    ///
    /// Prints whether each round follows the previous round, and the state of each round:
    /// published, signed, staged, not needed, passed over, or beyond the lock. Only reads; may run
    /// while the server runs.
    #[command(after_help = LOOKING_CODES)]
    List(Look),
}

/// Prints the rounds in the journals of the logs.
pub(crate) fn list(options: &Look) -> ExitCode {
    looking::run(options, async |config, log| look(config, log).await)
}

async fn look(config: &Config, log: &LogSettings) -> Report {
    match ask(config, log).await {
        Ok(seen) => seen.report(log),
        Err(error) => Report::unseen(log, error),
    }
}

/// Journal of a log, with the checkpoints to compare it with.
struct Seen {
    /// Location of the data.
    location: String,
    lock: Option<FoundCheckpoint>,
    published: Option<FoundCheckpoint>,
    contents: JournalContents,
}

async fn ask(config: &Config, log: &LogSettings) -> Result<Seen, Fatal> {
    let lock = open::watched_lock(&config.checkpoints.value).await?;
    let assets = open::watched_assets(&log.data.value).await?;
    let settings = log.to_log_config();
    let mut seen = read(log, &settings, &*assets, &*lock).await?;
    for _ in 1..LOOKS {
        if seen.leads_to_lock() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        let again = read(log, &settings, &*assets, &*lock).await?;
        // The journal was read after the lock had this checkpoint. A round that is missing now does
        // not exist.
        let is_settled = again.lock == seen.lock;
        seen = again;
        if is_settled {
            break;
        }
    }
    lock.close().await;
    Ok(seen)
}

/// Reads the journal before the lock, so that the checkpoint of the lock is at least as new as the
/// start of every round.
async fn read(
    log: &LogSettings,
    config: &LogConfig,
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<Seen, Fatal> {
    let contents = open::journal(&log.data.value).await?;
    let lock = signed(config, lock).await?;
    let published = assets.get("checkpoint").await?;
    Ok(Seen {
        location: assets.location(),
        lock,
        published: published.map(|note| FoundCheckpoint::read(&note, config)),
        contents,
    })
}

async fn signed(config: &LogConfig, lock: &dyn Lock) -> Result<Option<FoundCheckpoint>, Fatal> {
    let note = lock.load(&config.key.log_id().0).await?;
    Ok(note.map(|note| FoundCheckpoint::read(&note, config)))
}

/// Place of a round, and its contents or the reason why it cannot be read.
struct Round<'s> {
    at: &'s StagedRecord,
    record: Result<(Step, usize), RecordError>,
}

impl Seen {
    fn rounds(&self) -> Vec<Round<'_>> {
        let records = self.contents.records.iter();
        let read = |at: &StagedRecord| -> Result<_, RecordError> {
            let record = Record::parse(at.record.clone())?;
            Ok((record.step, record.issuers.len()))
        };
        let round = |at| Round {
            at,
            record: read(at),
        };
        records.map(round).collect()
    }

    /// Returns whether the lock's checkpoint is published or is the end of a round.
    fn leads_to_lock(&self) -> bool {
        let signed = self.lock.as_ref().and_then(FoundCheckpoint::verified);
        let published = self.published.as_ref().and_then(FoundCheckpoint::verified);
        let rounds = self.rounds();
        let ends = rounds.iter().filter_map(|round| round.record.as_ref().ok());
        let mut ends = ends.map(|(step, _)| (step.new_size, step.new_root));
        signed.is_none_or(|signed| Some(signed) == published || ends.any(|end| end == signed))
    }

    fn report(&self, log: &LogSettings) -> Report {
        let rounds = self.rounds();
        let steps: Vec<Step> = rounds
            .iter()
            .filter_map(|round| Some(round.record.as_ref().ok()?.0))
            .collect();
        let signed = self.lock.as_ref().and_then(FoundCheckpoint::verified);
        let published = self.published.as_ref().and_then(FoundCheckpoint::verified);
        let standings = standings(&steps, signed, published);
        let problems = self.problems(&rounds, &standings);
        let mut standings = standings.into_iter();
        let (mut lines, mut list, mut before) = (String::new(), Vec::new(), None);
        for round in &rounds {
            let standing = match round.record {
                Ok(_) => standings.next(),
                Err(_) => None,
            };
            let (line, json) = round.show(before, standing);
            lines += &line;
            list.push(json);
            before = round.record.as_ref().ok().map(|(step, _)| *step).or(before);
        }
        let verdict = if problems.is_empty() {
            Verdict::Fine
        } else {
            Verdict::Wrong
        };
        let text = format!(
            "log {}\n  data         {}\n  lock\n{}  published\n{}  journal      {}\n{lines}{}{}",
            log.shortname.value,
            self.location,
            looking::lines(self.lock.as_ref()),
            looking::lines(self.published.as_ref()),
            self.summary(&steps),
            self.torn_lines(),
            match &problems[..] {
                [] => "  ✓ as a running log leaves it\n".to_owned(),
                problems => problems
                    .iter()
                    .map(|problem| format!("  ✗ {problem}\n"))
                    .collect(),
            }
        );
        let json = json!({
            "name": log.shortname.value,
            "location": self.location,
            "lock": looking::value(self.lock.as_ref()),
            "published": looking::value(self.published.as_ref()),
            "rounds": list,
            "torn": self.contents.torn.iter().map(|torn| json!({
                "file": torn.file, "offset": torn.offset, "bytes": torn.bytes,
            })).collect::<Vec<_>>(),
            "problems": problems,
        });
        Report {
            verdict,
            text,
            json,
        }
    }

    fn summary(&self, steps: &[Step]) -> String {
        let bytes: u64 = self.contents.records.iter().map(|at| at.bytes).sum();
        match (steps.first(), steps.last()) {
            (Some(first), Some(last)) => format!(
                "{}, {} → {}, {bytes} bytes",
                counted(steps.len(), "round"),
                first.old_size,
                last.new_size
            ),
            _ => "no rounds".to_owned(),
        }
    }

    fn torn_lines(&self) -> String {
        let line = |torn: &lucarne_storage::TornTail| {
            format!(
                "    torn tail: {} bytes of {} from byte {}: never acknowledged, and dropped at \
                 the next start; or a running log is writing it now\n",
                torn.bytes, torn.file, torn.offset
            )
        };
        self.contents.torn.iter().map(line).collect()
    }

    /// Returns the findings that no crash explains.
    fn problems(&self, rounds: &[Round<'_>], standings: &[Standing]) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        problems.extend(self.contents.damage.iter().map(ToString::to_string));
        for round in rounds {
            if let Err(why) = &round.record {
                problems.push(format!("{}: {why}", round.place()));
            }
        }
        match &self.lock {
            None => problems.push("the lock holds no checkpoint of this log".to_owned()),
            Some(FoundCheckpoint { signed: Err(_), .. }) => {
                problems.push("the lock has a record of this log that is not a checkpoint".into());
            }
            Some(_) if standings.contains(&Standing::Beyond) => problems.push(
                "rounds extend a signed tree that is unknown to the lock: the lock was rolled \
                 back, or belongs to a copy of this log. Restore the newest lock"
                    .to_owned(),
            ),
            Some(lock) => problems.extend(self.gap(lock, rounds, standings)),
        }
        problems
    }

    /// Checks that the journal contains all signed rounds that are not published.
    fn gap(
        &self,
        lock: &FoundCheckpoint,
        rounds: &[Round<'_>],
        standings: &[Standing],
    ) -> Option<String> {
        let (size, _) = lock.verified()?;
        let published = self.published.as_ref().and_then(FoundCheckpoint::verified);
        let from = published.map_or(0, |(size, _)| size);
        if from >= size {
            return None;
        }
        let read = rounds.iter().filter_map(|round| round.record.as_ref().ok());
        let mut path = read.zip(standings).filter_map(|((step, _), standing)| {
            matches!(standing, Standing::Signed).then_some(step)
        });
        match path.next() {
            Some(step) if step.old_size <= from => None,
            _ => Some(format!(
                "the lock has signed {size} entries, {from} are published, and the journal does not \
                 lead from there: `lucarne lock show` compares the tiles, too"
            )),
        }
    }
}

impl Round<'_> {
    fn place(&self) -> String {
        format!("{} at byte {}", self.at.file, self.at.offset)
    }

    /// Formats a round as a line and as JSON.
    fn show(&self, before: Option<Step>, standing: Option<Standing>) -> (String, Value) {
        let place = json!({
            "file": self.at.file, "offset": self.at.offset, "bytes": self.at.bytes,
        });
        let (step, issuers) = match &self.record {
            Ok(read) => read,
            Err(why) => {
                let line = format!("    {}: {why}\n", self.place());
                return (line, json!({"at": place, "problem": why.to_string()}));
            }
        };
        let follows = before
            .map(|before| (before.new_size, before.new_root) == (step.old_size, step.old_root));
        let entries = step.new_size.saturating_sub(step.old_size);
        let line = format!(
            "    {} → {}  {}, {}, {} bytes, {}, {}{}\n      {}\n",
            step.old_size,
            step.new_size,
            counted(entries, "entry"),
            counted(*issuers, "issuer"),
            self.at.bytes,
            rfc3339(step.timestamp_ms),
            words(standing),
            match follows {
                Some(false) => ", does not follow the previous round",
                _ => "",
            },
            self.place()
        );
        let json = json!({
            "at": place,
            "old_size": step.old_size,
            "new_size": step.new_size,
            "entries": entries,
            "issuers": issuers,
            "timestamp_ms": step.timestamp_ms,
            "follows": follows,
            "standing": standing.map(key),
        });
        (line, json)
    }
}

fn words(standing: Option<Standing>) -> &'static str {
    match standing {
        Some(Standing::Published) => "published",
        Some(Standing::Signed) => "signed, to be published",
        Some(Standing::Staged) => "staged on the signed tree, but not signed",
        Some(Standing::Covered) => "not needed: the published checkpoint is as large",
        Some(Standing::PassedOver) => "passed over: never signed",
        Some(Standing::Beyond) => "✗ beyond the lock",
        None => "not read",
    }
}

fn key(standing: Standing) -> &'static str {
    match standing {
        Standing::Published => "published",
        Standing::Signed => "signed",
        Standing::Staged => "staged",
        Standing::Covered => "covered",
        Standing::PassedOver => "passed_over",
        Standing::Beyond => "beyond",
    }
}

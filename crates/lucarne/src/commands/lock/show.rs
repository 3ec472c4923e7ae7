//! `lucarne lock show`: compares the lock with the published checkpoint.

use std::process::ExitCode;

use lucarne_log::{Fatal, FoundCheckpoint, Inspection};
use lucarne_net::counted;
use lucarne_storage::Lease;
use serde_json::json;

use crate::commands::looking::{self, Look, Report, Verdict};
use crate::config::{Config, LogSettings};
use crate::open;

/// Maximum number of rounds whose sizes are listed in full.
const NAMED: usize = 8;
/// Text if the lock's checkpoint is published.
const NOTHING: &str = "nothing: all signed entries are published";

/// Prints the lock's checkpoint and the published one for each log.
pub(crate) fn run(options: &Look) -> ExitCode {
    looking::run(options, async |config, log| look(config, log).await)
}

async fn look(config: &Config, log: &LogSettings) -> Report {
    match ask(config, log).await {
        Ok((lock, data, inspection)) => report(log, &lock, &data, &inspection),
        Err(error) => Report::unseen(log, error),
    }
}

/// Returns the locations of lock and data, and their contents.
pub(crate) async fn ask(
    config: &Config,
    log: &LogSettings,
) -> Result<(String, String, Inspection), Fatal> {
    let lock = open::watched_lock(&config.checkpoints.value).await?;
    let assets = open::watched_assets(&log.data.value).await?;
    let inspection = lucarne_log::inspect(&log.to_log_config(), &assets, &*lock).await?;
    lock.close().await;
    Ok((lock.location(), assets.location(), inspection))
}

fn report(log: &LogSettings, lock: &str, data: &str, inspection: &Inspection) -> Report {
    let name = &log.shortname.value;
    let problem = problem(inspection);
    let verdict = match problem {
        None => Verdict::Fine,
        Some(_) => Verdict::Wrong,
    };
    let mut text = format!(
        "log {name}\n  lock         {lock}\n{}  published    {data}\n{}",
        looking::lines(inspection.lock.as_ref()),
        looking::lines(inspection.published.as_ref()),
    );
    if let Some(lease) = &inspection.lease {
        text += &format!("  lease        {}\n", of_lease(lease));
    }
    if inspection.refusal.is_none() {
        let ahead = ahead(inspection);
        let between = ahead.as_deref().unwrap_or(NOTHING);
        text += &format!("  between      {between}\n");
    }
    text += &match &problem {
        None => "  ✓ as a running log leaves it\n".to_owned(),
        Some(problem) => format!("  ✗ {problem}\n"),
    };
    let json = json!({
        "name": name,
        "log_id": log.key.log_id().to_string(),
        "lock": {"location": lock, "checkpoint": looking::value(inspection.lock.as_ref())},
        "published": {"location": data, "checkpoint": looking::value(inspection.published.as_ref())},
        "lease": inspection.lease.as_ref().map(|lease| match lease {
            Ok(lease) => json!({
                "holder": lease.holder.map(hex::encode),
                "address": lease.address,
                "epoch": lease.epoch,
                "renewal": lease.renewal,
            }),
            Err(problem) => json!({"problem": problem}),
        }),
        "consistent": inspection.refusal.is_none(),
        "between": inspection.bridge.iter().map(|step| json!({
            "old_size": step.old_size,
            "new_size": step.new_size,
            "timestamp_ms": step.timestamp_ms,
        })).collect::<Vec<_>>(),
        "problem": problem,
    });
    Report {
        verdict,
        text,
        json,
    }
}

/// Describes the lease and its holder.
fn of_lease(lease: &Result<Lease, String>) -> String {
    match lease {
        Ok(Lease {
            holder,
            address,
            epoch,
            renewal,
        }) => match holder {
            Some(_) => format!("the instance at {address} leads: epoch {epoch}, renewal {renewal}"),
            None => format!("no instance leads; the last was at {address}: epoch {epoch}"),
        },
        Err(problem) => format!("✗ {problem}"),
    }
}

/// Describes a state that a running log would not leave, if any.
pub(crate) fn problem(inspection: &Inspection) -> Option<String> {
    let found = [&inspection.refusal, &inspection.doubt];
    let found: Vec<&str> = found.into_iter().flatten().map(String::as_str).collect();
    if !found.is_empty() {
        return Some(found.join(". "));
    }
    match &inspection.published {
        None => Some(
            "nothing is published: the next start publishes the lock's checkpoint. Find out how \
             the published checkpoint was removed"
                .to_owned(),
        ),
        Some(published) => published.signed.as_ref().err().map(|why| {
            format!(
                "the published checkpoint is damaged ({why}): the next start publishes the lock's \
                 checkpoint again. Check the disk"
            )
        }),
    }
}

/// Describes the signed entries that are not published, if any.
pub(crate) fn ahead(inspection: &Inspection) -> Option<String> {
    let rounds = &inspection.bridge;
    let (Some(first), Some(last)) = (rounds.first(), rounds.last()) else {
        let size = |found: &Option<FoundCheckpoint>| Some(found.as_ref()?.verified()?.0);
        let (lock, published) = (size(&inspection.lock)?, size(&inspection.published)?);
        return (lock > published).then(|| {
            format!(
                "the checkpoint of {}, whose tiles are complete; the next start publishes it",
                counted(lock, "entry")
            )
        });
    };
    let mut sizes: Vec<String> = vec![first.old_size.to_string()];
    sizes.extend(rounds.iter().map(|step| step.new_size.to_string()));
    if sizes.len() > NAMED {
        sizes.splice(NAMED / 2..sizes.len() - NAMED / 2, ["…".to_owned()]);
    }
    Some(format!(
        "{} of the journal ({}), signed up to {} and to be published at the next start",
        counted(rounds.len(), "round"),
        sizes.join(" → "),
        last.new_size
    ))
}

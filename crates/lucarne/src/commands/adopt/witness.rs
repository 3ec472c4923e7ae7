//! `lucarne adopt --witness`: checks the witness that Sunlight left.
//!
//! Lucarne uses Sunlight's seed and lock as they are: nothing is written.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use lucarne_cosign::Witness;
use lucarne_net::counted;
use lucarne_storage::Lock;
use lucarne_tlog::{Checkpoint, SignedNote};
use serde_json::Value;

use super::Findings;
use super::options::Adopt;
use crate::causes::causes;
use crate::config::{Config, WitnessSettings};
use crate::{open, witness};

/// Checks keys, lock and public files of the witness.
pub(super) async fn adopt(
    config: &Config,
    options: &Adopt,
    findings: &mut Findings,
) -> Result<ExitCode> {
    let settings = config.witness.as_ref();
    let settings = settings.context("the configuration has no `witness`")?;
    let (lock, witness) = opened(config, settings).await?;
    note(findings, "keys", published_keys(settings));
    let records = records(&witness, settings).await;
    lock.close().await;
    let size = match records {
        Ok((cosigned, said)) => {
            findings.right("lock", &said);
            cosigned
        }
        Err(error) => {
            findings.refused("lock", &causes(&error));
            0
        }
    };
    if !findings.stand() {
        return Ok(findings.fail("the witness was not taken over; nothing was written"));
    }
    let name = settings.name();
    let serve = format!("lucarne serve -c {}", options.config.display());
    if options.check {
        let said = format!("witness {name} can be taken over; nothing was written");
        return Ok(findings.end("adoptable", &said, size));
    }
    let said = format!(
        "witness {name} has Lucarne's format: nothing had to be written. Remove the unit of \
         Sunlight, so that it never starts again, and start `{serve}`, or `lucarne witness` for a \
         configuration without logs"
    );
    Ok(findings.end("adopted", &said, size))
}

fn note(findings: &mut Findings, check: &'static str, said: Result<String>) {
    match said {
        Ok(said) => findings.right(check, &said),
        Err(error) => findings.refused(check, &causes(&error)),
    }
}

/// Opens the lock, and the witness with the logs of earlier lists.
pub(crate) async fn opened(
    config: &Config,
    settings: &WitnessSettings,
) -> Result<(Arc<dyn Lock>, Witness)> {
    let lock = open::lock(&config.checkpoints.value, Arc::new(())).await?;
    let witness = witness::of(settings, &lock)?;
    if witness.exists().await? {
        witness.add_logs(witness.remembered().await?);
    }
    Ok((lock, witness))
}

/// Compares the keys with the published ones: another seed or name has other keys.
fn published_keys(settings: &WitnessSettings) -> Result<String> {
    let Some(directory) = &settings.directory else {
        return Ok("not compared, because `localdirectory` is missing".to_owned());
    };
    let file = directory.join("witness.v0.json");
    let json = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let published: Value =
        serde_json::from_slice(&json).with_context(|| format!("{} is not JSON", file.display()))?;
    let ours = settings.cosigners.iter();
    let ours: Vec<_> = ours.map(|key| key.verifier().to_string()).collect();
    ensure!(
        published["verifier_keys"] == Value::from(ours),
        "{} has other keys: correct `name` or `secret`",
        file.display()
    );
    for (key, prefix) in [
        ("submission_url", &settings.submission),
        ("monitoring_url", &settings.monitoring),
    ] {
        ensure!(
            published[key] == prefix.value.url,
            "{} has the {key} {}, and the configuration {}",
            file.display(),
            published[key],
            prefix.value.url
        );
    }
    Ok("name, keys and URLs are the published ones".to_owned())
}

/// Verifies all records, and that none is older than its published checkpoint. Returns the number
/// of logs with a record, and a summary.
async fn records(witness: &Witness, settings: &WitnessSettings) -> Result<(u64, String)> {
    let logs = witness.logs();
    let mut cosigned = 0;
    for origin in logs.origins() {
        let of_log = || format!("log {origin}");
        let recorded = witness.checkpoint(origin).await.with_context(of_log)?;
        let size = |note: &SignedNote| -> Result<u64> {
            Ok(Checkpoint::parse_extended(&note.text)?.0.size)
        };
        let recorded = recorded.as_ref().map(size).transpose()?;
        cosigned += u64::from(recorded.is_some());
        let published = settings.published(origin).map(|file| std::fs::read(&file));
        if let Some(Ok(published)) = published {
            let published = size(&SignedNote::parse(&published).with_context(of_log)?)?;
            ensure!(
                recorded >= Some(published),
                "the lock is older than the published checkpoint of {origin} with {published} \
                 entries: restore the newest lock"
            );
        }
    }
    ensure!(
        witness.exists().await?,
        "the lock has no logs of this witness: correct `checkpoints`, `name` or `secret`, or \
         restore the newest lock"
    );
    let said = format!(
        "{} of this witness, {cosigned} of them cosigned",
        counted(logs.origins().len(), "log")
    );
    Ok((cosigned, said))
}

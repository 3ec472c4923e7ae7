//! `lucarne adopt --witness`: checks the witness that Sunlight left.
//!
//! Lucarne uses Sunlight's seed and lock as they are: nothing is written.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use lucarne_cosign::{LogKeys, Witness};
use lucarne_net::counted;
use lucarne_storage::Lock;
use lucarne_tlog::{Checkpoint, SignedNote};
use serde_json::Value;

use super::Findings;
use super::options::Adopt;
use crate::causes::causes;
use crate::config::{Config, WitnessSettings};
use crate::{open, witness_service};

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
    let witness = witness_service::of(settings, &lock)?;
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

/// Verifies all records, and that none is absent or older than its published checkpoint. Returns
/// the number of logs with a record, and a summary.
async fn records(witness: &Witness, settings: &WitnessSettings) -> Result<(u64, String)> {
    ensure!(
        witness.exists().await?,
        "the lock has no logs of this witness: correct `checkpoints`, `name` or `secret`, or \
         restore the newest lock"
    );
    let logs = witness.logs();
    if let Some(directory) = &settings.directory {
        all_known(directory, &logs)?;
    }
    let mut cosigned = 0;
    for origin in logs.origins() {
        let of_log = || format!("log {origin}");
        let recorded = witness.checkpoint(origin).await.with_context(of_log)?;
        let checkpoint = |note: &SignedNote| -> Result<Checkpoint> {
            Ok(Checkpoint::parse_extended(&note.text)?.0)
        };
        let recorded = recorded.as_ref().map(checkpoint).transpose()?;
        cosigned += u64::from(recorded.is_some());
        let Some(published) = settings.published(origin) else {
            continue;
        };
        let published = match std::fs::read(&published) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read.with_context(|| format!("cannot read {}", published.display()))?,
        };
        let published = SignedNote::parse(&published).with_context(of_log)?;
        let published = checkpoint(&published).with_context(of_log)?;
        let is_as_new = recorded
            .is_some_and(|recorded| recorded.size > published.size || recorded == published);
        ensure!(
            is_as_new,
            "the lock is older than the published checkpoint of {origin} with {} entries, or has \
             another history: restore the newest lock",
            published.size
        );
    }
    let said = format!(
        "{} of this witness, {cosigned} of them cosigned",
        counted(logs.origins().len(), "log")
    );
    Ok((cosigned, said))
}

/// Checks that the lock knows each log with a public checkpoint: an older lock may lack a log.
fn all_known(directory: &Path, logs: &LogKeys) -> Result<()> {
    let of_directory = || format!("cannot read {}", directory.display());
    for entry in std::fs::read_dir(directory).with_context(of_directory)? {
        let entry = entry.with_context(of_directory)?;
        let mut hash = [0; 32];
        if hex::decode_to_slice(entry.file_name().as_encoded_bytes(), &mut hash).is_err()
            || logs.hashed(&hash).is_some()
        {
            continue;
        }
        let file = entry.path().join("checkpoint");
        match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => {
                let note = read.with_context(|| format!("cannot read {}", file.display()))?;
                bail!(
                    "the lock does not know the log {}, which has the public checkpoint {}: \
                     restore the newest lock",
                    note.lines().next().unwrap_or_default(),
                    file.display()
                );
            }
        }
    }
    Ok(())
}

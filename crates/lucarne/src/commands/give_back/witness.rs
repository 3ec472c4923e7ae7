//! `lucarne give-back --witness`: prepares the public files of a witness for Sunlight.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use lucarne_cosign::{ListedLog, LogKeys, TrustedKey};
use lucarne_net::counted;
use lucarne_storage::LockError;

use super::of_sunlight;
use super::options::Software;
use crate::commands::adopt::{Findings, opened_witness};
use crate::config::Config;

/// Writes the checkpoints of all logs to the directory of Sunlight's public files. Lock and keys
/// have Sunlight's format.
pub(super) async fn give_back(
    config: &Config,
    to: Software,
    findings: &mut Findings,
) -> Result<ExitCode> {
    ensure!(
        to == Software::Sunlight,
        "only Sunlight is a witness: write `--to sunlight`"
    );
    let settings = config.witness.as_ref();
    let settings = settings.context("the configuration has no `witness`")?;
    of_sunlight(config)?;
    ensure!(
        settings.directory.is_some(),
        "`witness.localdirectory` is missing: Sunlight requires it"
    );
    let (lock, witness) = opened_witness(config, settings).await?;
    let (logs, listed) = (witness.logs(), witness.remembered().await?);
    let mut written = 0;
    for origin in logs.origins() {
        let of_log = || format!("log {origin}");
        let recorded = witness.checkpoint(origin).await.with_context(of_log)?;
        if recorded.is_none() {
            // Sunlight requires an empty record of each known log.
            match lock.create(&witness.record_key(origin), b"").await {
                Ok(()) | Err(LockError::Exists { .. }) => {}
                Err(error) => return Err(error).with_context(of_log),
            }
        }
        if let Some(note) = recorded {
            let file = settings.published(origin);
            let file = file.context("`witness.localdirectory` is missing")?;
            replace(&file, note.encode().as_bytes()).with_context(of_log)?;
            written += 1;
        }
    }
    // Opening and closing removes the mark of a killed server.
    lock.close().await;
    for origin in known_only_here(&logs, &listed) {
        findings.note(&format!(
            "Sunlight does not know the log {origin}, which is in `logs`, or has the key of a CT \
             log"
        ));
    }
    let said = format!(
        "witness {} has Sunlight's format: {} written for its read server. Remove the unit of \
         Lucarne, and start Sunlight",
        settings.name(),
        counted(written, "checkpoint")
    );
    Ok(findings.end("given back", &said, written))
}

/// Returns the logs that are not among Sunlight's values in the lock, which has `listed`.
fn known_only_here<'l>(logs: &'l LogKeys, listed: &[ListedLog]) -> Vec<&'l str> {
    let listed = listed
        .iter()
        .filter(|(_, key)| matches!(**key, TrustedKey::Note(_)));
    let listed: HashSet<_> = listed.map(|(origin, _)| origin.as_str()).collect();
    let origins = logs.origins().filter(|origin| !listed.contains(origin));
    let mut origins: Vec<_> = origins.collect();
    origins.sort_unstable();
    origins
}

/// Replaces a public file atomically.
fn replace(file: &Path, bytes: &[u8]) -> Result<()> {
    let directory = file.parent().context("the file has no directory")?;
    std::fs::create_dir_all(directory)?;
    let new = file.with_extension("new");
    std::fs::write(&new, bytes)?;
    std::fs::File::open(&new)?.sync_all()?;
    std::fs::rename(&new, file)?;
    std::fs::File::open(directory)?.sync_all()?;
    Ok(())
}

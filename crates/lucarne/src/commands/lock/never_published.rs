//! `lucarne lock rebuild --never-published`: the way back from a round that the lock has signed
//! and that a failing disk has lost before any of it was published.

use std::sync::Arc;

use anyhow::{Result, ensure};
use lucarne_log::Log;

use super::rebuild::{Outside, compared};
use crate::config::{Config, LogSettings, rfc3339};
use crate::open;

/// Puts the checkpoint of the newest tree that the log has into its lock, in place of that of
/// the lost round.
///
/// # Errors
/// If anything shows that the round was published, or if nobody outside can tell.
pub(super) async fn go_back(
    config: &Config,
    log: &LogSettings,
    outside: &Outside,
) -> Result<String> {
    let settings = log.to_log_config();
    // Held to the end: no process may sign meanwhile.
    let assets = open::assets(&log.data.value, Arc::new(())).await?;
    let lock = open::lock(&config.checkpoints.value, Arc::new(())).await?;
    let lost = Log::never_published(&settings, assets.clone(), &*lock).await?;
    let (known, silent) = outside.ask(&settings).await?;
    for known in &known {
        lost.hold_against(known).await?;
    }
    ensure!(
        known.iter().any(|known| lost.is_followed_by(known)),
        "nobody outside has the newest checkpoint that {} publishes, so nobody can tell whether \
         more was published. Name a mirror or a monitor that follows the log with --known",
        assets.location()
    );
    let (signed, again) = (lost.signed(), lost.again());
    lost.go_back(&settings, &*lock).await?;
    lock.close().await;
    Ok(format!(
        "the lock of log `{}` in {} is now at {} entries, signed at {}. It was at {} entries, signed \
         at {}: keep that checkpoint as a record, and never publish it\n\n{}\n{}",
        log.shortname.value,
        lock.location(),
        again.size,
        rfc3339(again.timestamp_ms),
        signed.size,
        rfc3339(signed.timestamp_ms),
        String::from_utf8_lossy(&signed.checkpoint),
        compared(&known, &silent, &assets.location())
    ))
}

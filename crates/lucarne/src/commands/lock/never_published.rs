//! `lucarne lock rebuild --never-published`: goes back from a round that the lock signed and that a
//! failing disk lost before any of it was published.

use std::sync::Arc;

use anyhow::{Result, ensure};
use lucarne_net::counted;

use super::outside::{Outside, compared};
use crate::config::{Config, LogSettings, rfc3339};
use crate::open;

/// Replaces the lock's checkpoint of the lost round with the checkpoint of the log's newest tree.
///
/// # Errors
/// If there is evidence that the round was published, or no outside checkpoint excludes this.
pub(super) async fn go_back(
    config: &Config,
    log: &LogSettings,
    outside: &Outside,
) -> Result<String> {
    let settings = log.to_log_config();
    // The directory stays locked to the end, so that no process signs.
    let assets = open::assets(&log.data.value, Arc::new(())).await?;
    let lock = open::lock(&config.checkpoints.value, Arc::new(())).await?;
    let lost = lucarne_log::never_published(&settings, assets.clone(), &*lock).await?;
    let (known, silent) = outside.ask(&settings).await?;
    for known in &known {
        lost.hold_against(known).await?;
    }
    ensure!(
        known.iter().any(|known| lost.is_followed_by(known)),
        "no other place has the newest checkpoint that {} publishes, so later checkpoints may have \
         been published. Give a mirror or a monitor that follows the log with --known",
        assets.location()
    );
    let (signed, again) = (lost.signed(), lost.again());
    lost.go_back(&settings, &*lock).await?;
    lock.close().await;
    Ok(format!(
        "the lock of log `{}` in {} is now at {}, signed at {}. The lock was at {}, signed \
         at {}: keep that checkpoint as a record, and never publish it\n\n{}\n{}",
        log.shortname.value,
        lock.location(),
        counted(again.size, "entry"),
        rfc3339(again.timestamp_ms),
        counted(signed.size, "entry"),
        rfc3339(signed.timestamp_ms),
        String::from_utf8_lossy(&signed.checkpoint),
        compared(&known, &silent, &assets.location())
    ))
}

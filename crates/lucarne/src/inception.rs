//! Inception of a log: the day on which it may be created.
//!
//! A log that is missing in the lock is either new, or has another lock. The creation of a log with
//! another lock would fork the log. Therefore `serve` creates a log on one day only.

use anyhow::{Context, Result, bail, ensure};
use jiff::civil::Date;
use jiff::{Timestamp, tz::TimeZone};
use lucarne_log::{FoundCheckpoint, Log};
use lucarne_net::counted;
use lucarne_storage::{Lock, LockError};

use crate::config::{LockPlace, LogSettings};
use crate::files::is_absent;
use crate::open;

/// Today in relation to the inception of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    /// The inception is today, in UTC.
    Today,
    /// The inception is in the past.
    Past(Date),
    /// The inception is in the future.
    Future(Date),
    /// The configuration has no inception.
    Unset,
}

/// Returns the current day in UTC.
pub(crate) fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

/// Compares the inception of `log` with today.
pub(crate) fn birth(log: &LogSettings) -> Birth {
    let today = today();
    match &log.inception {
        None => Birth::Unset,
        Some(day) if day.value == today => Birth::Today,
        Some(day) if day.value < today => Birth::Past(day.value),
        Some(day) => Birth::Future(day.value),
    }
}

impl Birth {
    /// Returns the reason why the log is not created, and the remedy.
    pub(crate) fn refusal(self, log: &LogSettings, lock: &LockPlace) -> String {
        let day = match self {
            Birth::Past(day) => format!("its inception was on {day}, not today"),
            Birth::Future(day) => format!("its inception is on {day}, not today"),
            Birth::Unset | Birth::Today => "it has no inception day".to_owned(),
        };
        format!(
            "log `{}` does not exist in {}, and {day}. A mistyped path or key must not fork a log: \
             correct the path or key, or, if the log is new, create it with `lucarne init`",
            log.shortname.value, lock
        )
    }
}

/// Checks that a log that is missing in the lock is new. Creates nothing.
///
/// # Errors
/// If clients would change a prefix, if the log's data or its dedup index contain the log, or if
/// the data or the dedup index cannot be read.
pub(crate) async fn is_new(log: &LogSettings, lock: &LockPlace) -> Result<()> {
    for (key, prefix) in [
        ("submissionprefix", &log.submission.value),
        ("monitoringprefix", &log.monitoring.value),
    ] {
        if let Some(oddity) = prefix.oddity() {
            let key = log.key_path(key);
            bail!(
                "{key}: `{}` {oddity}. A log's prefix cannot be corrected later",
                prefix.url
            );
        }
    }
    let of_log = || format!("log `{}`", log.shortname.value);
    let directory = log.data.value.directory();
    if directory.is_none_or(|directory| !is_absent(directory)) {
        let assets = open::watched_assets(&log.data.value).await;
        let assets = assets.with_context(of_log)?;
        ensure!(
            assets.get("checkpoint").await?.is_none(),
            "{}: {} holds a log, but {lock} has no checkpoint of this log. Creating the log again \
             would fork it: \
             configure the lock database that belongs to this log, or restore that database \
             (docs/how-to/disaster-recovery.md, \"The lock is lost\")",
            of_log(),
            assets.location(),
        );
    }
    Log::unseen(&log.to_log_config()).await.with_context(of_log)
}

/// Checks that the data of a log that the lock contains are in their place.
///
/// # Errors
/// If the place does not have a checkpoint of this log, or cannot be read. An interrupted creation
/// has left a log without entries and without checkpoint, which the first start publishes.
pub(crate) async fn has_data(log: &LogSettings, lock: &dyn Lock) -> Result<()> {
    let (name, place, config) = (&log.shortname.value, &log.data.value, log.to_log_config());
    let verified = |note: &[u8]| FoundCheckpoint::read(note, &config).verified();
    let note = lock.load(&config.key.log_id().0).await?;
    let size = note.and_then(|note| verified(&note)).map_or(0, |it| it.0);
    let exists = place.directory().is_none_or(|directory| directory.exists());
    let published = if exists {
        let assets = open::watched_assets(place).await?;
        assets.get("checkpoint").await?
    } else {
        None
    };
    let is_there = match published {
        Some(note) => verified(&note).is_some(),
        None => exists && size == 0,
    };
    ensure!(
        is_there,
        "log `{name}`: {} has signed {}, but {place} does not have this log: correct \
         `{}`, or restore the data (docs/how-to/disaster-recovery.md)",
        lock.location(),
        counted(size, "entry"),
        log.key_path(place.key()),
    );
    Ok(())
}

/// Creates the log, which [is new](is_new), and its directory if necessary.
///
/// # Errors
/// If lock or directory cannot be written.
pub(crate) async fn create(log: &LogSettings, lock: &dyn Lock) -> Result<()> {
    let of_log = || format!("log `{}`", log.shortname.value);
    let assets = open::new_assets(&log.data.value)
        .await
        .with_context(of_log)?;
    let config = log.to_log_config();
    // Existing cached tiles belong to an earlier log. The removal of these tiles may take long, and
    // must not delay other logs.
    let tiles = log.tiles_directory();
    let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(tiles)).await;
    Log::create(&config, &*assets, lock)
        .await
        .with_context(of_log)
}

/// Returns whether the lock contains the log.
///
/// # Errors
/// If the lock cannot be read.
pub(crate) async fn exists(log: &LogSettings, lock: &dyn Lock) -> Result<bool, LockError> {
    Ok(lock.load(&log.key.log_id().0).await?.is_some())
}

//! Creation of missing logs and of their lock at startup.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use lucarne_log::{GiveTurn, Log, Turn};
use lucarne_storage::{Lock, LockError};

use crate::causes::causes;
use crate::config::{Config, DataPlace, LockPlace, LogSettings};
use crate::files::is_absent;
use crate::inception::{self, Birth};
use crate::metering::Metering;
use crate::open::{self, LateLock};

/// Interval at which an unavailable lock or store is queried again.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Condition for the creation of a missing log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    /// Creation on the inception day of the configuration file.
    OnInception,
    /// Creation in an empty or missing directory, together with the lock database. For a
    /// configuration from flags.
    InFreshDirectory,
    /// No creation: the demo has already created everything.
    Done,
}

impl Creation {
    /// Returns the option that sets the listening address, for messages.
    pub(crate) fn listen_option(self) -> &'static str {
        match self {
            Creation::OnInception => "`listen:` in the configuration file",
            Creation::InFreshDirectory => "--http-endpoint",
            Creation::Done => "--listen",
        }
    }
}

/// Opens the lock. With a configuration from flags, a missing lock is created with the log. An
/// unavailable lock is opened later.
pub(crate) async fn open_lock(
    config: &Config,
    creation: Creation,
    metering: &Metering,
) -> Result<Arc<dyn Lock>> {
    let place = &config.checkpoints.value;
    if creation == Creation::InFreshDirectory {
        if let LockPlace::Sqlite(path) = place
            && is_absent(path)
            && let Some(log) = config.logs.iter().find(|log| !is_fresh(&log.data.value))
        {
            bail!(
                "{} has data, but its lock database {} does not exist. Give the right lock with \
                 --checkpoints; for data of other log software, see docs/how-to/migrating.md",
                log.data.value,
                path.display()
            );
        }
        let (lock, said) = kept_or_new_lock(place).await?;
        said.iter().for_each(|line| tracing::info!("{line}"));
        return Ok(lock);
    }
    let lock = LateLock::new(place, metering.of("lock"), Turn::now());
    match lock.open().await {
        Ok(_) => {}
        Err(error @ LockError::Failed { .. }) => {
            tracing::error!(%error, "the lock does not respond; its logs wait for it");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Arc::new(lock))
}

/// Opens the lock, and creates the lock first if it is missing.
pub(crate) async fn kept_or_new_lock(place: &LockPlace) -> Result<(Arc<dyn Lock>, Vec<String>)> {
    let refused = match open::lock(place, Arc::new(())).await {
        Ok(lock) => return Ok((lock, vec![format!("kept lock {place}")])),
        Err(refused @ LockError::Unusable { .. }) => refused,
        Err(error) => return Err(error.into()),
    };
    if let LockPlace::Sqlite(path) = place {
        anyhow::ensure!(is_absent(path), refused);
        let lock = open::new_lock(place).await?;
        return Ok((lock, vec![format!("created lock {place}")]));
    }
    match open::new_lock(place).await {
        Ok(lock) => Ok((lock, vec![format!("created lock {place}")])),
        // The lock exists. The error of the first attempt names the problem.
        Err(_) => Err(refused.into()),
    }
}

/// Returns whether the directory is empty or missing. For a bucket, the creation itself checks
/// this.
fn is_fresh(place: &DataPlace) -> bool {
    let Some(directory) = place.directory() else {
        return true;
    };
    match std::fs::read_dir(directory) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        // An interrupted creation has left nothing public, and no staged round.
        Ok(mut entries) => entries.all(|entry| {
            entry.is_ok_and(|entry| entry.file_name() == ".lucarne" && holds_nothing(&entry.path()))
        }),
    }
}

/// Returns whether the directory has no journal segments.
fn holds_nothing(own: &Path) -> bool {
    match std::fs::read_dir(own.join("journal")) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(mut segments) => segments.next().is_none(),
    }
}

/// Creates the missing logs that may be created now. Other missing logs stay stopped. The start
/// fails if no log exists and none may be created.
pub(crate) async fn create_missing(
    config: &Config,
    creation: Creation,
    lock: &Arc<dyn Lock>,
) -> Result<()> {
    let mut refusals = Vec::new();
    for log in &config.logs {
        match create_if_missing(log, creation, &config.checkpoints.value, &**lock).await {
            Ok(None) => {}
            Ok(Some(refusal)) => refusals.push(refusal),
            Err(error) if is_passing(&error) => {
                tracing::error!("{}", causes(&error));
                let (log, place) = (log.clone(), config.checkpoints.value.clone());
                tokio::spawn(create_later(log, creation, place, Arc::clone(lock)));
            }
            // A failing disk or another user's directory affects only this log.
            Err(error) if is_of_its_data(&error) => refusals.push(causes(&error)),
            Err(error) => return Err(error),
        }
    }
    if !refusals.is_empty() && refusals.len() == config.logs.len() {
        bail!("{}", refusals.join("\n"));
    }
    for refusal in refusals {
        tracing::error!("{refusal}");
    }
    Ok(())
}

/// Creates a log that a reload has added, if it does not exist and may be created now. The log
/// opens after the first attempt.
pub(crate) async fn create_added(
    log: LogSettings,
    creation: Creation,
    place: LockPlace,
    lock: Arc<dyn Lock>,
    turn: GiveTurn,
) {
    let created = create_if_missing(&log, creation, &place, &*lock).await;
    turn.give();
    match created {
        Ok(None) => {}
        Ok(Some(refusal)) => tracing::error!("{refusal}"),
        Err(error) => {
            tracing::error!("{}", causes(&error));
            if is_passing(&error) {
                create_later(log, creation, place, lock).await;
            }
        }
    }
}

/// Creates a missing log. Returns the reason if its creation is not allowed.
async fn create_if_missing(
    log: &LogSettings,
    creation: Creation,
    place: &LockPlace,
    lock: &dyn Lock,
) -> Result<Option<String>> {
    if inception::exists(log, lock).await? {
        return Ok(None);
    }
    if let Err(known) = Log::unseen(&log.to_log_config()).await {
        return Ok(Some(format!("log `{}`: {known}", log.shortname.value)));
    }
    let birth = inception::birth(log);
    let fresh = creation == Creation::InFreshDirectory && is_fresh(&log.data.value);
    if !fresh && birth != Birth::Today {
        return Ok(Some(birth.refusal(log, place)));
    }
    match inception::is_new(log, place).await {
        Ok(()) => {}
        Err(error) if is_passing(&error) => return Err(error),
        Err(error) => return Ok(Some(format!("{error:#}"))),
    }
    inception::create(log, lock).await?;
    tracing::info!(
        log = log.shortname.value,
        data = %log.data.value,
        lock = %lock.location(),
        "created the log"
    );
    Ok(None)
}

/// Returns whether the error is temporary.
fn is_passing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let lock = cause.downcast_ref::<LockError>();
        let storage = cause.downcast_ref::<lucarne_storage::AssetError>();
        use lucarne_storage::AssetError::{Silent, Unavailable};
        matches!(lock, Some(LockError::Failed { .. }))
            || matches!(storage, Some(Unavailable { .. } | Silent { .. }))
    })
}

/// Returns whether the error comes from the log's data, and not from the lock, which all logs
/// share.
fn is_of_its_data(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| cause.is::<lucarne_storage::AssetError>() || cause.is::<io::Error>())
}

/// Retries the creation until lock and store are available.
async fn create_later(log: LogSettings, creation: Creation, place: LockPlace, lock: Arc<dyn Lock>) {
    loop {
        // Each attempt also has its own timeouts.
        tokio::time::sleep(ASK_AGAIN).await;
        match create_if_missing(&log, creation, &place, &*lock).await {
            Ok(None) => return,
            Ok(Some(refusal)) => return tracing::error!("{refusal}"),
            Err(error) if is_passing(&error) => {}
            Err(error) => return tracing::error!("{}", causes(&error)),
        }
    }
}

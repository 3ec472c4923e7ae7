//! `lucarne lock rebuild`: rebuilds a lost lock from the log's own data, and compares it with
//! outside checkpoints.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use lucarne_ct::verify_checkpoint;
use lucarne_log::{KnownCheckpoint, Log, LogConfig, Newest, SourceResponse};
use lucarne_net::counted;
use lucarne_storage::{Lock, LockError};

use super::never_published;
use super::options::Rebuild;
use super::outside::{Outside, compared};
use crate::commands::{failed, looking, sound};
use crate::config::{Config, LockPlace, LogSettings, rfc3339};
use crate::creation::kept_or_new_lock;
use crate::files::is_absent;
use crate::{inception, open, runtime, witness_service};

pub(crate) fn run(options: &Rebuild) -> ExitCode {
    let (config, report) = options.flags.read_or(&options.config);
    let Some(config) = sound(config, &report) else {
        return failed("nothing was changed; correct the configuration first");
    };
    let rebuilt = runtime::run(async {
        let log = looking::the_one(&config, options.name.as_deref())?;
        let outside = Outside::of(log, options)?;
        if options.never_published {
            never_published::go_back(&config, log, &outside).await
        } else {
            rebuild(&config, log, &outside, options.replace_older).await
        }
    });
    match rebuilt {
        Ok(said) => {
            outln!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(format_args!("nothing was changed: {error:#}")),
    }
}

/// Creates the missing lock of a log, after a comparison with the known checkpoints of the
/// configuration.
///
/// # Errors
/// See [`run`].
pub(crate) async fn from_data(config: &Config, log: &LogSettings) -> Result<String> {
    let outside = Outside::configured(log);
    rebuild(config, log, &outside, false).await
}

/// Writes the newest checkpoint of the log's data to its lock. The lock must have no checkpoint of
/// the log, or an older checkpoint that the options allow to replace.
async fn rebuild(
    config: &Config,
    log: &LogSettings,
    outside: &Outside,
    replace_older: bool,
) -> Result<String> {
    let (name, place) = (&log.shortname.value, &config.checkpoints.value);
    let id = log.key.log_id().0;
    let old = in_lock(config, log).await?;
    ensure!(
        old.is_none() || replace_older,
        "{place} holds a checkpoint of log `{name}`. If that checkpoint is damaged, or older \
         than the log, replace it with --replace-older: the new checkpoint must be newer, and \
         confirmed by an outside checkpoint (--known)"
    );
    let settings = log.to_log_config();
    ensure!(
        old.is_none() || !Log::is_in_use(&settings).await,
        "log `{name}` is in use by another process: stop that process first"
    );
    // The directory stays locked to the end, so that no process signs.
    let assets = open::assets(&log.data.value, Arc::new(())).await?;
    let (known, silent) = outside.ask(&settings).await?;
    let newest = lucarne_log::newest(&settings, assets.clone(), &known).await?;
    for known in &known {
        newest.hold_against(known).await?;
    }
    if let Some(old) = &old {
        is_older(old, &newest, &known, (&settings, place)).await?;
    }
    let published = newest.published();
    let (checkpoint, timestamp_ms) = last_signed(&newest, &known);
    let (lock, _) = kept_or_new_lock(place).await?;
    match &old {
        None => lock.create(&id, &checkpoint).await?,
        Some(old) => lock.replace(&id, old, &checkpoint).await?,
    }
    let others = others_without(config, log, &lock).await?;
    lock.close().await;
    Ok(format!(
        "the lock of log `{name}` in {} is now at {}, signed at {}\n{}{others}",
        lock.location(),
        counted(published.size, "entry"),
        rfc3339(timestamp_ms),
        compared(&known, &silent, &assets.location())
    ))
}

/// Returns the lock's checkpoint of a log.
async fn in_lock(config: &Config, log: &LogSettings) -> Result<Option<Vec<u8>>> {
    let place = &config.checkpoints.value;
    match open::lock(place, Arc::new(())).await {
        Ok(lock) => {
            let found = lock.load(&log.key.log_id().0).await?;
            lock.close().await;
            Ok(found)
        }
        Err(error @ LockError::Unusable { .. }) if is_there(place) => {
            let names = config.logs.iter().map(|log| log.shortname.value.as_str());
            bail!(
                "{error}. This lock belongs to the logs {}. Move the lock away, keep it, and \
                 rebuild the lock of each of these logs",
                names.collect::<Vec<_>>().join(", ")
            )
        }
        // The lock may be missing. The attempt to create the lock shows whether this is the case.
        Err(LockError::Unusable { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_there(place: &LockPlace) -> bool {
    matches!(place, LockPlace::Sqlite(path) if !is_absent(path))
}

/// Checks that the lock's checkpoint may be replaced: the old checkpoint must belong to the same
/// history and be older, or be damaged. Only outside checkpoints prove that the lock is wrong, and
/// not the data.
async fn is_older(
    old: &[u8],
    newest: &Newest,
    known: &[KnownCheckpoint],
    (settings, place): (&LogConfig, &LockPlace),
) -> Result<()> {
    ensure!(
        !known.is_empty(),
        "--replace-older needs a checkpoint that is known outside: name the URL of a mirror, \
         monitor or witness, or a file, with --known"
    );
    let response = SourceResponse {
        place: place.to_string(),
        note: Ok(old.to_vec().into()),
    };
    let found = match KnownCheckpoint::verify(response, settings) {
        Ok(found) => found,
        Err(_) => return is_of_no_other(old, settings, place),
    };
    newest.hold_against(&found).await?;
    let published = newest.published();
    ensure!(
        found.size() < published.size || found.timestamp_ms() < published.timestamp_ms,
        "{place} holds the newest checkpoint already: {}, signed at {}",
        counted(found.size(), "entry"),
        rfc3339(found.timestamp_ms())
    );
    Ok(())
}

/// Refuses a valid checkpoint of another origin, because a damaged checkpoint is not valid.
fn is_of_no_other(old: &[u8], settings: &LogConfig, place: &LockPlace) -> Result<()> {
    let text = String::from_utf8_lossy(old);
    let origin = text.lines().next().unwrap_or_default();
    let other = origin != settings.origin
        && verify_checkpoint(old, origin, settings.key.public_key_spki()).is_ok();
    ensure!(
        !other,
        "{place} holds a checkpoint that this key signed for `{origin}`, and this log is `{}`: \
         check whether the prefix was changed",
        settings.origin
    );
    Ok(())
}

/// Describes the other logs, and the witness, that the lock does not contain.
async fn others_without(
    config: &Config,
    log: &LogSettings,
    lock: &Arc<dyn Lock>,
) -> Result<String> {
    let mut said = String::new();
    for other in &config.logs {
        if other.shortname.value != log.shortname.value
            && !inception::exists(other, &**lock).await?
        {
            let name = &other.shortname.value;
            said += &format!(
                "\nThe lock has no checkpoint of log `{name}`: if that log existed, run \
                 `lucarne lock rebuild {name}`, too"
            );
        }
    }
    if let Some(settings) = &config.witness
        && !witness_service::of(settings, lock)?.exists().await?
    {
        said += &format!(
            "\nThe lock has no state of witness {}: if it has ever cosigned, only its newest lock \
             or a new name can be used",
            settings.name()
        );
    }
    Ok(said)
}

/// Returns the newest checkpoint of the published tree. An outside checkpoint may be newer than the
/// published checkpoint.
fn last_signed(newest: &Newest, known: &[KnownCheckpoint]) -> (Vec<u8>, u64) {
    let published = newest.published();
    let newer = known
        .iter()
        .filter(|known| known.size() == published.size)
        .filter(|known| known.timestamp_ms() > published.timestamp_ms)
        .max_by_key(|known| known.timestamp_ms());
    match newer {
        Some(known) => (known.note().to_vec(), known.timestamp_ms()),
        None => (published.checkpoint.to_vec(), published.timestamp_ms),
    }
}

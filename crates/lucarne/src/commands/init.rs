//! `lucarne init`: creates the missing parts of a configuration.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use lucarne_storage::{Lock, LockError, make_private_directory};

use super::{failed, sound};
use crate::causes::causes;
use crate::config::{Config, LockPlace, LogSettings};
use crate::creation::kept_or_new_lock;
use crate::{files, inception, open, runtime, witness_service};

/// Creates the lock database, directories and logs of the file at `path`.
pub(crate) fn run(path: &Path) -> ExitCode {
    let (config, report) = Config::read(path);
    let Some(config) = sound(config, &report) else {
        return failed("nothing was created; correct the configuration first");
    };
    match runtime::run(all(&config)) {
        Ok(said) => {
            outln!("{}", said.join("\n"));
            ExitCode::SUCCESS
        }
        Err(error) => failed(causes(&error)),
    }
}

/// Creates all missing parts, and returns a line for each part. Other logs are created even if one
/// is refused or fails. Nothing is created for a refused log.
pub(crate) async fn all(config: &Config) -> Result<Vec<String>> {
    let place = &config.checkpoints.value;
    let mut failures = Vec::new();
    if is_absent(place).await {
        for settings in &config.logs {
            if let Err(error) = inception::is_new(settings, place).await {
                failures.push(format!("{error:#}"));
            }
        }
        anyhow::ensure!(
            failures.is_empty() || failures.len() < config.logs.len(),
            "{}",
            failures.join("\n")
        );
        failures.clear();
    }
    let (lock, mut said) = kept_or_new_lock(place).await?;
    for settings in &config.logs {
        match log(settings, place, &lock).await {
            Ok(line) => said.push(line),
            Err(error) => failures.push(causes(&error)),
        }
    }
    if let Some(settings) = &config.witness {
        match witness_service::of(settings, &lock)?.create().await {
            Ok(true) => said.push(format!(
                "created witness {}: use it only if this name has never cosigned; otherwise \
                 restore the newest lock",
                settings.name()
            )),
            Ok(false) => said.push(format!("kept witness {}", settings.name())),
            Err(error) => failures.push(causes(&error.into())),
        }
    }
    lock.close().await;
    if failures.is_empty() {
        return Ok(said);
    }
    said.append(&mut failures);
    anyhow::bail!("{}", said.join("\n"));
}

/// Returns `true` if the lock does not exist.
async fn is_absent(place: &LockPlace) -> bool {
    if let LockPlace::Sqlite(path) = place {
        return files::is_absent(path);
    }
    match open::lock(place, Arc::new(())).await {
        Ok(lock) => {
            lock.close().await;
            false
        }
        Err(error) => matches!(error, LockError::Unusable { .. }),
    }
}

async fn log(settings: &LogSettings, place: &LockPlace, lock: &Arc<dyn Lock>) -> Result<String> {
    let name = &settings.shortname.value;
    let of_cache = || format!("log `{name}`: cannot create its `cache`");
    let cache = || make_private_directory(&settings.cache.value).with_context(of_cache);
    if inception::exists(settings, lock.as_ref()).await? {
        inception::has_data(settings, lock.as_ref()).await?;
        cache()?;
        return Ok(format!("kept log {name}"));
    }
    inception::is_new(settings, place).await?;
    inception::create(settings, lock.as_ref()).await?;
    cache()?;
    Ok(format!(
        "created log {name} in {}, Log ID {}",
        settings.data.value,
        base64_simd::STANDARD.encode_to_string(settings.key.log_id().0)
    ))
}

//! `lucarne lock`: what an operator does to the lock.

pub(crate) mod show;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use lucarne_log::Log;
use lucarne_storage::LockError;

use super::{failed, looking};
use crate::cli::Restore;
use crate::commands::init;
use crate::config::{Config, LogSettings, rfc3339};
use crate::{inception, open, runtime};

/// Runs `lucarne lock restore`.
pub(crate) fn restore(options: &Restore) -> ExitCode {
    let (config, report) = match options.flags.given() {
        true => options.flags.read(),
        false => Config::read(&options.config),
    };
    let config = match (config, report.problems()) {
        (Some(config), []) => config,
        _ => {
            for line in report.problem_lines() {
                eprintln!("problem: {line}");
            }
            return failed("nothing was changed; correct this first");
        }
    };
    let restored = runtime::run(async {
        let log = looking::the_one(&config, options.name.as_deref())?;
        from_data(&config, log).await
    });
    match restored {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(format_args!("nothing was changed: {error:#}")),
    }
}

/// Puts the newest checkpoint that the log's data have into its lock, which
/// must have none.
async fn from_data(config: &Config, log: &LogSettings) -> Result<String> {
    let (name, place) = (&log.shortname.value, &config.checkpoints.value);
    match open::lock(place, std::sync::Arc::new(())).await {
        Ok(lock) => {
            ensure!(
                !inception::exists(log, lock.as_ref()).await?,
                "{} holds a checkpoint of log `{name}`, and none is ever overwritten. If that is an \
                 old one, put the newest back",
                lock.location()
            );
            lock.close().await;
        }
        // Perhaps it is not there: making it tells.
        Err(LockError::Unusable { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // Held to the end: no process may sign meanwhile.
    let assets = open::assets(&log.data.value, std::sync::Arc::new(())).await?;
    let newest = Log::newest(&log.to_log_config(), assets.clone()).await?;
    let (lock, _) = init::lock(place).await?;
    lock.create(&log.key.log_id().0, &newest.checkpoint).await?;
    lock.close().await;
    Ok(format!(
        "the lock of log `{name}` in {} is now at {} entries, signed at {}\nIf anybody has seen more \
         of this log than {} has, do not start it: it would sign a fork",
        lock.location(),
        newest.size,
        rfc3339(newest.timestamp_ms),
        assets.location()
    ))
}

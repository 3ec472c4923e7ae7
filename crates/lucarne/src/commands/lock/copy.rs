//! `lucarne lock copy`: copies an SQLite lock with its newest commits.

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use lucarne_log::Log;
use lucarne_storage::{AssetError, PosixAssets, SqlLock};

use super::options::Copy;
use crate::commands::{failed, sound};
use crate::config::{Config, LockPlace};
use crate::{open, runtime};

pub(crate) fn run(options: &Copy) -> ExitCode {
    let (config, report) = Config::read(&options.config);
    let Some(config) = sound(config, &report) else {
        return failed("nothing was copied; correct the configuration first");
    };
    match runtime::run(copy(&config, options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(format_args!("the lock was not copied: {error:#}")),
    }
}

async fn copy(config: &Config, options: &Copy) -> Result<()> {
    // The directories stay locked to the end, so that no process signs.
    let mut held = Vec::new();
    for log in &config.logs {
        ensure!(
            !Log::is_in_use(&log.to_log_config()).await,
            "log `{}` is in use by another process: stop that process first",
            log.shortname.value
        );
        if let Some(directory) = log.data.value.directory() {
            match PosixAssets::examine(directory) {
                Err(error @ AssetError::InUse { .. }) => return Err(error.into()),
                // The lock may be all that is left.
                examined => held.extend(examined),
            }
        }
    }
    let place = &config.checkpoints.value;
    let LockPlace::Sqlite(path) = place else {
        bail!("{place} is not an SQLite database: copy it with the tools of its server");
    };
    SqlLock::copy(&open::sqlite(path), &options.to).await?;
    outln!(
        "copied the lock {place} to {}. Use one of both only: two locks produce two histories",
        options.to.display()
    );
    Ok(())
}

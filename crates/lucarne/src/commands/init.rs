//! `lucarne init`: makes what a configuration names and is not there yet.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use lucarne_storage::{Lock, LockError};

use super::failed;
use crate::config::{Config, LockPlace, LogSettings};
use crate::{inception, open, runtime};

/// Makes the lock database, directories and logs of the file at `path`.
pub(crate) fn run(path: &Path) -> ExitCode {
    let (config, report) = Config::read(path);
    let config = match (config, report.problems()) {
        (Some(config), []) => config,
        _ => {
            for line in report.problem_lines() {
                eprintln!("problem: {line}");
            }
            return failed("nothing was made; correct this first");
        }
    };
    match runtime::run(all(&config)) {
        Ok(said) => {
            println!("{}", said.join("\n"));
            ExitCode::SUCCESS
        }
        Err(error) => failed(format_args!("{error:#}")),
    }
}

/// Makes everything, and says what was made and what was kept. Logs that fail
/// do not keep the others from being made.
pub(crate) async fn all(config: &Config) -> Result<Vec<String>> {
    let (lock, mut said) = lock(&config.checkpoints.value).await?;
    let mut failures = Vec::new();
    for settings in &config.logs {
        match log(settings, &lock).await {
            Ok(line) => said.push(line),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    lock.close().await;
    if failures.is_empty() {
        return Ok(said);
    }
    said.append(&mut failures);
    anyhow::bail!("{}", said.join("\n"));
}

/// Opens the lock, making it first where there is none.
pub(crate) async fn lock(place: &LockPlace) -> Result<(Arc<dyn Lock>, Vec<String>)> {
    let refused = match open::lock(place, Arc::new(())).await {
        Ok(lock) => return Ok((lock, vec![format!("kept lock {place}")])),
        Err(refused @ LockError::Unusable { .. }) => refused,
        Err(error) => return Err(error.into()),
    };
    if let LockPlace::Sqlite(path) = place {
        anyhow::ensure!(!path.exists(), refused);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot make directory {}", directory.display()))?;
        }
        let lock = open::new_lock(place).await?;
        return Ok((lock, vec![format!("made lock {place}")]));
    }
    match open::new_lock(place).await {
        Ok(lock) => Ok((lock, vec![format!("made lock {place}")])),
        // It is not absent: what it said first tells what is wrong with it.
        Err(_) => Err(refused.into()),
    }
}

async fn log(settings: &LogSettings, lock: &Arc<dyn Lock>) -> Result<String> {
    let name = &settings.shortname.value;
    let cache = &settings.cache.value;
    std::fs::create_dir_all(cache)
        .with_context(|| format!("log `{name}`: cannot make directory {}", cache.display()))?;
    if inception::exists(settings, lock.as_ref()).await? {
        return Ok(format!("kept log {name}"));
    }
    inception::create(settings, lock.as_ref()).await?;
    Ok(format!(
        "made log {name} in {}, Log ID {}",
        settings.data.value,
        base64_simd::STANDARD.encode_to_string(settings.key.log_id().0)
    ))
}

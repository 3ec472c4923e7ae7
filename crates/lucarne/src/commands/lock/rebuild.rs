//! `lucarne lock rebuild`: the lock of a log that has lost it, from the log's own
//! data, and held against what others have seen.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use lucarne_log::{KnownCheckpoint, KnownCheckpoints, Log, LogConfig, Newest};
use lucarne_storage::LockError;

use crate::cli::Rebuild;
use crate::commands::{failed, init, looking};
use crate::config::{Config, LogSettings, rfc3339};
use crate::known::{KnownPlaces, Place};
use crate::{inception, open, runtime};

/// Makes the lock.
pub(crate) fn run(options: &Rebuild) -> ExitCode {
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
    let rebuilt = runtime::run(async {
        let log = looking::the_one(&config, options.name.as_deref())?;
        let outside = Outside::of(log, options)?;
        rebuild(&config, log, &outside).await
    });
    match rebuilt {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(format_args!("nothing was changed: {error:#}")),
    }
}

/// The places that are asked, and those that may be silent.
struct Outside {
    places: KnownPlaces,
    without: Vec<String>,
}

impl Outside {
    /// Those of the configuration and those of the command line.
    fn of(log: &LogSettings, options: &Rebuild) -> Result<Outside> {
        let parse = |text: &String| {
            Place::parse(text).map_err(|problem| anyhow::anyhow!("`{text}` {problem}"))
        };
        let mut places = log.known_places();
        for known in &options.known {
            let place = parse(known)?;
            if !places.0.contains(&place) {
                places.0.push(place);
            }
        }
        let mut without = Vec::new();
        for place in &options.without {
            let place = parse(place)?;
            ensure!(
                places.0.contains(&place),
                "--without {place}: that is none of the places that are asked"
            );
            without.push(place.to_string());
        }
        Ok(Outside { places, without })
    }

    /// Asks all of them. One that proves nothing is refused, unless the operator
    /// goes without it: what it has seen may be more than is here.
    async fn ask(&self, config: &LogConfig) -> Result<(Vec<KnownCheckpoint>, Vec<String>)> {
        let (mut known, mut silent) = (Vec::new(), Vec::new());
        for answer in self.places.ask().await {
            let place = answer.place.clone();
            match KnownCheckpoint::verify(answer, config) {
                Ok(checkpoint) => known.push(checkpoint),
                Err(_) if self.without.contains(&place) => silent.push(place),
                Err(problem) => bail!(
                    "{place}: {problem}. What it has seen may be more than is here. Ask again when \
                     it answers; only if nobody can have seen more there, go on with --without {place}"
                ),
            }
        }
        Ok((known, silent))
    }
}

/// Makes the lock of a log that never had one, held against the places that the
/// configuration names.
///
/// # Errors
/// As [`run`].
pub(crate) async fn from_data(config: &Config, log: &LogSettings) -> Result<String> {
    let outside = Outside {
        places: log.known_places(),
        without: Vec::new(),
    };
    rebuild(config, log, &outside).await
}

/// Puts the newest checkpoint that the log's data have into its lock, which
/// must have none.
async fn rebuild(config: &Config, log: &LogSettings, outside: &Outside) -> Result<String> {
    let (name, place) = (&log.shortname.value, &config.checkpoints.value);
    match open::lock(place, Arc::new(())).await {
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
    let settings = log.to_log_config();
    // Held to the end: no process may sign meanwhile.
    let assets = open::assets(&log.data.value, Arc::new(())).await?;
    let newest = Log::newest(&settings, assets.clone()).await?;
    let (known, silent) = outside.ask(&settings).await?;
    for known in &known {
        newest.hold_against(known).await?;
    }
    let published = newest.published();
    let (checkpoint, timestamp_ms) = last_signed(&newest, &known);
    let (lock, _) = init::lock(place).await?;
    lock.create(&log.key.log_id().0, &checkpoint).await?;
    lock.close().await;
    Ok(format!(
        "the lock of log `{name}` in {} is now at {} entries, signed at {}\n{}",
        lock.location(),
        published.size,
        rfc3339(timestamp_ms),
        compared(&known, &silent, &assets.location())
    ))
}

/// The checkpoint of that tree that was signed last: somebody may have a newer one
/// than is published here.
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

/// The checkpoints that it was held against, in words.
fn compared(known: &[KnownCheckpoint], silent: &[String], data: &str) -> String {
    let mut lines: Vec<String> = known
        .iter()
        .map(|known| {
            format!(
                "{} has {} entries, signed at {}: this log begins with them",
                known.place(),
                known.size(),
                rfc3339(known.timestamp_ms())
            )
        })
        .collect();
    lines.extend(
        silent
            .iter()
            .map(|place| format!("{place} was gone without")),
    );
    if known.is_empty() {
        lines.push(format!(
            "If anybody has seen more of this log than {data} has, do not start it: it would sign a \
             fork"
        ));
    }
    lines.join("\n")
}

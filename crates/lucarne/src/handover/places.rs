//! Places of the lock and of logs, in a form that two processes can compare.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use lucarne_ct::verify_checkpoint;
use lucarne_storage::Lock;

use super::PROTOCOL;
use super::wire::{Hello, LogPlace};
use crate::config::{Config, DataPlace, LockPlace, LogSettings};
use crate::{inception, open};

/// Checks and describes the lock and the data of the logs while the other process uses both. Writes
/// nothing.
///
/// # Errors
/// If a log could not be opened here, as far as a check without writing can detect this.
pub(super) async fn hello(config: &Config) -> Result<Hello> {
    let place = &config.checkpoints.value;
    let lock = open::watched_lock(place).await?;
    let mut logs = Vec::new();
    for log in &config.logs {
        // New logs are created after the hand-over.
        if inception::exists(log, &*lock).await? {
            let of_log = || format!("log `{}`", log.shortname.value);
            look(log, &*lock).await.with_context(of_log)?;
            logs.push(log_place(log).with_context(of_log)?);
        }
    }
    Ok(Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        lock: lock_place(place)?,
        logs,
    })
}

/// Checks that the lock holds a checkpoint of this log, and that its data are readable.
async fn look(log: &LogSettings, lock: &dyn Lock) -> Result<()> {
    let config = log.to_log_config();
    let note = lock.load(&config.key.log_id().0).await?.unwrap_or_default();
    verify_checkpoint(&note, &config.origin, config.key.public_key_spki())
        .with_context(|| format!("invalid checkpoint in {}", lock.location()))?;
    let assets = open::watched_assets(&log.data.value).await?;
    let published = assets.get("checkpoint").await?;
    ensure!(
        published.is_some(),
        "expected a published checkpoint in {}, found none",
        assets.location()
    );
    Ok(())
}

pub(super) fn log_place(log: &LogSettings) -> Result<LogPlace> {
    let data = match &log.data.value {
        DataPlace::Directory(directory) => file(directory)?,
        bucket @ DataPlace::Bucket(_) => bucket.to_string(),
    };
    Ok(LogPlace {
        name: log.shortname.value.clone(),
        id: log.key.log_id().to_string(),
        data,
    })
}

pub(super) fn lock_place(place: &LockPlace) -> Result<String> {
    match place {
        LockPlace::Sqlite(path) => file(path),
        place => Ok(place.to_string()),
    }
}

/// Identifies a file by device and inode, because both processes may use different paths.
fn file(path: &Path) -> Result<String> {
    let there = path
        .metadata()
        .with_context(|| format!("cannot read the metadata of {}", path.display()))?;
    Ok(format!("file {}:{}", there.dev(), there.ino()))
}

/// Differences between two processes that prevent a hand-over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mismatch {
    #[error(
        "the running process (version {}) uses version {PROTOCOL} of the hand-over, the new \
         process (version {version}) uses version {protocol}: stop the running process, then \
         start the new one",
        env!("CARGO_PKG_VERSION")
    )]
    Protocol { version: String, protocol: u32 },
    #[error(
        "the running process has another lock (`checkpoints`): two locks would fork the log. To \
         move a lock, stop the running process first"
    )]
    Lock,
    #[error(
        "the running process has log `{name}` (log ID {id}), which is not in this configuration, \
         or not with that key: no process would run it. To remove a log, send SIGHUP to the running \
         process, or stop it first"
    )]
    Log { name: String, id: String },
    #[error(
        "the running process has the data of log `{name}` in another place than this \
         configuration. To move the data, stop the running process first"
    )]
    Data { name: String },
}

/// Compares the hello of another process with the lock and the logs of this process.
///
/// # Errors
/// The first difference that prevents the hand-over.
pub(super) fn compare(hello: &Hello, lock: &str, logs: &[LogPlace]) -> Result<(), Mismatch> {
    if hello.protocol != PROTOCOL {
        return Err(Mismatch::Protocol {
            version: hello.version.clone(),
            protocol: hello.protocol,
        });
    }
    if hello.lock != lock {
        return Err(Mismatch::Lock);
    }
    for ours in logs {
        let name = ours.name.clone();
        let Some(theirs) = hello.logs.iter().find(|theirs| theirs.id == ours.id) else {
            let id = ours.id.clone();
            return Err(Mismatch::Log { name, id });
        };
        if theirs.data != ours.data {
            return Err(Mismatch::Data { name });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str, id: &str, data: &str) -> LogPlace {
        LogPlace {
            name: name.into(),
            id: id.into(),
            data: data.into(),
        }
    }

    #[test]
    fn only_the_same_logs_in_the_same_places_are_handed_over() {
        let ours = [log("a", "1", "file 1:1"), log("b", "2", "s3://b")];
        let hello = |protocol, lock: &str, logs: &[LogPlace]| Hello {
            protocol,
            version: "9.9".into(),
            lock: lock.into(),
            logs: logs.to_vec(),
        };
        let compared = |hello| compare(&hello, "file 1:7", &ours);
        // Different names and additional logs are allowed.
        let more = [
            log("x", "2", "s3://b"),
            log("new", "3", "file 1:3"),
            log("a", "1", "file 1:1"),
        ];
        assert_eq!(compared(hello(PROTOCOL, "file 1:7", &more)), Ok(()));
        let later = Mismatch::Protocol {
            version: "9.9".into(),
            protocol: PROTOCOL + 1,
        };
        let lacking = Mismatch::Log {
            name: "a".into(),
            id: "1".into(),
        };
        let moved = [ours[0].clone(), log("b", "2", "s3://c")];
        let elsewhere = Mismatch::Data { name: "b".into() };
        for (theirs, mismatch) in [
            (hello(PROTOCOL + 1, "file 1:7", &more), later),
            (hello(PROTOCOL, "file 1:8", &more), Mismatch::Lock),
            (hello(PROTOCOL, "file 1:7", &more[..2]), lacking),
            (hello(PROTOCOL, "file 1:7", &moved), elsewhere),
        ] {
            assert_eq!(compared(theirs), Err(mismatch));
        }
    }
}

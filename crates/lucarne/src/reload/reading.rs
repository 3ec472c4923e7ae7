//! Reading of the configuration file, and the placement of its logs.

use std::iter::zip;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lucarne_ct::Roots;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::{Config, LogSettings, Report, cosigner_at_prefix, shared_by_logs};
use crate::files;
use crate::hosting::Hosted;
use crate::roots::{self, Purpose};
use crate::survey;

/// The keys that name the lock. New logs must not be opened with another lock than the others.
const LOCK: [&str; 2] = ["checkpoints", "checkpointspassword"];

/// A configuration file that was read without a problem.
pub(crate) struct Reading {
    pub(super) config: Config,
    /// The placement of each log of the file.
    pub(super) placements: Vec<Placement>,
}

/// The placement of a log of the file.
pub(super) enum Placement {
    /// The log at this place of the present configuration.
    Kept(usize),
    /// A new log, with its accepted roots.
    Added(Roots),
    /// A new log that cannot be opened now, with the reason.
    Refused(Refusal),
}

/// The reasons why a new log cannot be opened beside the present logs.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "`{key}` has changed, and a log must not be opened with the old lock: restart, or send \
         SIGUSR2"
    )]
    OtherLock { key: &'static str },
    #[error("this process has its `{section}` at a prefix of the log: restart, or send SIGUSR2")]
    Cosigner { section: &'static str },
    #[error(
        "its `{key}` is that of log `{log}`, which this process still has: the log is opened when \
         that log is closed"
    )]
    Taken { key: &'static str, log: String },
}

/// Waits for `reading` of the configuration `file`. After the time `longest`, its thread is
/// abandoned, so that the next reload can begin.
pub(super) async fn within(
    longest: Duration,
    reading: JoinHandle<Option<Box<Reading>>>,
    file: PathBuf,
) -> Option<Box<Reading>> {
    match timeout(longest, reading).await {
        Ok(Ok(reading)) => reading,
        Ok(Err(error)) => {
            tracing::error!("SIGHUP: the configuration was not read: {error}");
            None
        }
        Err(_) => {
            tracing::error!(
                reading = files::being_read(),
                "SIGHUP: {} and the files that it names were not read within {longest:?}, and no \
                 setting was changed: check the named file and send SIGHUP again",
                file.display()
            );
            None
        }
    }
}

/// Reads the file with all checks of a start, and reports its problems.
pub(super) fn read(file: &Path, hosted: &Hosted, draining: &[LogSettings]) -> Option<Box<Reading>> {
    let (config, mut report) = Config::read(file);
    let placements = config
        .as_ref()
        .map(|config| place(config, hosted, draining, &mut report));
    if let Some(config) = &config {
        survey::certificate(config, lucarne_mint::now_ms(), &mut report);
    }
    for line in report.warning_lines() {
        tracing::warn!("{line}");
    }
    match (config, placements, report.problems()) {
        (Some(config), Some(placements), []) => Some(Box::new(Reading { config, placements })),
        _ => {
            for line in report.problem_lines() {
                tracing::error!("{line}");
            }
            tracing::error!(
                "SIGHUP: the configuration is invalid, and no setting was changed: correct the file \
                 and send SIGHUP again"
            );
            None
        }
    }
}

/// Returns the placement of each log of the file.
fn place(
    config: &Config,
    hosted: &Hosted,
    draining: &[LogSettings],
    report: &mut Report,
) -> Vec<Placement> {
    let changed = hosted.config.written.changed(&config.written);
    let other_lock = LOCK.into_iter().find(|key| changed.contains(key));
    let present = hosted.config.logs.iter();
    let mut placements = Vec::new();
    for (log, kept) in zip(&config.logs, matched(&config.logs, &hosted.config.logs)) {
        let taken = || {
            let mut others = present.clone().chain(draining);
            others.find_map(|other| Some((other, shared_by_logs(log, other)?)))
        };
        placements.push(match (kept, other_lock) {
            (Some(place), _) => Placement::Kept(place),
            (None, Some(key)) => Placement::Refused(Refusal::OtherLock { key }),
            (None, None) => match taken() {
                Some((other, key)) => Placement::Refused(Refusal::Taken {
                    key,
                    log: other.shortname.value.clone(),
                }),
                None => match cosigner_at_prefix(log, &hosted.config) {
                    Some(section) => Placement::Refused(Refusal::Cosigner { section }),
                    None => Placement::Added(roots::load(log, Purpose::Start, report)),
                },
            },
        });
    }
    placements
}

/// Returns the place of the present log for each log of the file: the log with the same key, or
/// else with the same name.
fn matched(file: &[LogSettings], present: &[LogSettings]) -> Vec<Option<usize>> {
    let by_key = file.iter().map(|log| {
        let id = log.key.log_id();
        present.iter().position(|other| other.key.log_id() == id)
    });
    let mut places: Vec<_> = by_key.collect();
    for (index, log) in file.iter().enumerate() {
        let name = &log.shortname.value;
        let same = present.iter().position(|it| it.shortname.value == *name);
        if places[index].is_none() && !places.contains(&same) {
            places[index] = same;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use lucarne_mint::testing::Pki;

    use super::*;

    /// A configuration with this lock and these logs, each with a key of its own.
    fn config(directory: &Path, lock: &str, logs: &[&str]) -> Config {
        let mut yaml = format!("listen: 127.0.0.1:80\ncheckpoints: {lock}\nlogs:\n");
        let roots = Pki::shared().roots_pem();
        std::fs::write(directory.join("roots.pem"), roots).unwrap();
        for name in logs {
            let mut seed = name.as_bytes().to_vec();
            seed.resize(32, b'.');
            lucarne_testkit::write_secret(directory.join(format!("{name}.seed")), seed);
            yaml += &format!(
                "  - shortname: {name}\n    submissionprefix: http://127.0.0.1/{name}\n    \
                 secret: {name}.seed\n    localdirectory: {name}\n    roots: roots.pem\n"
            );
        }
        let mut report = Report::on(None);
        let config = Config::parse(&yaml, directory, &mut report);
        assert_eq!(report.problem_lines(), [""; 0]);
        config.unwrap()
    }

    fn placed(file: &Config, present: &Hosted, draining: &[LogSettings]) -> Vec<Placement> {
        place(file, present, draining, &mut Report::on(None))
    }

    #[test]
    fn a_new_log_needs_the_same_lock_and_places_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let read = |lock, logs: &[&str]| config(directory.path(), lock, logs);
        let present = Hosted {
            config: read("lock.db", &["first", "second"]),
            logs: Vec::new(),
        };
        let draining = read("lock.db", &["removed"]).logs;
        let file = read("lock.db", &["new", "removed", "second"]);
        let places = placed(&file, &present, &draining);
        assert!(matches!(places[0], Placement::Added(_)));
        let Placement::Refused(why) = &places[1] else {
            panic!("a log is opened while its directory is in use");
        };
        assert!(
            matches!(why, Refusal::Taken { log, .. } if log == "removed"),
            "{why}"
        );
        assert!(matches!(places[2], Placement::Kept(1)));
        let places = placed(&read("other.db", &["first", "new"]), &present, &[]);
        assert!(matches!(places[0], Placement::Kept(0)));
        let Placement::Refused(why) = &places[1] else {
            panic!("a log is opened with another lock");
        };
        assert!(
            matches!(why, Refusal::OtherLock { key: "checkpoints" }),
            "{why}"
        );
    }

    /// The witness of the process keeps its prefix, also if the file moves the witness.
    #[test]
    fn a_new_log_at_the_prefix_of_the_witness_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        lucarne_testkit::write_secret(directory.path().join("witness.seed"), [5; 32]);
        let read = |path: &str, logs: &[&str]| {
            let witness = format!(
                "lock.db\nwitness:\n  name: w.example\n  secret: witness.seed\n  submissionprefix: \
                 http://127.0.0.1/{path}"
            );
            config(directory.path(), &witness, logs)
        };
        let present = Hosted {
            config: read("w", &["first"]),
            logs: Vec::new(),
        };
        let places = placed(&read("x", &["first", "w", "other"]), &present, &[]);
        let section = "witness";
        assert!(matches!(
            places[1],
            Placement::Refused(Refusal::Cosigner { section: found }) if found == section
        ));
        assert!(matches!(places[2], Placement::Added(_)));
    }

    /// A pipe without a writer ends one reload, and names itself.
    #[tokio::test]
    async fn a_file_that_never_arrives_does_not_stop_reloads() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let hosted = Hosted {
            config: config(directory.path(), "lock.db", &["first"]),
            logs: Vec::new(),
        };
        let opened = pipe.clone();
        let reading = tokio::task::spawn_blocking(move || read(&opened, &hosted, &[]));
        let named = || files::being_read().contains("/pipe");
        lucarne_testkit::until("the pipe is being read", named).await;
        let read = within(Duration::from_millis(1), reading, pipe.clone()).await;
        assert!(read.is_none() && named());
        // Ends the abandoned thread, for which the runtime waits.
        tokio::fs::write(&pipe, "").await.unwrap();
    }

    #[test]
    fn a_log_is_recognised_by_its_key_or_else_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let read = |logs: &[&str]| config(directory.path(), "lock.db", logs).logs;
        let present = read(&["first", "second"]);
        let mut renamed = read(&["third", "second", "first"]);
        // The key of the first log, and the name of the second one.
        renamed[2].shortname.value = "second".to_owned();
        renamed[1].key = read(&["fourth"])[0].key.clone();
        let places = matched(&renamed, &present);
        assert_eq!(places, [None, Some(1), Some(0)]);
    }
}

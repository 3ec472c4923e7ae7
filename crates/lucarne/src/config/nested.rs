//! Logs in the place of another log: below its `tile/`, for example.

use std::path::{Path, PathBuf};

use lucarne_settings::Report;

use super::LogSettings;
use super::distinct::real;

/// Names of a log's directories below its prefixes and its data.
const OWN: [&str; 4] = [".lucarne", "ct", "issuer", "tile"];

/// The places of a log. The hosts of prefixes are left out, because requests are matched by path
/// first.
struct Places<'l> {
    log: &'l LogSettings,
    submission: PathBuf,
    monitoring: PathBuf,
    also_at: Option<PathBuf>,
    /// `None` if the data is in a bucket.
    directory: Option<PathBuf>,
}

/// Refuses a log whose prefix or data is in the place of another log: one of them would not be
/// served, or its files would be mixed with others.
pub(super) fn refuse(logs: &[LogSettings], report: &mut Report) {
    let places: Vec<Places<'_>> = logs.iter().map(Places::of).collect();
    for (own, outer) in places
        .iter()
        .flat_map(|own| places.iter().map(move |outer| (own, outer)))
    {
        if let Some(key) = own.key_within(outer) {
            let log = own.log;
            let line = match key {
                "submissionprefix" => log.submission.line,
                "monitoringprefix" => log.monitoring.line,
                _ => log.data.line,
            };
            let message = format!(
                "is in a place that belongs to log `{}` ({}): use another place",
                outer.log.shortname.value,
                OWN.map(|name| format!("{name}/")).join(", ")
            );
            report.problem(line, log.key_path(key), message);
        }
    }
}

/// Returns the key with which one of two logs is in the place of the other.
pub(super) fn key(one: &LogSettings, other: &LogSettings) -> Option<&'static str> {
    let (one, other) = (Places::of(one), Places::of(other));
    one.key_within(&other).or_else(|| other.key_within(&one))
}

impl<'l> Places<'l> {
    fn of(log: &'l LogSettings) -> Self {
        Places {
            log,
            submission: path(log.submission.value.origin()),
            monitoring: path(log.monitoring.value.origin()),
            also_at: log.also_at.as_ref().map(|prefix| path(prefix.origin())),
            directory: log.data.value.directory().map(|it| real(it).into()),
        }
    }

    /// Returns the key of this log whose value is in the place of `outer`.
    fn key_within(&self, outer: &Places<'_>) -> Option<&'static str> {
        if self.log.shortname.value == outer.log.shortname.value {
            return None;
        }
        let paths = [&outer.submission, &outer.monitoring];
        let paths = paths.into_iter().chain(&outer.also_at);
        let is_within = |path: &Path| paths.clone().any(|outer| is_own(path, outer));
        if is_within(&self.submission) {
            return Some("submissionprefix");
        }
        if is_within(&self.monitoring) {
            return Some("monitoringprefix");
        }
        let (directory, outer) = (self.directory.as_ref()?, outer.directory.as_ref()?);
        is_own(directory, outer).then(|| self.log.data.value.key())
    }
}

fn path(origin: &str) -> PathBuf {
    let path = origin.split_once('/').map_or("", |(_, path)| path);
    Path::new("/").join(path)
}

fn is_own(inner: &Path, outer: &Path) -> bool {
    let Ok(rest) = inner.strip_prefix(outer) else {
        return false;
    };
    let first = rest.components().next();
    first.is_some_and(|name| OWN.iter().any(|own| name.as_os_str() == *own))
}

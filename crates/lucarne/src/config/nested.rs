//! Logs in the place of another log: below its `tile/`, for example.

use std::path::{Path, PathBuf};

use lucarne_settings::Report;

use super::LogSettings;
use super::distinct::real;

/// Names of a log's directories below its prefixes and its data.
const OWN: [&str; 4] = [".lucarne", "ct", "issuer", "tile"];

/// Refuses a log whose prefix or data is in the place of another log: one of them would not be
/// served, or its files would be mixed with others.
pub(super) fn refuse(logs: &[LogSettings], report: &mut Report) {
    for (log, outer) in logs
        .iter()
        .flat_map(|log| logs.iter().map(move |outer| (log, outer)))
    {
        if let Some(key) = key_within(log, outer) {
            let line = match key {
                "submissionprefix" => log.submission.line,
                "monitoringprefix" => log.monitoring.line,
                _ => log.data.line,
            };
            let message = format!(
                "is in a place that belongs to log `{}` ({}): use another place",
                outer.shortname.value,
                OWN.map(|name| format!("{name}/")).join(", ")
            );
            report.problem(line, log.key_path(key), message);
        }
    }
}

/// Returns the key of `log` whose value is in the place of the other log `outer`.
pub(super) fn key_within(log: &LogSettings, outer: &LogSettings) -> Option<&'static str> {
    if log.shortname.value == outer.shortname.value {
        return None;
    }
    let outer_paths = [&outer.submission.value, &outer.monitoring.value];
    let outer_paths = outer_paths.into_iter().chain(&outer.also_at);
    let outer_paths: Vec<PathBuf> = outer_paths.map(|it| path(it.origin())).collect();
    let is_within = |origin: &str| {
        let path = path(origin);
        outer_paths.iter().any(|outer| is_own(&path, outer))
    };
    let places = (log.data.value.directory(), outer.data.value.directory());
    let is_data_within = match places {
        (Some(inner), Some(outer)) => is_own(Path::new(&real(inner)), Path::new(&real(outer))),
        _ => false,
    };
    [
        ("submissionprefix", is_within(log.submission.value.origin())),
        ("monitoringprefix", is_within(log.monitoring.value.origin())),
        (log.data.value.key(), is_data_within),
    ]
    .into_iter()
    .find_map(|(key, is_within)| is_within.then_some(key))
}

/// Returns the path of a prefix. The host is not compared, because requests are matched by path
/// first.
fn path(origin: &str) -> PathBuf {
    let path = origin.split_once('/').map_or("", |(_, path)| path);
    PathBuf::from("/").join(path)
}

fn is_own(inner: &Path, outer: &Path) -> bool {
    let Ok(rest) = inner.strip_prefix(outer) else {
        return false;
    };
    let first = rest.components().next();
    first.is_some_and(|name| OWN.iter().any(|own| name.as_os_str() == *own))
}

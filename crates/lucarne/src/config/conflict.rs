//! Conflicts between two logs that are read separately: a log that runs, and a log that a reload
//! adds.

use super::distinct::real;
use super::nested;
use super::place::DataPlace;
use super::{Config, LogSettings};

/// Returns the values of a log that no other log may have.
type Claim = fn(&LogSettings) -> Vec<String>;

/// Returns a key whose values must differ, but are equal in these two logs, or that places one log
/// within the other; `None` if there is no conflict.
pub(crate) fn shared(one: &LogSettings, other: &LogSettings) -> Option<&'static str> {
    let claims: [(&'static str, Claim); 4] = [
        ("shortname", |log| vec![log.shortname.value.clone()]),
        ("secret", |log| vec![log.key.log_id().to_string()]),
        ("submissionprefix", prefixes),
        (one.data.value.key(), places),
    ];
    let mut claims = claims.into_iter();
    let same = claims.find(|(_, of)| {
        let theirs = of(other);
        of(one).iter().any(|ours| theirs.contains(ours))
    });
    same.map(|(key, _)| key).or_else(|| nested::key(one, other))
}

/// Returns the section of a configuration, `witness` or `mirror`, that has a prefix of the log.
pub(crate) fn cosigner(log: &LogSettings, config: &Config) -> Option<&'static str> {
    let (witness, mirror) = (config.witness.as_ref(), config.mirror.as_ref());
    let witness = witness.map(|it| ("witness", [&it.submission, &it.monitoring]));
    let mirror = mirror.map(|it| ("mirror", [&it.submission, &it.monitoring]));
    let taken = prefixes(log);
    let mut both = witness.into_iter().chain(mirror);
    let found = both.find(|(_, theirs)| {
        let mut theirs = theirs.iter();
        theirs.any(|prefix| taken.contains(&prefix.value.origin().to_ascii_lowercase()))
    });
    found.map(|(section, _)| section)
}

/// Returns the hosts and paths at which a log is served.
pub(super) fn prefixes(log: &LogSettings) -> Vec<String> {
    let prefixes = [&log.submission.value, &log.monitoring.value];
    let prefixes = prefixes.into_iter().chain(&log.also_at);
    let lower = prefixes.map(|prefix| prefix.origin().to_ascii_lowercase());
    lower.collect()
}

/// Returns the locations that a log writes to.
fn places(log: &LogSettings) -> Vec<String> {
    let data = match &log.data.value {
        DataPlace::Directory(directory) => real(directory),
        DataPlace::Bucket(bucket) => {
            format!("{} {}", bucket.bucket_identity(), bucket.key_prefix)
        }
    };
    vec![data, real(&log.cache.value)]
}

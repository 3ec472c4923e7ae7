//! No two logs may share a name, a key, a prefix or a directory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lucarne_settings::{Located, Report, join};

use super::LogSettings;
use super::place::{DataPlace, LockPlace};
use super::server::TlsFiles;

/// The claims of logs to what is theirs alone, also of those with other problems.
#[derive(Default)]
pub(super) struct Claims {
    owners: HashMap<(&'static str, String), Owner>,
}

/// The log that claimed something first.
struct Owner {
    index: usize,
    path: String,
    line: usize,
}

/// The log that claims, for messages.
#[derive(Clone, Copy)]
pub(super) struct Claimant<'p> {
    /// Its place in the list.
    pub(super) index: usize,
    /// Such as `logs[rome2026h1]`.
    pub(super) path: &'p str,
    /// The line where it begins.
    pub(super) line: usize,
}

impl Claims {
    /// Claims `value`, which is a `what` (name, key, prefix, directory) given
    /// under `key`; reported if another log has it.
    pub(super) fn claim(
        &mut self,
        who: Claimant<'_>,
        (what, key): (&'static str, &str),
        (value, line): (String, Option<usize>),
        report: &mut Report,
    ) {
        let owner = self.owners.entry((what, value)).or_insert(Owner {
            index: who.index,
            path: who.path.to_owned(),
            line: who.line,
        });
        if owner.index != who.index {
            let message = format!(
                "is the same {what} as that of {} (line {}): each log needs its own",
                owner.path, owner.line
            );
            report.problem(line, join(who.path, key), message);
        }
    }
}

/// Returns the key under which two logs have the same value although each needs its own, if there
/// is one.
pub(crate) fn shared(one: &LogSettings, other: &LogSettings) -> Option<&'static str> {
    let claims: [(&'static str, fn(&LogSettings) -> Vec<String>); 4] = [
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
    same.map(|(key, _)| key)
}

/// The hosts and paths that a log is served under.
fn prefixes(log: &LogSettings) -> Vec<String> {
    let prefixes = [&log.submission.value, &log.monitoring.value];
    let prefixes = prefixes.into_iter().chain(&log.also_at);
    let lower = prefixes.map(|prefix| prefix.origin().to_ascii_lowercase());
    lower.collect()
}

/// The places in which a log writes.
fn places(log: &LogSettings) -> Vec<String> {
    let data = match &log.data.value {
        DataPlace::Directory(directory) => real(directory),
        DataPlace::Bucket(bucket) => {
            format!("{} {}", bucket.bucket_identity(), bucket.key_prefix)
        }
    };
    vec![data, real(&log.cache.value)]
}

/// The lock must not be in the data of a log: what restores or copies the data
/// would take the lock with it.
pub(super) fn apart<'d>(
    lock: &Located<LockPlace>,
    logs: impl IntoIterator<Item = (String, &'d DataPlace)>,
    report: &mut Report,
) {
    let LockPlace::Bucket(lock_bucket) = &lock.value else {
        return;
    };
    for (log, data) in logs {
        if let DataPlace::Bucket(data) = data
            && data.bucket_identity() == lock_bucket.bucket_identity()
            && lock_bucket.key_prefix.starts_with(&data.key_prefix)
        {
            let message = format!(
                "is within the data of {log} ({}): whatever restores or copies that would take the \
                 lock with it. Give each of them a prefix of its own, or another bucket",
                data.location()
            );
            report.problem(lock.line, "checkpoints", message);
        }
    }
}

/// What is in a log's directory is public: a file server, a mirror and a backup take all of it,
/// except for `.lucarne`.
pub(super) fn not_published(
    lock: &Located<LockPlace>,
    tls: Option<&TlsFiles>,
    logs: &[LogSettings],
    report: &mut Report,
) {
    for log in logs {
        let Some(directory) = log.data.value.directory() else {
            continue;
        };
        let public = PathBuf::from(real(directory));
        let within = |path: &Path| {
            let path = PathBuf::from(real(path));
            path.starts_with(&public) && !path.starts_with(public.join(".lucarne"))
        };
        let published = format!(
            "is in the public files of log `{}` ({}): name a place outside of them",
            log.shortname.value,
            directory.display()
        );
        if let LockPlace::Sqlite(file) = &lock.value
            && within(file)
        {
            report.problem(lock.line, "checkpoints", published.as_str());
        }
        if let Some(tls) = tls.filter(|tls| within(&tls.key.value)) {
            report.problem(tls.key.line, "tls.key", published.as_str());
        }
        for other in logs {
            let private = [
                ("cache", Some(&other.cache)),
                ("secret", other.secret.as_ref()),
            ];
            for (key, file) in private {
                if let Some(file) = file.filter(|file| within(&file.value)) {
                    report.problem(file.line, other.key_path(key), published.as_str());
                }
            }
        }
    }
}

/// A directory as a claim: without links, as far as it exists.
pub(super) fn real(path: &Path) -> String {
    fn resolve(path: &Path) -> PathBuf {
        match (path.canonicalize(), path.parent(), path.file_name()) {
            (Ok(real), ..) => real,
            (Err(_), Some(parent), Some(name)) => resolve(parent).join(name),
            _ => path.to_path_buf(),
        }
    }
    resolve(&std::path::absolute(path).unwrap_or(path.to_path_buf()))
        .to_string_lossy()
        .into_owned()
}

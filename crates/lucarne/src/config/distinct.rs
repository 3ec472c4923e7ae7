//! Uniqueness of the logs' names, keys, prefixes and directories.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lucarne_settings::{Located, Report, join};

use super::LogSettings;
use super::place::{DataPlace, LockPlace};
use super::server::TlsFiles;

/// Values that belong to one log only, including values of invalid logs.
#[derive(Default)]
pub(super) struct Claims {
    owners: HashMap<(&'static str, String), Owner>,
}

/// The log that claimed a value first.
struct Owner {
    index: usize,
    path: String,
    line: usize,
}

/// The claiming log, for messages.
#[derive(Clone, Copy)]
pub(super) struct Claimant<'p> {
    /// Index in the list.
    pub(super) index: usize,
    /// Path of the log, such as `logs[rome2026h1]`.
    pub(super) path: &'p str,
    /// Line where the log's section begins.
    pub(super) line: usize,
}

impl Claims {
    /// Claims `value` for a log. `what` is its kind (name, key, prefix, directory), and `key` its
    /// configuration key. Reports a value that another log has claimed.
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

/// Returns the values of a log that no other log may have.
type Claim = fn(&LogSettings) -> Vec<String>;

/// Returns a key whose values must differ, but are equal in these two logs; `None` if there is no
/// conflict.
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
    same.map(|(key, _)| key)
}

/// Returns the hosts and paths at which a log is served.
fn prefixes(log: &LogSettings) -> Vec<String> {
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

/// Refuses a lock within the data of a log, because a restored or copied log would contain a stale
/// lock.
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
                "is within the data of {log} ({}): a restored backup of the data would roll back \
                 the lock as well. Give lock and data separate prefixes or buckets",
                data.location()
            );
            report.problem(lock.line, "checkpoints", message);
        }
    }
}

/// Refuses private files among the public files of a log: a file server, a mirror and a backup
/// take the whole directory of a log, except for `.lucarne`. `passwords` are the files with
/// passwords of the whole process, with their keys.
pub(super) fn not_published(
    lock: &Located<LockPlace>,
    passwords: impl IntoIterator<Item = (String, Located<PathBuf>)>,
    tls: Option<&TlsFiles>,
    logs: &[LogSettings],
    report: &mut Report,
) {
    let mut private = private_files(lock, tls, logs);
    private.extend(passwords);
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
            "is in the public files of log `{}` ({}): use a place outside of them",
            log.shortname.value,
            directory.display()
        );
        for (key, file) in &private {
            if within(&file.value) {
                report.problem(file.line, key.as_str(), published.as_str());
            }
        }
    }
}

/// Returns the files that only the server may read, with the keys that name them.
fn private_files(
    lock: &Located<LockPlace>,
    tls: Option<&TlsFiles>,
    logs: &[LogSettings],
) -> Vec<(String, Located<PathBuf>)> {
    let of_lock = lock.value.private_file().map(|value| Located {
        value,
        line: lock.line,
    });
    let top = [
        of_lock.map(|file| ("checkpoints", file)),
        tls.map(|tls| ("tls.key", tls.key.clone())),
    ];
    let top = top.into_iter().flatten();
    let top = top.map(|(key, file)| (key.to_owned(), file));
    let of_logs = logs.iter().flat_map(|log| {
        let instances = log.instances.as_ref();
        let files = [
            ("cache", Some(&log.cache)),
            ("secret", log.secret.as_ref()),
            ("gcscredentials", log.credentials.as_ref()),
            (
                "instances.key",
                instances.and_then(|instances| instances.value.key_file.as_ref()),
            ),
        ];
        files.map(|(key, file)| Some((log.key_path(key), file?.clone())))
    });
    top.chain(of_logs.flatten()).collect()
}

/// Resolves the links of a directory, as far as it exists.
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

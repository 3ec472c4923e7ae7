//! Uniqueness of the logs' names, keys, prefixes and directories.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lucarne_settings::{Located, Report, join};

use super::place::{DataPlace, LockPlace};
use crate::files;

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

/// Refuses a lock in a bucket if its prefix is within the data of a log, because a restored or
/// copied log would contain a stale lock.
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

/// Resolves the links in the existing part of a path.
pub(super) fn real(path: &Path) -> String {
    fn resolve(path: &Path) -> PathBuf {
        match (
            files::named(path, || path.canonicalize()),
            path.parent(),
            path.file_name(),
        ) {
            (Ok(real), ..) => real,
            (Err(_), Some(parent), Some(name)) => resolve(parent).join(name),
            _ => path.to_path_buf(),
        }
    }
    resolve(&std::path::absolute(path).unwrap_or(path.to_path_buf()))
        .to_string_lossy()
        .into_owned()
}

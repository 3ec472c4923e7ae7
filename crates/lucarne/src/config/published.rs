//! Private files, which must not be among the public files of a log.

use std::path::{Path, PathBuf};

use lucarne_settings::{Located, Report};

use super::LogSettings;
use super::distinct::real;
use super::place::LockPlace;
use super::server::TlsFiles;

/// Refuses private files among the public files of a log: a file server, a mirror and a backup take
/// the whole directory of a log, except for `.lucarne`. `password` is the key of the configuration
/// for the password of the lock, and the file with the password.
pub(super) fn refuse(
    lock: &Located<LockPlace>,
    password: Option<(&str, &Located<PathBuf>)>,
    tls: Option<&TlsFiles>,
    logs: &[LogSettings],
    report: &mut Report,
) {
    let private = private_files(lock, password, tls, logs);
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

/// Returns all files that only the server may read, with the keys that name them.
fn private_files(
    lock: &Located<LockPlace>,
    password: Option<(&str, &Located<PathBuf>)>,
    tls: Option<&TlsFiles>,
    logs: &[LogSettings],
) -> Vec<(String, Located<PathBuf>)> {
    let of_lock = lock.value.private_file().map(|value| Located {
        value,
        line: lock.line,
    });
    let top = [
        of_lock.map(|file| ("checkpoints", file)),
        password.map(|(key, file)| (key, file.clone())),
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

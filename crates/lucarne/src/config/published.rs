//! Private files, which must not be among the public files of a log or witness.

use std::path::{Path, PathBuf};

use lucarne_settings::{Located, Report};

use super::LogSettings;
use super::distinct::real;
use super::place::LockPlace;
use super::server::TlsFiles;

/// Refuses private files among the public files of a log: a file server, a mirror and a backup
/// take the whole directory of a log, except for `.lucarne`. `passwords` are the files with
/// passwords of the whole process, with their keys. `witness` is the directory with the public
/// files of the witness.
pub(super) fn refuse(
    lock: &Located<LockPlace>,
    passwords: impl IntoIterator<Item = (String, Located<PathBuf>)>,
    tls: Option<&TlsFiles>,
    (logs, witness): (&[LogSettings], Option<&Path>),
    report: &mut Report,
) {
    let mut private = private_files(lock, tls, logs);
    private.extend(passwords);
    let of_logs = logs.iter().filter_map(|log| {
        let owner = format!("log `{}`", log.shortname.value);
        Some((owner, log.data.value.directory()?))
    });
    let of_witness = witness.map(|directory| ("the witness".to_owned(), directory));
    for (owner, directory) in of_logs.chain(of_witness) {
        let public = PathBuf::from(real(directory));
        let within = |path: &Path| {
            let path = PathBuf::from(real(path));
            path.starts_with(&public) && !path.starts_with(public.join(".lucarne"))
        };
        let published = format!(
            "is in the public files of {owner} ({}): use a place outside of them",
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

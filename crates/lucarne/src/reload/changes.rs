//! Reports of changed settings that are not applied.

use crate::config::{Config, LogSettings};

/// The keys of a log that are applied without a new process.
const ROOTS: [&str; 5] = [
    "roots",
    "ccadbroots",
    "extraroots",
    "rootsurl",
    "refusedroots",
];

/// Reports changed settings of the process that need a new process. Returns whether there are any.
pub(super) fn report_process(present: &Config, file: &Config) -> bool {
    let mut changed = present.written.changed(&file.written);
    // A reload reads other TLS files, but cannot enable or disable TLS.
    if present.tls.is_some() == file.tls.is_some() {
        changed.retain(|key| *key != "tls");
    }
    if !changed.is_empty() {
        tracing::warn!(
            keys = changed.join(", "),
            "SIGHUP: settings have changed that are not applied: restart or send SIGUSR2 to apply \
             them"
        );
    }
    !changed.is_empty()
}

/// Reports changed settings of a log that need a new process. Returns whether there are any.
pub(super) fn report_log(present: &LogSettings, file: &LogSettings) -> bool {
    let mut changed = present.written.changed(&file.written);
    changed.retain(|key| !ROOTS.contains(key));
    // The policies are in files of their own.
    if let (Some(present), Some(file)) = (&present.witnesses, &file.witnesses) {
        let same = present.have_policies_of(file);
        for (key, is_same) in ["witnesses", "mirrors"].into_iter().zip(same) {
            if !is_same && !changed.contains(&key) {
                changed.push(key);
            }
        }
    }
    if !changed.is_empty() {
        tracing::warn!(
            log = present.shortname.value,
            keys = changed.join(", "),
            "SIGHUP: settings of the log have changed that are not applied: restart or send \
             SIGUSR2 to apply them"
        );
    }
    !changed.is_empty()
}

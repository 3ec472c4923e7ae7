//! The key `witness`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lucarne_cosign::{InvalidKey, LogKeys, TrustedKey};
use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Located, Reader, Report, Section};
use lucarne_tlog::Cosigner;

use super::keys::witness::{KEYS, TABLE};
use super::values::{self, Prefix};
use super::{LogSettings, conflict, key, keys, secret};
use crate::known::Place;

/// Settings of a witness.
#[derive(Clone, Debug)]
pub struct WitnessSettings {
    /// Prefix for requests of logs.
    pub submission: Located<Prefix>,
    /// Prefix for monitors.
    pub monitoring: Located<Prefix>,
    /// The keys, which have the name of the witness.
    pub cosigners: Arc<[Cosigner]>,
    /// File with the seed, or with the credentials that fetch the seed; `None` for other sources.
    pub secret: Option<Located<PathBuf>>,
    /// The logs of the configuration.
    pub logs: LogKeys,
    /// The places of log lists.
    pub(crate) lists: Vec<Located<Place>>,
    /// Directory of Sunlight's public files.
    pub directory: Option<PathBuf>,
}

impl WitnessSettings {
    /// Returns Sunlight's public file with the checkpoint of a log; `None` without a directory.
    pub(crate) fn published(&self, origin: &str) -> Option<PathBuf> {
        let hash = hex::encode(lucarne_ct::sha256(&[origin.as_bytes()]));
        Some(self.directory.as_ref()?.join(hash).join("checkpoint"))
    }

    /// Returns the name of the witness.
    pub(crate) fn name(&self) -> &str {
        let mut keys = self.cosigners.iter().map(Cosigner::verifier);
        keys.next().map_or("", |key| key.name())
    }
}

/// Reasons why a text is not a log. The text follows the value.
#[derive(Debug, thiserror::Error)]
pub(super) enum LogError {
    #[error("is not a log: {0}")]
    Key(#[from] InvalidKey),
    #[error("is the name of the witness: a log needs its own name")]
    Name,
    #[error("has an origin of more than 255 bytes, which an ML-DSA-44 key cannot cosign")]
    Long,
}

/// Reads `witness`, and its key. `logs` must not have the same prefixes.
pub(super) fn read(
    top: &Section<'_>,
    directory: &Path,
    logs: &[LogSettings],
    report: &mut Report,
) -> Option<WitnessSettings> {
    let node = top.get(&keys::top::KEYS.witness)?;
    let section = keys::open(node, "witness", &TABLE, report)?;
    let mut reader = Reader::new(section, "witness", directory, report);
    let name = reader.text(&KEYS.name);
    let name = reader.required(&KEYS.name, name, "witness.example.com");
    let own = name.as_ref().map(|name| name.value);
    let (submit, monitor) = (&KEYS.submissionprefix, &KEYS.monitoringprefix);
    let prefixes = prefixes(&mut reader, own, submit, monitor);
    let seed = secret::keyed(&mut reader, KEYS.secret.name(), key::seed_from_bytes);
    let name = name?;
    let listed = reader.list(&KEYS.logs, |text| parse_log(text, name.value));
    let lists = reader.list(&KEYS.loglists, |text| list(text, directory));
    for list in &lists {
        if let Place::Url(url) = &list.value
            && url.starts_with("http://")
        {
            let message = "comes without TLS: an attacker on the network can add logs";
            reader.warning(list.line, &KEYS.loglists, message);
        }
    }
    let public = reader.path(&KEYS.localdirectory);
    let (submission, monitoring) = prefixes?;
    refuse_taken(
        &mut reader,
        [(submit, &submission), (monitor, &monitoring)],
        logs,
    );
    let seed = seed?;
    let cosigners = match lucarne_ct::witness_cosigners(&seed.value.key, name.value) {
        Ok(cosigners) => Arc::new(cosigners),
        Err(error) => {
            reader.problem(name.line, &KEYS.name, error.to_string());
            return None;
        }
    };
    let mut logs = LogKeys::default();
    for Located { value, .. } in listed {
        let (origin, key) = value;
        logs.add(&origin, key);
    }
    Some(WitnessSettings {
        submission,
        monitoring,
        cosigners,
        secret: (seed.value.file).map(|value| Located {
            value,
            line: seed.line,
        }),
        logs,
        lists,
        directory: public.map(|directory| directory.value),
    })
}

/// Reads the prefixes. Sunlight derives a missing submission prefix from the name.
pub(super) fn prefixes(
    reader: &mut Reader<'_, '_>,
    name: Option<&str>,
    submit: &Key<Shape>,
    monitor: &Key<Shape>,
) -> Option<(Located<Prefix>, Located<Prefix>)> {
    let submission = match reader.parse(submit, values::prefix) {
        None if !reader.has(submit) => {
            let url = format!("https://{}", name?);
            match values::prefix(&url) {
                Ok(value) => Some(Located { value, line: None }),
                Err(why) => {
                    let message = format!("is missing, and `{url}` {why}");
                    reader.problem(None, submit, message);
                    None
                }
            }
        }
        submission => submission,
    };
    let monitoring = match reader.parse(monitor, values::prefix) {
        None if !reader.has(monitor) => submission.clone(),
        monitoring => monitoring,
    };
    submission.zip(monitoring)
}

/// Parses a log: its verifier key, or its origin and its key.
pub(super) fn parse_log(text: &str, witness: &str) -> Result<(String, TrustedKey), LogError> {
    let (origin, key) = match text.split_once(' ') {
        Some((origin, key)) => (origin, key.trim_start()),
        None => (text.split('+').next().unwrap_or_default(), text),
    };
    if origin == witness {
        return Err(LogError::Name);
    }
    if origin.len() > 255 {
        return Err(LogError::Long);
    }
    Ok((origin.to_owned(), TrustedKey::parse(origin, key)?))
}

/// Parses the place of a log list. A path is relative to `directory`.
fn list(text: &str, directory: &Path) -> Result<Place, &'static str> {
    let is_remote = text.starts_with("https://") || text.starts_with("http://");
    match (is_remote, text.contains("://")) {
        (true, _) if url::Url::parse(text).is_ok() => Ok(Place::Url(text.to_owned())),
        (true, _) => Err("is not a URL"),
        (false, true) => Err("is neither a path, nor a URL with https:// or http://"),
        (false, false) => Ok(Place::File(directory.join(text))),
    }
}

pub(super) fn refuse_taken(
    reader: &mut Reader<'_, '_>,
    prefixes: [(&Key<Shape>, &Located<Prefix>); 2],
    logs: &[LogSettings],
) {
    for (key, prefix) in prefixes {
        let taken = prefix.value.origin().to_ascii_lowercase();
        let mut logs = logs.iter();
        if let Some(log) = logs.find(|log| conflict::prefixes(log).contains(&taken)) {
            let message = format!(
                "is also a prefix of log `{}`: use another one",
                log.shortname.value
            );
            reader.problem(prefix.line, key, message);
        }
    }
}

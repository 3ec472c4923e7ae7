//! The key `mirror`.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lucarne_cosign::{LogKeys, TrustedKey};
use lucarne_settings::{Located, Reader, Report, Section, Value};
use lucarne_tlog::Cosigner;

use super::keys::mirror::KEYS;
use super::keys::mirrored_log;
use super::place::{self, DataPlace};
use super::values::{self, Prefix};
use super::witness::{parse_log, prefixes, refuse_taken};
use super::{LogSettings, WitnessSettings, key, keys, secret};

/// Settings of a mirror.
#[derive(Clone, Debug)]
pub struct MirrorSettings {
    /// Prefix for clients that upload entries.
    pub submission: Located<Prefix>,
    /// Prefix for monitors.
    pub monitoring: Located<Prefix>,
    /// The key, which has the name of the mirror.
    pub cosigners: Arc<[Cosigner]>,
    /// The secret that authenticates tickets.
    pub tickets: TicketSecret,
    /// File with the seed, or with the credentials that fetch the seed; `None` for other sources.
    pub secret: Option<Located<PathBuf>>,
    /// Place of all copies.
    pub data: Located<DataPlace>,
    /// The logs with their keys.
    pub keys: LogKeys,
    /// Each origin, with the prefix from which the mirror copies the log.
    pub logs: Vec<(String, Option<Prefix>)>,
}

/// The secret that authenticates tickets. `Debug` hides it.
#[derive(Clone)]
pub struct TicketSecret(pub(crate) [u8; 32]);

impl fmt::Debug for TicketSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketSecret")
    }
}

impl MirrorSettings {
    /// Returns the name of the mirror.
    pub(crate) fn name(&self) -> &str {
        let mut keys = self.cosigners.iter().map(Cosigner::verifier);
        keys.next().map_or("", |key| key.name())
    }
}

/// Reads `mirror`, and its key. `logs` and the witness must not have the same prefixes.
pub(super) fn read(
    top: &Section<'_>,
    directory: &Path,
    (logs, witness): (&[LogSettings], Option<&WitnessSettings>),
    report: &mut Report,
) -> Option<MirrorSettings> {
    let node = top.get(&keys::top::KEYS.mirror)?;
    let section = keys::open(node, "mirror", &keys::MIRROR, report)?;
    let mut reader = Reader::new(section, "mirror", directory, report);
    let name = reader.text(&KEYS.name);
    let name = reader.required(&KEYS.name, name, "mirror.example.com");
    let own = name.as_ref().map(|name| name.value);
    let (submission, monitoring) = (prefixes(
        &mut reader,
        own,
        &KEYS.submissionprefix,
        &KEYS.monitoringprefix,
    ))?;
    refuse_taken(
        &mut reader,
        [
            (&KEYS.submissionprefix, &submission),
            (&KEYS.monitoringprefix, &monitoring),
        ],
        logs,
    );
    let seed = secret::keyed(&mut reader, KEYS.secret.name(), key::seed_from_bytes);
    let data = place::data(&mut reader);
    let nodes = reader.node(&KEYS.logs);
    if nodes.is_none_or(|node| !matches!(&node.value, Value::List(list) if !list.is_empty())) {
        let message = "must be a list: one `- key: …` for each log";
        reader.problem(nodes.map(|node| node.line), &KEYS.logs, message);
    }
    let name = name?;
    if let Some(witness) = witness {
        if witness.name() == name.value {
            let message = "is the name of the witness: the mirror needs its own";
            reader.problem(name.line, &KEYS.name, message);
        }
        let lower = |prefix: &Located<Prefix>| prefix.value.origin().to_ascii_lowercase();
        let theirs = [&witness.submission, &witness.monitoring].map(lower);
        let own = [
            (&KEYS.monitoringprefix, &monitoring),
            (&KEYS.submissionprefix, &submission),
        ];
        let mut own = own.into_iter();
        if let Some((key, prefix)) = own.find(|&(_, prefix)| theirs.contains(&lower(prefix))) {
            let message = "is also a prefix of the witness: the mirror needs its own";
            reader.problem(prefix.line, key, message);
        }
    }
    let seed = seed?;
    let (cosigner, tickets) = match lucarne_ct::mirror_cosigner(&seed.value.key, name.value) {
        Ok(derived) => derived,
        Err(error) => {
            reader.problem(name.line, &KEYS.name, error.to_string());
            return None;
        }
    };
    let name = name.value.to_owned();
    let (keys, logs) = read_logs(nodes.map(|node| &node.value), &name, directory, report);
    Some(MirrorSettings {
        submission,
        monitoring,
        cosigners: Arc::new([cosigner]),
        tickets: TicketSecret(tickets),
        secret: (seed.value.file).map(|value| Located {
            value,
            line: seed.line,
        }),
        data: data?,
        keys,
        logs,
    })
}

/// Reads the logs.
fn read_logs(
    logs: Option<&Value>,
    name: &str,
    directory: &Path,
    report: &mut Report,
) -> (LogKeys, Vec<(String, Option<Prefix>)>) {
    let (mut keys, mut read, mut seen) = (LogKeys::default(), Vec::new(), HashSet::new());
    let Some(Value::List(nodes)) = logs else {
        return (keys, read);
    };
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("mirror.logs[{index}]");
        let Some(section) = keys::open(node, &path, &mirrored_log::TABLE, report) else {
            continue;
        };
        let mut reader = Reader::new(section, &path, directory, report);
        let own = &mirrored_log::KEYS;
        let origin = reader.text(&own.origin);
        let parse = |text: &str| match &origin {
            Some(origin) => parse_log(&format!("{} {text}", origin.value), name),
            None => parse_log(text, name),
        };
        let key = reader.parse(&own.key, parse);
        let key = reader.required(&own.key, key, "log.example+…");
        let from = reader.parse(&own.from, values::prefix);
        let Some(Located {
            value: (origin, key),
            line,
        }) = key
        else {
            continue;
        };
        if from.is_some() && !matches!(key, TrustedKey::Ct(_)) {
            let message = "needs the public key of a static CT log in `key`: only its entries can \
                           be copied";
            reader.problem(line, &own.from, message);
        }
        if !seen.insert(origin.clone()) {
            reader.problem(
                line,
                &own.key,
                format!("is the second key of the log {origin}"),
            );
        }
        keys.add(&origin, key);
        read.push((origin, from.map(|from| from.value)));
    }
    (keys, read)
}

//! One log under `logs:`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::civil::Date;
use lucarne_ct::Policy;
use lucarne_log::{Clock, KnownCheckpoints, LogConfig, Metadata, Signer, Witnesses};
use lucarne_settings::{Located, Node, Reader, Report, Section, Value, join};

use super::distinct::{Claimant, Claims};
use super::instances::{self, InstanceSettings};
use super::keys::identity::KEYS;
use super::place::DataPlace;
use super::root_sources::RootSources;
use super::rounds::Rounds;
use super::values::Prefix;
use super::written::Written;
use super::{accept, identity, keys, metadata, values, witness_policy};
use crate::known::{KnownPlaces, Place};

/// Settings of one log.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Line of the log's section in the file; `None` for a configuration from flags.
    pub line: Option<usize>,
    /// Name of the log in metrics and messages.
    pub shortname: Located<String>,
    /// Free text for `log.v3.json`.
    pub description: String,
    /// Further contents of `log.v3.json`.
    pub metadata: Metadata,
    /// Day on which `serve` may create the log.
    pub inception: Option<Located<Date>>,
    /// Origin of the log's checkpoints.
    pub origin: String,
    /// Prefix for submissions.
    pub submission: Located<Prefix>,
    /// Prefix for reads.
    pub monitoring: Located<Prefix>,
    /// Additional prefix for submissions and reads.
    pub also_at: Option<Prefix>,
    /// Holder of the key.
    pub key: Signer,
    /// File with the key, or with the credentials that fetch the key; `None` for other sources.
    pub secret: Option<Located<PathBuf>>,
    /// File with the credentials of the bucket; `None` if the configuration names no file.
    pub credentials: Option<Located<PathBuf>>,
    /// Directory for data that can be rebuilt: dedup index, index of leaf hashes, CCADB roots.
    pub cache: Located<PathBuf>,
    /// Place of the log's data.
    pub data: Located<DataPlace>,
    /// Sources of accepted roots.
    pub roots: RootSources,
    /// Rounds, caches and the scrub.
    pub rounds: Rounds,
    /// Conditions for accepted certificates.
    pub policy: Policy,
    /// URLs of outside checkpoints. The log stops if one of these checkpoints has more entries than
    /// the log.
    pub known: Vec<Located<String>>,
    /// Witnesses that cosign the checkpoints.
    pub witnesses: Option<Witnesses>,
    /// Settings of this process as one of several instances.
    pub instances: Option<Located<InstanceSettings>>,
    /// Source of the current time.
    pub clock: Clock,
    /// The settings as written in the file, with the settings of `defaults`, for reloads.
    pub written: Written,
}

impl LogSettings {
    /// Returns the path of a key, such as `logs[name].key`, for messages.
    pub(crate) fn key_path(&self, key: &str) -> String {
        match self.line {
            Some(_) => join(&format!("logs[{}]", self.shortname.value), key),
            None => keys::flag_of(key),
        }
    }

    /// Returns the file that keeps CCADB roots between starts.
    pub(crate) fn ccadb_file(&self) -> PathBuf {
        self.cache.value.join("ccadb.pem")
    }

    /// Returns the directory of cached tiles of a bucket. The name of the directory contains the
    /// log ID, so that tiles of another log are never served.
    pub(crate) fn tiles_directory(&self) -> PathBuf {
        let id = hex::encode(&self.key.log_id().0[..8]);
        self.cache.value.join(format!("tiles-{id}"))
    }

    /// Returns the places with outside checkpoints of this log.
    pub(crate) fn known_places(&self) -> KnownPlaces {
        let urls = self.known.iter().map(|url| Place::Url(url.value.clone()));
        KnownPlaces(urls.collect())
    }

    fn known_checkpoints(&self) -> Option<Arc<dyn KnownCheckpoints>> {
        (!self.known.is_empty()).then(|| Arc::new(self.known_places()) as _)
    }

    /// Returns the settings for the `log` crate. The verifier is a separate one;
    /// [`Host::start`](crate::hosting::Host::start) replaces it with the common verifier.
    pub(crate) fn to_log_config(&self) -> LogConfig {
        LogConfig {
            shortname: self.shortname.value.clone(),
            description: self.description.clone(),
            metadata: self.metadata.clone(),
            origin: self.origin.clone(),
            submission_prefix: self.submission.value.url.clone(),
            monitoring_prefix: self.monitoring.value.url.clone(),
            also_at: self.also_at.as_ref().map(|prefix| prefix.url.clone()),
            key: self.key.clone(),
            policy: self.policy.clone(),
            verification: Arc::default(),
            rounds: self.rounds.sequencer.clone(),
            cache: self.cache.value.join("index"),
            rfc6962_reads: (self.rounds.rfc6962_reads).then(|| self.cache.value.join("leaves")),
            scrub: self.rounds.scrub.config(&self.cache.value),
            known: self.known_checkpoints(),
            witnesses: self.witnesses.clone(),
            instances: (self.instances.as_ref()).map(|instances| instances.value.config()),
            clock: self.clock.clone(),
        }
    }
}

/// Reads one log, and reports all its problems. `place` is the place of its data, if the section
/// does not have it. Returns `None` if an essential part is missing.
pub(super) fn read(
    index: usize,
    node: &Node,
    defaults: Option<Section<'_>>,
    (directory, place): (&Path, Option<&DataPlace>),
    claims: &mut Claims,
    report: &mut Report,
) -> Option<LogSettings> {
    let path = format!("logs[{}]", name_or_index(index, node));
    let section = keys::open(node, &path, &keys::LOG, report)?;
    let section = section.or(defaults);
    let written = Written::of(&section, &keys::LOG.keys());
    let mut reader = Reader::new(section, &path, directory, report);
    let reader = &mut reader;
    let identity = identity::read(reader, place);
    let inception = reader.read(&KEYS.inception);
    let known = reader.list(&KEYS.known_checkpoints, values::checkpoint_url);
    let description = reader.text(&KEYS.description);
    let description = description.map(|text| text.value.to_owned());
    let data = identity.data.as_ref().map(|data| &data.value);
    let signer = identity.key.as_ref().map(|key| &key.value);
    let rounds = Rounds::read(reader, data);
    let witnesses = witness_policy::read(reader, data, rounds.sequencer.period);
    let roots = accept::roots(reader);
    let policy = accept::policy(reader);
    let instances = instances::read(reader, data, signer);
    let prefixes = [&identity.submission, &identity.monitoring];
    let prefixes = prefixes.map(|prefix| prefix.as_ref().map(|prefix| &prefix.value));
    let likely = metadata::likely_use(&roots, &policy, &prefixes);
    let metadata = metadata::read(reader, likely, inception.as_ref());
    let who = Claimant {
        index,
        path: &path,
        line: node.line,
    };
    identity.claim(who, claims, report);
    let submission = identity.submission?;
    let origin = submission.value.origin().to_owned();
    Some(LogSettings {
        line: (node.line > 0).then_some(node.line),
        shortname: identity.shortname?,
        description: description.unwrap_or_else(|| origin.clone()),
        metadata,
        inception,
        origin,
        submission,
        monitoring: identity.monitoring?,
        also_at: None,
        key: identity.key?.value,
        secret: identity.secret,
        credentials: identity.credentials,
        cache: identity.cache?,
        roots,
        rounds,
        data: identity.data?,
        policy,
        known,
        witnesses,
        instances,
        clock: Clock::system(),
        written,
    })
}

/// Returns the log's short name, or else its index, for messages.
fn name_or_index(index: usize, node: &Node) -> String {
    let name = match &node.value {
        Value::Map(entries) => entries
            .iter()
            .find(|entry| entry.key == KEYS.shortname.name()),
        _ => None,
    };
    match name.map(|entry| &entry.value.value) {
        Some(Value::Scalar(name)) => name.clone(),
        _ => index.to_string(),
    }
}

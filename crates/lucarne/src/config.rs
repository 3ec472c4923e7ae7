//! The configuration of the server, read from a YAML file (keys of Sunlight and of Lucarne) or from
//! flags of TesseraCT.
//!
//! Parsing continues after a problem: the [`Report`] has all problems of the configuration.

mod accept;
mod clouds;
mod command;
mod conflict;
mod distinct;
mod flags;
mod go;
mod identity;
mod instances;
mod key;
pub mod keys;
mod log;
mod manager;
mod metadata;
mod mirror;
mod nested;
#[cfg(feature = "otlp")]
mod otlp;
mod place;
mod published;
mod root_sources;
mod rounds;
pub(crate) mod schema;
mod scrub;
mod secret;
mod server;
mod shared_directory;
pub(crate) mod shown;
mod signer;
mod tesseract;
pub(crate) mod values;
#[cfg(not(feature = "otlp"))]
mod without_otlp;
mod witness;
mod witness_policy;
mod written;

use std::io;
use std::path::{Path, PathBuf};

use lucarne_http::Limits;
use lucarne_settings::{Node, Reader, Section, Value, join, read_text, tree};

use crate::files;

pub use crate::prefix::Prefix;
pub use crate::verification::VerifyBy;
pub(crate) use conflict::{cosigner as cosigner_at_prefix, shared as shared_by_logs};
pub use flags::Flags;
pub(crate) use identity::beside_sunlights;
pub use instances::InstanceSettings;
pub(crate) use key::{describe as describe_key, read as read_key, read_seed};
pub use log::LogSettings;
pub use lucarne_settings::{Finding, Located, Report, Severity};
pub use mirror::MirrorSettings;
#[cfg(feature = "otlp")]
pub use otlp::OtlpSettings;
pub use place::{DataPlace, LockPlace};
pub use root_sources::{Ccadb, RefusedRoots, RootSources};
pub use secret::Secret;
pub(crate) use secret::check_secret_file;
#[cfg(feature = "load")]
pub(crate) use secret::{SecretError, SourceError};
pub use server::TlsFiles;
pub(crate) use signer::SignerConfig;
pub use tesseract::Ignored;
pub use values::Listen;
#[cfg(feature = "proxy")]
pub(crate) use values::ListenError;
#[cfg(any(feature = "load", feature = "proxy"))]
pub(crate) use values::listen;
pub(crate) use values::rfc3339;
#[cfg(not(feature = "otlp"))]
use without_otlp as otlp;
#[cfg(not(feature = "otlp"))]
pub use without_otlp::OtlpSettings;
pub use witness::WitnessSettings;
pub use written::Written;

/// Remedy for a missing configuration.
const NO_FILE: &str = "name the file with `-c FILE` (default: `lucarne.yaml` in the working \
                       directory), or write it as in docs/getting-started.md and run `lucarne \
                       init`; `lucarne demo` creates and runs an example";

/// Reads a configuration file, or reports the reason why the file cannot be read. The remedy
/// follows if the file does not exist.
pub(crate) fn yaml_of(path: &Path, remedy: &str, report: &mut Report) -> Option<String> {
    let error = match files::named(path, || read_text(path)) {
        Ok(text) => return Some(text),
        Err(error) => error,
    };
    let message = match error.kind() {
        io::ErrorKind::NotFound => format!("cannot be read: {error}: {remedy}"),
        _ => format!("cannot be read: {error}"),
    };
    report.problem(None, "", message);
    None
}

/// Parses a configuration file, or reports the reason why it is not YAML.
pub(crate) fn tree_of(yaml: &str, report: &mut Report) -> Option<Node> {
    let parsed = tree::parse(yaml).map_err(|error| {
        let message = format!("is not YAML: {}", error.message);
        report.problem(Some(error.line), "", message);
    });
    parsed.ok()
}

/// Configuration of `lucarne serve`, without problems.
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses to listen on.
    pub listen: Vec<Located<Listen>>,
    /// Location of the lock.
    pub checkpoints: Located<LockPlace>,
    /// Socket through which the next process takes over; `None` without handover.
    pub handover: Option<Located<PathBuf>>,
    /// Certificate and key; `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Verifier of the signatures of submissions, for all logs.
    pub verification: VerifyBy,
    /// Limits of the HTTP server.
    pub http: Limits,
    /// Export of traces and metrics.
    pub otlp: Option<OtlpSettings>,
    /// The logs, in the order of the file. Not empty without a witness.
    pub logs: Vec<LogSettings>,
    /// The witness beside the logs.
    pub witness: Option<WitnessSettings>,
    /// The mirror beside the logs.
    pub mirror: Option<MirrorSettings>,
    /// Settings of the process as written in the file, to find the keys that a reload has changed.
    pub written: Written,
    /// Digest of the file with all of these settings. `None` without a file, or if a reload has
    /// applied only a part of its file.
    pub digest: Option<u64>,
}

impl Config {
    /// Reads the file at `path`. The configuration is complete only if the report has no problems:
    /// logs with problems are left out.
    pub fn read(path: &Path) -> (Option<Config>, Report) {
        let mut report = Report::on(Some(path));
        let directory = path.parent().unwrap_or(Path::new(""));
        let yaml = yaml_of(path, NO_FILE, &mut report);
        let config = yaml.and_then(|yaml| Config::parse(&yaml, directory, &mut report));
        (config, report)
    }

    /// Parses `yaml`. Relative paths are relative to `directory`. The files that the configuration
    /// names are checked, too.
    pub fn parse(yaml: &str, directory: &Path, report: &mut Report) -> Option<Config> {
        let root = tree_of(yaml, report)?;
        let mut config = Config::of_tree(&root, directory, None, report)?;
        config.digest = Some(files::digest(yaml.as_bytes()));
        Some(config)
    }

    /// Reads the tree of a file. `place` is the place of the data of all logs, if it is known.
    fn of_tree(
        root: &Node,
        directory: &Path,
        place: Option<&DataPlace>,
        report: &mut Report,
    ) -> Option<Config> {
        let top = keys::open(root, "", &keys::top::TABLE, report)?;
        let defaults = top
            .get(&keys::top::KEYS.defaults)
            .and_then(|node| defaults(node, report));
        let mut logs = logs(&top, defaults, (directory, place), report);
        let witness = witness::read(&top, directory, &logs, report);
        let mirror = mirror::read(&top, directory, (&logs, witness.as_ref()), report);
        let mut of_process = keys::top::TABLE.keys();
        of_process.retain(|key| !["logs", "defaults"].contains(&key.about().name));
        let written = Written::of(&top, &of_process);
        let mut reader = Reader::new(top, "", directory, report);
        let operator = metadata::operator(&mut reader);
        for log in &mut logs {
            log.metadata.operator.clone_from(&operator);
        }
        let http = server::http(&mut reader);
        let tls = server::tls(&mut reader);
        let otlp = otlp::read(&mut reader);
        let listen = reader.list(&keys::top::KEYS.listen, values::listen);
        if top.get(&keys::top::KEYS.listen).is_none() {
            reader.problem(
                None,
                &keys::top::KEYS.listen,
                "is missing; for example `listen: [\":443\"]`",
            );
        }
        let verification = reader.get(&keys::top::KEYS.verification);
        let handover = reader.path(&keys::top::KEYS.handover);
        let (checkpoints, password) = place::lock(&mut reader)?;
        let password = password.map(|file| ("checkpointspassword".to_owned(), file));
        let seed = witness.as_ref().and_then(|witness| witness.secret.clone());
        let seed = seed.map(|file| ("witness.secret".to_owned(), file));
        let mirrors = mirror.as_ref().and_then(|mirror| mirror.secret.clone());
        let mirrors = mirrors.map(|file| ("mirror.secret".to_owned(), file));
        let files = password.into_iter().chain(seed).chain(mirrors);
        let files = files.chain(otlp::private_files(&otlp));
        let public = witness.as_ref().and_then(|it| it.directory.as_deref());
        refuse_unsafe_places(&checkpoints, files, tls.as_ref(), (&logs, public), report);
        let copies = mirror
            .iter()
            .map(|mirror| ("the mirror".to_owned(), &mirror.data.value));
        distinct::apart(&checkpoints, copies, report);
        let shared = logs.iter().filter_map(|log| {
            let instances = log.instances.as_ref()?;
            Some((log.key_path("instances"), instances.line))
        });
        instances::fit(&checkpoints, handover.is_some(), shared, report);
        Some(Config {
            listen,
            checkpoints,
            handover,
            tls,
            verification: verification.unwrap_or_default(),
            http,
            otlp,
            logs,
            witness,
            mirror,
            written,
            digest: None,
        })
    }

    /// Returns the files of the TLS certificate and key; an empty list without TLS.
    pub(crate) fn tls_files(&self) -> Vec<PathBuf> {
        let files = self.tls.iter();
        let files = files.flat_map(|tls| [&tls.certificate, &tls.key]);
        files.map(|file| file.value.clone()).collect()
    }
}

/// Refuses places that endanger the lock, the directories or the secrets of the logs. `private` are
/// further private files of the process, with their keys. `witness` is the directory with the
/// public files of the witness.
fn refuse_unsafe_places(
    checkpoints: &Located<LockPlace>,
    private: impl IntoIterator<Item = (String, Located<PathBuf>)>,
    tls: Option<&TlsFiles>,
    (logs, witness): (&[LogSettings], Option<&Path>),
    report: &mut Report,
) {
    let data = logs.iter().map(|log| (log.key_path(""), &log.data.value));
    distinct::apart(checkpoints, data, report);
    published::refuse(checkpoints, private, tls, (logs, witness), report);
    nested::refuse(logs, report);
    shared_directory::refuse(&checkpoints.value, logs, report);
}

/// Reads `defaults:`, which may have only keys that logs can share. Reports all other keys.
fn defaults<'t>(node: &'t Node, report: &mut Report) -> Option<Section<'t>> {
    let section = keys::open(node, "defaults", &keys::LOG, report)?;
    if let Value::Map(entries) = &node.value {
        for entry in entries {
            if keys::OWN.has(&entry.key) {
                let key = join("defaults", &entry.key);
                let message = "is not allowed here: write this key under each log";
                report.problem(Some(entry.line), key, message);
            }
        }
    }
    Some(section)
}

/// Reads the logs under `logs:`.
fn logs(
    top: &Section<'_>,
    defaults: Option<Section<'_>>,
    places: (&Path, Option<&DataPlace>),
    report: &mut Report,
) -> Vec<LogSettings> {
    let nodes = match top
        .get(&keys::top::KEYS.logs)
        .map(|node| (node.line, &node.value))
    {
        Some((_, Value::List(nodes))) if !nodes.is_empty() => nodes.as_slice(),
        Some((line, Value::Map(_) | Value::Scalar(_))) => {
            let message = "must be a list: one `- shortname: …` for each log";
            report.problem(Some(line), "logs", message);
            return Vec::new();
        }
        _ if [&keys::top::KEYS.witness, &keys::top::KEYS.mirror]
            .iter()
            .any(|key| top.get(*key).is_some()) =>
        {
            return Vec::new();
        }
        _ => {
            let message = "is missing: one `- shortname: …` for each log";
            report.problem(None, "logs", message);
            return Vec::new();
        }
    };
    let mut claims = distinct::Claims::default();
    let read = |(index, node)| log::read(index, node, defaults, places, &mut claims, report);
    nodes.iter().enumerate().filter_map(read).collect()
}

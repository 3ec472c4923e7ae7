//! All keys of the configuration file, and keys in files of other log software.
//!
//! `docs/reference/configuration.md` documents each key; a test compares both.

use lucarne_settings::{Node, Report, Section, Value, join, nearest};

/// Keys at the top level.
pub const TOP: &[&str] = &[
    "listen",
    "checkpoints",
    "checkpointspassword",
    "handover",
    "tls",
    "http",
    "read_limits",
    "verification",
    "defaults",
    "logs",
];

/// Keys under `tls`.
pub const TLS: &[&str] = &["certificate", "key"];

/// Keys under `http`.
pub const HTTP: &[&str] = &[
    "maxbody",
    "maxclientinflight",
    "maxconnections",
    "maxinflight",
    "headertimeout",
    "bodytimeout",
    "idletimeout",
    "writetimeout",
    "draintimeout",
    "trusted_proxies",
];

/// Keys under `read_limits`.
pub const READ_LIMITS: &[&str] = &[
    "client_rate",
    "client_burst",
    "no_contact_rate",
    "no_contact_burst",
    "remembered",
];

/// Keys that identify one log, which `defaults` must not contain.
pub const IDENTITY: &[&str] = &[
    "shortname",
    "description",
    "inception",
    "submissionprefix",
    "monitoringprefix",
    "secret",
    "signer",
    "publickey",
    "cache",
    "localdirectory",
    "s3keyprefix",
    "gcskeyprefix",
    "azurekeyprefix",
    "name",
    "seed",
    "known_checkpoints",
    "status_timestamp",
    "planned_changes",
];

/// Keys of a log that `defaults` may set for all logs.
pub const SHARED: &[&str] = &[
    "s3bucket",
    "s3region",
    "s3endpoint",
    "s3style",
    "s3profile",
    "gcsbucket",
    "gcsendpoint",
    "gcscredentials",
    "azurecontainer",
    "azureaccount",
    "azureendpoint",
    "roots",
    "ccadbroots",
    "extraroots",
    "rootsurl",
    "refusedroots",
    "period",
    "poolsize",
    "freshness",
    "backlog",
    "checkpointinterval",
    "notafterstart",
    "notafterlimit",
    "require",
    "accept_sha1",
    "reject_expired",
    "reject_unexpired",
    "reject_extensions",
    "maxchain",
    "maxjournal",
    "readcache",
    "diskcache",
    "rfc6962reads",
    "scrub",
    "scrubwindow",
    "instances",
    "intended_use",
    "submission_rate_limit",
    "monitoring_rate_limit",
];

/// Keys of an entry of a log's `planned_changes`.
pub const PLANNED_CHANGE: &[&str] = &["new_status", "effective_date", "comment"];

/// Keys of a log's `instances`.
pub const INSTANCES: &[&str] = &["address", "listen", "key", "lease"];

/// Keys of a log's `backlog`.
pub const BACKLOG: &[&str] = &["rate", "pool"];

/// Keys of a rate limit.
pub const RATE_LIMIT: &[&str] = &["requests", "interval_seconds", "scope"];

/// Keys with details of a data place, each with the key that defines the place.
pub(super) const OF_STORES: &[(&str, &str)] = &[
    ("s3bucket", "s3region"),
    ("s3bucket", "s3endpoint"),
    ("s3bucket", "s3style"),
    ("s3bucket", "s3profile"),
    ("s3bucket", "s3keyprefix"),
    ("gcsbucket", "gcsendpoint"),
    ("gcsbucket", "gcscredentials"),
    ("gcsbucket", "gcskeyprefix"),
    ("azurecontainer", "azureaccount"),
    ("azurecontainer", "azureendpoint"),
    ("azurecontainer", "azurekeyprefix"),
];

/// Keys of a signer's file.
pub const SIGNER: &[&str] = &["socket", "memory", "users", "logs"];

/// Keys of each log in a signer's file.
pub const SIGNER_LOG: &[&str] = &[
    "origin", "secret", "seed", "module", "token", "object", "pin",
];

/// Returns all keys of a log.
pub fn log() -> Vec<&'static str> {
    [IDENTITY, SHARED].concat()
}

/// Returns the flag for a key of the configuration file, for messages.
pub(super) fn flag_of(key: &str) -> String {
    let flag = match key {
        "shortname" | "submissionprefix" => "origin",
        "monitoringprefix" => "path-prefix",
        "secret" => "private-key",
        "localdirectory" => "storage-dir",
        "s3bucket" | "gcsbucket" | "azurecontainer" => "bucket",
        "roots" => "roots-pem-file",
        "listen" => "http-endpoint",
        "notafterstart" => "not-after-start",
        "notafterlimit" => "not-after-limit",
        "period" => "checkpoint-interval",
        "checkpointinterval" => "checkpoint-republish-interval",
        "poolsize" => "pushback-max-outstanding",
        "ccadbroots" => "roots-remote-fetch-url",
        other => other,
    };
    format!("--{flag}")
}

const ETAGS3: &str = "is Sunlight's lock in an object store: write it as \
     `checkpoints: s3://bucket/prefix?region=…&endpoint=…`";
const DYNAMODB: &str = "is not supported: write `checkpoints` with the path of an SQLite database, \
                        or the URL of MySQL, PostgreSQL or an object store";
/// Keys in files of other log software that must not be ignored, with advice.
const FOREIGN: &[(&str, &str)] = &[
    ("etags3", ETAGS3),
    ("dynamodb", DYNAMODB),
    (
        "key",
        "is an old name for `secret`, which takes a seed file or a PEM key",
    ),
];

/// Keys at the top level of Sunlight's file that have no meaning in Lucarne.
const IGNORED_TOP: &[(&str, &str)] = &[
    (
        "acme",
        "is ignored: Lucarne does not request certificates. Use any ACME client and configure the \
         files in `tls`, or terminate TLS in front; until then, the addresses in `listen` are \
         served without TLS",
    ),
    (
        "name",
        "is ignored: the pages are named after each log's `description`",
    ),
    (
        "witness",
        "is ignored: Lucarne is not a witness. Run the witness in Sunlight, with a configuration \
         without logs",
    ),
    (
        "homeredirect",
        "is ignored: the key belongs to Sunlight's read server, and Lucarne serves its own page",
    ),
];

const PREFIX: &str = "is ignored: the URL in `submissionprefix` has this part";

/// Keys of a log in Sunlight's file that have no meaning in Lucarne.
const IGNORED_LOG: &[(&str, &str)] = &[("httphost", PREFIX), ("httpprefix", PREFIX)];

/// Returns Sunlight's keys that are ignored in the map at `path`.
fn ignored(path: &str) -> &'static [(&'static str, &'static str)] {
    match path {
        "" => IGNORED_TOP,
        path if path.starts_with("logs[") => IGNORED_LOG,
        _ => &[],
    }
}

/// Opens `node` as a map with the keys `known`. Warns about ignored keys, and reports others with
/// the advice of [`unknown`].
pub(super) fn open<'t>(
    node: &'t Node,
    path: &str,
    known: &[&str],
    report: &mut Report,
) -> Option<Section<'t>> {
    let ignored = ignored(path);
    if let Value::Map(entries) = &node.value {
        for entry in entries {
            if let Some((key, why)) = ignored.iter().find(|(key, _)| *key == entry.key) {
                report.warning(Some(entry.line), join(path, key), *why);
            }
        }
    }
    let taken: Vec<&str> = known
        .iter()
        .copied()
        .chain(ignored.iter().map(|it| it.0))
        .collect();
    let advice = |key: &str, _: &[&str]| unknown(key, known);
    Section::open_advised(node, path, &taken, advice, report)
}

/// Returns the advice for a key that is not in `known`.
fn unknown(key: &str, known: &[&str]) -> String {
    if let Some((_, advice)) = FOREIGN.iter().find(|(foreign, _)| *foreign == key) {
        return (*advice).to_owned();
    }
    match nearest(key, known) {
        Some(near) => format!("no such key; did you mean `{near}`?"),
        None if log().contains(&key) => {
            "no such key here; it belongs to a log, under `logs:`".to_owned()
        }
        None if TOP.contains(&key) => {
            "no such key here; it belongs at the top of the file".to_owned()
        }
        None => lucarne_settings::unknown(key, known),
    }
}

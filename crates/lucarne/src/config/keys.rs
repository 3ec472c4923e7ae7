//! Every key the configuration file knows, and the keys of other logs' files
//! that mean nothing here.
//!
//! `docs/configuration.md` documents each; a test holds the two together.

use lucarne_settings::{Node, Report, Section, nearest};

/// Keys at the top of the file.
pub const TOP: &[&str] = &[
    "listen",
    "checkpoints",
    "tls",
    "http",
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
];

/// Keys that identify one log: not to be shared through `defaults`.
pub const IDENTITY: &[&str] = &[
    "shortname",
    "description",
    "inception",
    "submissionprefix",
    "monitoringprefix",
    "secret",
    "cache",
    "localdirectory",
    "s3keyprefix",
    "gcskeyprefix",
    "azurekeyprefix",
    "name",
    "seed",
    "status_timestamp",
    "planned_changes",
];

/// Keys of a log that `defaults` may give for all.
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
    "checkpointinterval",
    "notafterstart",
    "notafterlimit",
    "require",
    "accept_sha1",
    "reject_expired",
    "reject_unexpired",
    "reject_extensions",
    "maxchain",
    "readcache",
    "diskcache",
    "intended_use",
    "submission_rate_limit",
    "monitoring_rate_limit",
];

/// Keys of each of a log's `planned_changes`.
pub const PLANNED_CHANGE: &[&str] = &["new_status", "effective_date", "comment"];

/// Keys of a rate limit.
pub const RATE_LIMIT: &[&str] = &["requests", "interval_seconds", "scope"];

/// Keys that say more of a place of data, each with the key that names it.
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

/// All keys of a log.
pub fn log() -> Vec<&'static str> {
    [IDENTITY, SHARED].concat()
}

const ETAGS3: &str = "is Sunlight's lock in an object store: write it as \
     `checkpoints: s3://bucket/prefix?region=…&endpoint=…`";
const DYNAMODB: &str = "is a lock that Lucarne does not have: use `checkpoints`, the path of an \
     SQLite database or the URL of MySQL, PostgreSQL or an object store";
const PREFIX: &str =
    "is Sunlight's old way of naming the endpoint: write the whole URL into `submissionprefix`";

/// Keys of other logs' files that have no meaning here, and what to do.
const FOREIGN: &[(&str, &str)] = &[
    (
        "acme",
        "is not done by Lucarne: get the certificate with any ACME client and name the files in \
         `tls`, or terminate TLS in front; the files are read again when they change",
    ),
    ("etags3", ETAGS3),
    ("dynamodb", DYNAMODB),
    (
        "witness",
        "configures Sunlight's witness, which Lucarne does not have: remove it",
    ),
    ("httphost", PREFIX),
    ("httpprefix", PREFIX),
    (
        "key",
        "is an old name for `secret`, which takes a seed file or a PEM key",
    ),
    (
        "homeredirect",
        "belongs to Sunlight's read server: Lucarne serves its own page, remove it",
    ),
];

/// Takes `node` as a map with the keys `known`; of others says what
/// [`unknown`] has to say.
pub(super) fn open<'t>(
    node: &'t Node,
    path: &str,
    known: &[&str],
    report: &mut Report,
) -> Option<Section<'t>> {
    Section::open_advised(node, path, known, unknown, report)
}

/// What to say of a key that is not one of `known`.
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

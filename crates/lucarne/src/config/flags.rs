//! Configuration of one log from command line flags, as for TesseraCT's POSIX server.

mod file;
pub(super) mod tree;

use std::path::Path;

use clap::ValueHint;
use clap::builder::NonEmptyStringValueParser;
use lucarne_settings::Report;

use super::Config;
use super::clouds::Clouds;
use super::go::switch;
use super::tesseract::Ignored;

/// Flags for one log. Each flag can be written with `-` or, as in TesseraCT, with `_`.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "One log from flags alone (TesseraCT's)")]
pub struct Flags {
    /// Origin of the log: its submission prefix without the scheme, such as ct.example.com/2026h1
    #[arg(long, value_name = "ORIGIN", conflicts_with = "config")]
    pub origin: Option<String>,

    /// Key of the log: a file with PEM (EC P-256) or a seed, or another source as in `secret:`
    /// [default: the environment variable LOG_PRIVATE_KEY]
    #[arg(
        long,
        alias = "signer-private-key-file",
        value_name = "FILE",
        requires = "origin"
    )]
    pub private_key: Option<String>,

    /// Directory of the log's data. A new log is created in a fresh directory
    #[arg(
        long,
        value_name = "DIR",
        requires = "origin",
        value_parser = NonEmptyStringValueParser::new(),
        value_hint = ValueHint::DirPath
    )]
    pub storage_dir: Option<String>,

    /// PEM file with the accepted roots
    #[arg(
        long,
        value_name = "FILE",
        requires = "origin",
        value_parser = NonEmptyStringValueParser::new(),
        value_hint = ValueHint::FilePath
    )]
    pub roots_pem_file: Option<String>,

    /// Address to listen on [default: localhost:6962]
    #[arg(long, value_name = "HOST:PORT", requires = "origin")]
    pub http_endpoint: Option<String>,

    /// Bucket of the log's data, instead of --storage-dir: s3://bucket/prefix, gs://… or az://…
    #[arg(
        long,
        value_name = "URL",
        requires = "origin",
        requires = "cache",
        conflicts_with = "storage_dir"
    )]
    pub bucket: Option<String>,

    /// Directory for data that can be rebuilt [default: within the storage directory]
    #[arg(
        long,
        value_name = "DIR",
        requires = "origin",
        value_parser = NonEmptyStringValueParser::new(),
        value_hint = ValueHint::DirPath
    )]
    pub cache: Option<String>,

    /// Lock: a file, or the URL of a database (mysql://, postgres://) or of a bucket [default:
    /// STORAGE_DIR.checkpoints.db, beside the data; created with the log]
    #[arg(long, value_name = "FILE|URL", requires = "origin")]
    pub checkpoints: Option<String>,

    /// Password of the lock's server: a file, or another source as in `secret:`
    #[arg(long, value_name = "FILE", requires = "checkpoints")]
    pub checkpoints_password: Option<String>,

    /// Start of the accepted notAfter times (RFC 3339)
    #[arg(long, value_name = "TIME", requires = "origin")]
    pub not_after_start: Option<String>,

    /// End of the accepted notAfter times, exclusive (RFC 3339)
    #[arg(long, value_name = "TIME", requires = "origin")]
    pub not_after_limit: Option<String>,

    /// Path of the log on this server [default: the path of the origin]
    #[arg(long, value_name = "PATH", requires = "origin")]
    pub path_prefix: Option<String>,

    /// Shortest time between rounds, such as 200ms [default: 200ms]
    #[arg(
        long = "checkpoint-interval",
        value_name = "DURATION",
        requires = "origin"
    )]
    pub period: Option<String>,

    /// Maximum age of an idle log's checkpoint, such as 5s [default: 5s]
    #[arg(
        long = "checkpoint-republish-interval",
        value_name = "DURATION",
        requires = "origin"
    )]
    pub max_checkpoint_age: Option<String>,

    /// Maximum number of entries that wait for a round; further submissions get 503 [default: 4000]
    #[arg(long, value_name = "ENTRIES", requires = "origin")]
    pub pushback_max_outstanding: Option<String>,

    /// Maximum size of a submission's body, in bytes
    #[arg(long, value_name = "BYTES", requires = "origin")]
    pub max_cert_chain_bytes: Option<String>,

    /// Refuse the root with this SHA-256 fingerprint in hexadecimal; may be repeated
    #[arg(long, value_name = "HEX", requires = "origin", value_delimiter = ',')]
    pub roots_reject_fingerprints: Vec<String>,

    /// URL of CCADB's report of roots, instead of its list of trusted roots
    #[arg(long, value_name = "URL", requires = "origin")]
    pub roots_remote_fetch_url: Vec<String>,

    /// Also accept CCADB's roots, unless 0. The refresh interval itself is fixed [default: 0]
    #[arg(long, value_name = "DURATION", requires = "origin")]
    pub roots_remote_fetch_interval: Option<String>,

    /// Accepted for compatibility: an SCT always waits for the checkpoint that covers it
    #[arg(long, requires = "origin", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = switch, hide = true)]
    pub enable_publication_awaiter: Option<bool>,

    /// Log level in Go's numbers: -4 debug, 0 info, 4 warn, 8 error
    #[arg(
        long,
        value_name = "LEVEL",
        requires = "origin",
        allow_negative_numbers = true,
        hide = true
    )]
    pub slog_level: Option<i32>,

    /// Refuse expired certificates
    #[arg(long, requires = "origin", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = switch)]
    pub reject_expired: Option<bool>,

    /// Refuse unexpired certificates
    #[arg(long, requires = "origin", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = switch)]
    pub reject_unexpired: Option<bool>,

    /// Required extended key usage: ServerAuth or Any [default: Any]
    #[arg(long, value_name = "EKU", requires = "origin")]
    pub ext_key_usages: Option<String>,

    /// Refuse certificates with this extension; may be repeated
    #[arg(long, value_name = "OID", requires = "origin", value_delimiter = ',')]
    pub reject_extension: Vec<String>,

    /// Accept certificates that are signed with SHA-1 [default: true]
    #[arg(long, requires = "origin", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = switch)]
    pub accept_sha1_signing_algorithms: Option<bool>,

    /// Verification of signatures: `fast`, or `general` with aws-lc-rs only [default: fast]
    #[arg(long, value_name = "HOW", requires = "origin")]
    pub verification: Option<String>,

    /// PEM file of the TLS certificate and its intermediates; without it, plain HTTP
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        requires = "origin",
        value_parser = NonEmptyStringValueParser::new(),
        value_hint = ValueHint::FilePath
    )]
    pub tls_certificate: Option<String>,

    /// PEM file of the TLS key
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_certificate",
        value_parser = NonEmptyStringValueParser::new(),
        value_hint = ValueHint::FilePath
    )]
    pub tls_key: Option<String>,

    /// Flags of TesseraCT's servers on AWS and GCP.
    #[command(flatten)]
    pub clouds: Clouds,

    /// Flags of TesseraCT without effect in Lucarne.
    #[command(flatten)]
    pub ignored: Ignored,
}

impl Flags {
    /// Returns whether the configuration comes from flags instead of a file.
    pub fn given(&self) -> bool {
        self.origin.is_some()
    }

    /// Returns the configuration of the flags, or of `file` if there are none, and all problems.
    pub(crate) fn read_or(&self, file: &Path) -> (Option<Config>, Report) {
        if self.given() {
            self.read()
        } else {
            Config::read(file)
        }
    }

    /// Returns the configuration of the flags, and all problems.
    pub fn read(&self) -> (Option<Config>, Report) {
        let mut report = Report::on_flags(&tree::FLAGS);
        let config = self.config(&mut report);
        self.say_ignored(&mut report);
        (config, report)
    }

    /// Returns the log level of `--slog-level`.
    pub(crate) fn level(&self) -> Option<&'static str> {
        Some(match self.slog_level? {
            ..0 => "debug",
            0..4 => "info",
            4..8 => "warn",
            8.. => "error",
        })
    }

    /// Adds one warning for each ignored flag.
    fn say_ignored(&self, report: &mut Report) {
        for flag in self.ignored.iter() {
            let name = format!("--{}", flag.dashed());
            report.warning(
                None,
                name,
                format!("is a flag of TesseraCT, and ignored: {}", flag.why),
            );
        }
        if self.checkpoints.is_some() && self.clouds.lock().is_some() {
            let message = "is a flag of TesseraCT, and ignored: --checkpoints names the lock";
            report.warning(None, "--db-host", message);
        }
        for flag in self.clouds.without_host() {
            let message = "is a flag of TesseraCT, and ignored: --db-host names no server";
            report.warning(None, format!("--{flag}"), message);
        }
        if self.enable_publication_awaiter == Some(false) {
            let message = "is a flag of TesseraCT, and ignored: an SCT is always returned after \
                           the checkpoint that covers it";
            report.warning(None, "--enable-publication-awaiter", message);
        }
    }
}

//! Options of `ct-write`.

use std::path::PathBuf;

use clap::Args;
use lucarne_load::PrepareError;
use lucarne_settings::typed;
use serde::Deserialize;

use crate::connection_options::wrong;
use crate::ct::authorities::AuthorityFiles;
use crate::ct::options::AuditLevel;
use crate::ct::{Issuers, LogOptions};
use crate::option_values::{HttpVersion, Ratio, TimeSpan, Timestamp, defaults};

/// The submissions that `ct-write` sends, their target, and the checks.
///
/// The same struct is filled from the command line (flags) and from a plan (keys of the same names
/// in camelCase).
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CtWriteOptions {
    /// URL of a log; several logs are submitted to in turn. Origin, key and
    /// window come from its log.v3.json unless they are given
    #[arg(long, alias = "log_url", value_name = "URL")]
    #[serde(deserialize_with = "typed::list")]
    pub log_url: Vec<String>,
    /// URL for submissions, if different from the log's (in the order of the logs)
    #[arg(long, alias = "write_log_url", value_name = "URL")]
    #[serde(deserialize_with = "typed::list")]
    pub write_log_url: Vec<String>,
    /// Origin of the log (in the order of the logs)
    #[arg(long, value_name = "NAME", env = "CT_LOG_ORIGIN")]
    #[serde(deserialize_with = "typed::list")]
    pub origin: Vec<String>,
    /// Public key of the log: base64 of its DER, or a PEM file (in the order of the logs)
    #[arg(
        long,
        alias = "log_public_key",
        value_name = "KEY|FILE",
        env = "CT_LOG_PUBLIC_KEY"
    )]
    #[serde(deserialize_with = "typed::list")]
    pub log_public_key: Vec<String>,
    /// Directory of the authorities that `lucarne ca new` created
    #[arg(long, value_name = "DIR", default_value = "load-ca")]
    pub roots: PathBuf,
    /// Issuers of the certificates
    #[arg(long, value_enum, default_value_t)]
    pub issuers: Issuers,
    /// Share of precertificates, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = Ratio(0.5))]
    pub precerts: Ratio,
    /// Share of submissions that repeat an earlier one, from 0 to 1
    #[arg(long, aliases = ["dup_chance", "dup-chance"], value_name = "SHARE", default_value_t = Ratio(0.1))]
    pub duplicates: Ratio,
    /// Number of chains to create before the load begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub ahead: u64,
    /// Earliest notAfter of the certificates
    #[arg(long, aliases = ["not_after_start"], value_name = "TIME")]
    pub not_after_start: Option<Timestamp>,
    /// notAfter of the certificates is before this time
    #[arg(long, aliases = ["not_after_limit"], value_name = "TIME")]
    pub not_after_limit: Option<Timestamp>,
    /// First serial number; 64 random bits precede it
    #[arg(long, aliases = ["serial_offset"], value_name = "N", default_value_t = 0)]
    pub serial_offset: u64,
    /// Level of the checks during the load
    #[arg(long, value_enum, default_value_t)]
    pub audit: AuditLevel,
    /// Time within which an entry must be in a checkpoint after its SCT
    #[arg(
        long,
        aliases = ["mmd_duration", "mmd-duration"],
        value_name = "TIME",
        default_value_t = TimeSpan::seconds(10)
    )]
    pub mmd: TimeSpan,
    /// Age at which a checkpoint is stale
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(60))]
    pub max_checkpoint_age: TimeSpan,
    /// Interval between polls of the checkpoint
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan(std::time::Duration::from_millis(500)))]
    pub checkpoint_interval: TimeSpan,
    /// Allowed difference between the clocks of log and load test
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(5))]
    pub clock_tolerance: TimeSpan,
    /// The log may be restarted during the run: wait for it, and report its absences
    #[arg(long)]
    pub expect_restarts: bool,
    /// Token that requests carry: Authorization: Bearer TOKEN
    #[arg(long, alias = "bearer_token", value_name = "TOKEN")]
    pub bearer_token: Option<String>,
    /// Token that submissions carry, if different
    #[arg(long, alias = "bearer_token_write", value_name = "TOKEN")]
    pub bearer_token_write: Option<String>,
    /// PEM file of a CA's certificate to issue from, instead of those in --roots; the certificates
    /// above it, except the root, may follow
    #[arg(
        long,
        alias = "intermediate_ca_cert_path",
        value_name = "FILE",
        requires = "intermediate_ca_key_path"
    )]
    pub intermediate_ca_cert_path: Option<PathBuf>,
    /// PEM file of that CA's private key
    #[arg(
        long,
        alias = "intermediate_ca_key_path",
        value_name = "FILE",
        requires = "intermediate_ca_cert_path"
    )]
    pub intermediate_ca_key_path: Option<PathBuf>,
    /// PEM file of the private key of the issued certificates [default: a new key]
    #[arg(
        long,
        alias = "cert_sign_private_key_path",
        value_name = "FILE",
        requires = "intermediate_ca_cert_path"
    )]
    pub cert_sign_private_key_path: Option<PathBuf>,
    /// Interval between requests that the log must refuse (another window, an unknown root,
    /// malformed requests); 0 disables them
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(1))]
    pub probe_interval: TimeSpan,
    /// Version of HTTP
    #[arg(long, value_enum, default_value_t)]
    pub http: HttpVersion,
    /// Accept any TLS certificate
    #[arg(long)]
    pub insecure: bool,
    /// PEM file of certificates to trust for TLS; may be repeated
    #[arg(long, value_name = "FILE")]
    pub ca: Vec<PathBuf>,
    /// Time limit of a request
    #[arg(long, aliases = ["http_timeout", "http-timeout"], value_name = "TIME", default_value_t = TimeSpan::seconds(30))]
    pub timeout: TimeSpan,
}

impl Default for CtWriteOptions {
    fn default() -> Self {
        defaults()
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        CtWriteOptions::default().logs()
    }
}

impl CtWriteOptions {
    /// Returns the files of a configured CA.
    pub(super) fn files(&self) -> Result<Option<AuthorityFiles>, PrepareError> {
        // `${NAME:-}` in a plan can give an empty path.
        let given = |path: &Option<PathBuf>| path.clone().filter(|it| !it.as_os_str().is_empty());
        let certificate = given(&self.intermediate_ca_cert_path);
        let key = given(&self.intermediate_ca_key_path);
        match (certificate, key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(AuthorityFiles {
                certificate,
                key,
                leaf_key: given(&self.cert_sign_private_key_path),
            })),
            _ => Err(wrong(
                "--intermediate-ca-cert-path and --intermediate-ca-key-path must be given together",
            )),
        }
    }

    /// Returns the options of the logs and their monitoring.
    pub(crate) fn logs(&self) -> LogOptions {
        LogOptions {
            log_url: self.log_url.clone(),
            write_log_url: self.write_log_url.clone(),
            origin: self.origin.clone(),
            log_public_key: self.log_public_key.clone(),
            audit: self.audit,
            mmd: self.mmd.0,
            max_checkpoint_age: self.max_checkpoint_age.0,
            checkpoint_interval: self.checkpoint_interval.0,
            clock_tolerance: self.clock_tolerance.0,
            expect_restarts: self.expect_restarts,
            bearer_token: self.bearer_token.clone(),
            bearer_token_write: self.bearer_token_write.clone(),
            http: self.http,
            insecure: self.insecure,
            ca: self.ca.clone(),
            timeout: self.timeout.0,
        }
    }
}

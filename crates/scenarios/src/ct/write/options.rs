//! Options of `ct-write`.

use std::path::PathBuf;

use clap::Args;
use lucarne_load::PrepareError;
use serde::Deserialize;

use crate::connection_options::wrong;
use crate::ct::authorities::AuthorityFiles;
use crate::ct::options::AuditLevel;
use crate::ct::{Issuers, LogOptions, SubmissionOptions};
use crate::option_values::{Ratio, TimeSpan, Timestamp};

/// The submissions that `ct-write` sends, their target, and the checks.
///
/// The same struct is filled from the command line (flags) and from a plan (keys of the same names
/// in camelCase).
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CtWriteOptions {
    /// Logs, and how to monitor them.
    #[command(flatten)]
    #[serde(rename = "..log")]
    pub log: LogOptions,
    /// Differences of submissions from reads.
    #[command(flatten)]
    #[serde(rename = "..submissions")]
    pub submissions: SubmissionOptions,
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
    #[arg(long, alias = "dup-chance", value_name = "SHARE", default_value_t = Ratio(0.1))]
    pub duplicates: Ratio,
    /// Number of chains to create before the load begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub ahead: u64,
    /// Earliest notAfter of the certificates
    #[arg(long, value_name = "TIME")]
    pub not_after_start: Option<Timestamp>,
    /// notAfter of the certificates is before this time
    #[arg(long, value_name = "TIME")]
    pub not_after_limit: Option<Timestamp>,
    /// First serial number; 64 random bits precede it
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub serial_offset: u64,
    /// Level of the checks during the load
    #[arg(long, value_enum, default_value_t)]
    pub audit: AuditLevel,
    /// Time within which an entry must be in a checkpoint after its SCT
    #[arg(
        long,
        alias = "mmd-duration",
        value_name = "TIME",
        default_value_t = TimeSpan::seconds(10)
    )]
    pub mmd: TimeSpan,
    /// PEM file of a CA's certificate to issue from, instead of those in --roots; the certificates
    /// above it, except the root, may follow
    #[arg(long, value_name = "FILE", requires = "intermediate_ca_key_path")]
    pub intermediate_ca_cert_path: Option<PathBuf>,
    /// PEM file of that CA's private key
    #[arg(long, value_name = "FILE", requires = "intermediate_ca_cert_path")]
    pub intermediate_ca_key_path: Option<PathBuf>,
    /// PEM file of the private key of the issued certificates [default: a new key]
    #[arg(long, value_name = "FILE", requires = "intermediate_ca_cert_path")]
    pub cert_sign_private_key_path: Option<PathBuf>,
    /// Interval between requests that the log must refuse (another window, an unknown root,
    /// malformed requests); 0 disables them
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(1))]
    pub probe_interval: TimeSpan,
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
}

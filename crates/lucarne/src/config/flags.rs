//! Configuration of one log from command line flags, as for TesseraCT's POSIX server.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lucarne_ct::{CcadbProgramme, Policy, Require};
use lucarne_http::Limits;
use lucarne_log::{Clock, LaneConfig};
use lucarne_settings::form::Durations;
use lucarne_settings::{Key, Located, Report};
use lucarne_storage::ObjectStoreConfig;

use super::Config;
use super::clouds::{Cloud, Clouds};
use super::go::{at_path, given, origin_prefix, require, short, switch};
use super::keys::http::MAXBODY;
use super::keys::rounds::{CHECKPOINTINTERVAL, PERIOD, POOLSIZE};
use super::keys::top::VERIFICATION;
use super::log::{self, LogSettings};
use super::place::{self, DataPlace, LockPlace};
use super::root_sources::{Ccadb, RefusedRoots, RootSources};
use super::secret::Secret;
use super::server::TlsFiles;
use super::tesseract::Ignored;
use super::written::Written;
use super::{scrub, values};

/// Text for an invalid fingerprint.
const NO_FINGERPRINT: &str = "is not a SHA-256 fingerprint (64 hexadecimal digits)";
const NO_LOCK: &str = "is missing: the lock of a log in a bucket, such as mysql://…, \
                       postgres://…, or s3://bucket/lock";
/// Environment variable with TesseraCT's key, if no flag names the key.
const KEY_VARIABLE: &str = "LOG_PRIVATE_KEY";
/// The same source, in the format of `secret`.
const KEY_SOURCE: &str = "env:LOG_PRIVATE_KEY";

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
        aliases = ["private_key", "signer-private-key-file", "signer_private_key_file"],
        value_name = "FILE",
        requires = "origin"
    )]
    pub private_key: Option<String>,

    /// Directory of the log's data. A new log is created in a fresh directory
    #[arg(long, alias = "storage_dir", value_name = "DIR", requires = "origin")]
    pub storage_dir: Option<PathBuf>,

    /// PEM file with the accepted roots
    #[arg(
        long,
        alias = "roots_pem_file",
        value_name = "FILE",
        requires = "origin"
    )]
    pub roots_pem_file: Option<PathBuf>,

    /// Address to listen on [default: localhost:6962]
    #[arg(
        long,
        alias = "http_endpoint",
        value_name = "HOST:PORT",
        requires = "origin"
    )]
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
    #[arg(long, value_name = "DIR", requires = "origin")]
    pub cache: Option<PathBuf>,

    /// Lock: a file, or the URL of a database (mysql://, postgres://) or of a bucket [default:
    /// STORAGE_DIR.checkpoints.db, beside the data; created with the log]
    #[arg(long, value_name = "FILE|URL", requires = "origin")]
    pub checkpoints: Option<String>,

    /// Password of the lock's server: a file, or another source as in `secret:`
    #[arg(long, value_name = "FILE", requires = "checkpoints")]
    pub checkpoints_password: Option<String>,

    /// Start of the accepted notAfter times (RFC 3339)
    #[arg(
        long,
        alias = "not_after_start",
        value_name = "TIME",
        requires = "origin"
    )]
    pub not_after_start: Option<String>,

    /// End of the accepted notAfter times, exclusive (RFC 3339)
    #[arg(
        long,
        alias = "not_after_limit",
        value_name = "TIME",
        requires = "origin"
    )]
    pub not_after_limit: Option<String>,

    /// Path of the log on this server [default: the path of the origin]
    #[arg(long, alias = "path_prefix", value_name = "PATH", requires = "origin")]
    pub path_prefix: Option<String>,

    /// Minimum interval between two checkpoints of a growing log, such as 200ms [default: 200ms]
    #[arg(
        long,
        alias = "checkpoint_interval",
        value_name = "DURATION",
        requires = "origin"
    )]
    pub checkpoint_interval: Option<String>,

    /// Maximum age of an idle log's checkpoint, such as 5s [default: 5s]
    #[arg(
        long,
        alias = "checkpoint_republish_interval",
        value_name = "DURATION",
        requires = "origin"
    )]
    pub checkpoint_republish_interval: Option<String>,

    /// Maximum number of entries that wait for a round; further submissions get 503 [default: 4000]
    #[arg(
        long,
        alias = "pushback_max_outstanding",
        value_name = "ENTRIES",
        requires = "origin"
    )]
    pub pushback_max_outstanding: Option<String>,

    /// Maximum size of a submission's body, in bytes
    #[arg(
        long,
        alias = "max_cert_chain_bytes",
        value_name = "BYTES",
        requires = "origin"
    )]
    pub max_cert_chain_bytes: Option<String>,

    /// Refuse the root with this SHA-256 fingerprint in hexadecimal; may be repeated
    #[arg(
        long,
        alias = "roots_reject_fingerprints",
        value_name = "HEX",
        requires = "origin",
        value_delimiter = ','
    )]
    pub roots_reject_fingerprints: Vec<String>,

    /// URL of CCADB's report of roots, instead of its list of trusted roots
    #[arg(
        long,
        alias = "roots_remote_fetch_url",
        value_name = "URL",
        requires = "origin"
    )]
    pub roots_remote_fetch_url: Vec<String>,

    /// Also accept CCADB's roots, unless 0. The refresh interval itself is fixed [default: 0]
    #[arg(
        long,
        alias = "roots_remote_fetch_interval",
        value_name = "DURATION",
        requires = "origin"
    )]
    pub roots_remote_fetch_interval: Option<String>,

    /// Accepted for compatibility: an SCT always waits for the checkpoint that covers it
    #[arg(long, alias = "enable_publication_awaiter", requires = "origin", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = switch, hide = true)]
    pub enable_publication_awaiter: Option<bool>,

    /// Log level in Go's numbers: -4 debug, 0 info, 4 warn, 8 error
    #[arg(
        long,
        alias = "slog_level",
        value_name = "LEVEL",
        requires = "origin",
        allow_negative_numbers = true,
        hide = true
    )]
    pub slog_level: Option<i32>,

    /// Refuse expired certificates
    #[arg(long, alias = "reject_expired", requires = "origin", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = switch)]
    pub reject_expired: Option<bool>,

    /// Refuse unexpired certificates
    #[arg(long, alias = "reject_unexpired", requires = "origin", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = switch)]
    pub reject_unexpired: Option<bool>,

    /// Required extended key usage: ServerAuth or Any [default: Any]
    #[arg(
        long,
        alias = "ext_key_usages",
        value_name = "EKU",
        requires = "origin"
    )]
    pub ext_key_usages: Option<String>,

    /// Refuse certificates with this extension; may be repeated
    #[arg(
        long,
        alias = "reject_extension",
        value_name = "OID",
        requires = "origin",
        value_delimiter = ','
    )]
    pub reject_extension: Vec<String>,

    /// Accept certificates that are signed with SHA-1 [default: true]
    #[arg(long, alias = "accept_sha1_signing_algorithms", requires = "origin", num_args = 0..=1, default_missing_value = "true", require_equals = true, value_parser = switch)]
    pub accept_sha1_signing_algorithms: Option<bool>,

    /// Verification of signatures: `fast`, or `general` with aws-lc-rs only [default: fast]
    #[arg(long, value_name = "HOW", requires = "origin")]
    pub verification: Option<String>,

    /// PEM file of the TLS certificate and its intermediates; without it, plain HTTP
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "origin")]
    pub tls_certificate: Option<PathBuf>,

    /// PEM file of the TLS key
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,

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
        let mut report = Report::on(None);
        let config = self.config(&mut report);
        (config, report)
    }

    fn config(&self, report: &mut Report) -> Option<Config> {
        let mut parse = Parse(report);
        let endpoint = self.http_endpoint.as_deref().unwrap_or("localhost:6962");
        let listen = parse.value("http-endpoint", endpoint, values::listen);
        let data = self.data(&mut parse);
        let checkpoints = self.lock(&mut parse, data.as_ref());
        let log = self.log(&mut parse, data);
        let tls = self.tls(&mut parse);
        let verification = self.verification.as_deref();
        let verification = verification
            .and_then(|text| parse.value("verification", text, |text| VERIFICATION.parse(text)));
        let http = self.limits(&mut parse);
        self.say_ignored(parse.0);
        let (checkpoints, logs) = (unplaced(checkpoints?), vec![log?]);
        let password = self.password_file();
        let password = password
            .as_ref()
            .map(|file| ("--checkpoints-password", file));
        super::distinct::not_published(&checkpoints, password, tls.as_ref(), &logs, parse.0);
        Some(Config {
            listen: vec![unplaced(listen?)],
            checkpoints,
            handover: None,
            tls,
            verification: verification.unwrap_or_default(),
            http,
            logs,
            written: Written::default(),
        })
    }

    fn lock(&self, parse: &mut Parse<'_>, data: Option<&DataPlace>) -> Option<LockPlace> {
        if let Some(text) = &self.checkpoints {
            let place = LockPlace::parse(text, Path::new(""));
            let place = parse.or_problem("checkpoints", place)?;
            return self.with_password(parse, place);
        }
        if let Some(place) = self.clouds.lock() {
            return parse.or_problem("db-host", place);
        }
        match data? {
            DataPlace::Directory(directory) => Some(LockPlace::Sqlite(beside(directory))),
            DataPlace::Bucket(_) => {
                parse.problem("checkpoints", NO_LOCK);
                None
            }
        }
    }

    /// Returns the TesseraCT server that the flags belong to, if they identify it.
    fn cloud(&self) -> Option<Cloud> {
        self.clouds.cloud().or_else(|| self.ignored.cloud())
    }

    fn data(&self, parse: &mut Parse<'_>) -> Option<DataPlace> {
        if let Some(text) = &self.bucket {
            let url = match (ObjectStoreConfig::is_url(text), self.cloud()) {
                (false, Some(cloud)) => cloud.bucket(text, |name| std::env::var(name).ok()),
                _ => text.clone(),
            };
            let config = parse.or_problem("bucket", ObjectStoreConfig::from_url(&url))?;
            return Some(DataPlace::Bucket(Box::new(config)));
        }
        let directory = parse.present("storage-dir", self.storage_dir.as_ref());
        Some(DataPlace::Directory(directory?.clone()))
    }

    fn tls(&self, parse: &mut Parse<'_>) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_certificate.as_ref().zip(self.tls_key.as_ref())?;
        if let Err(error) = crate::tls::load(certificate, key) {
            parse.problem("tls-certificate", format!("{error:#}"));
        }
        Some(TlsFiles {
            certificate: unplaced(certificate.clone()),
            key: unplaced(key.clone()),
        })
    }

    fn with_password(&self, parse: &mut Parse<'_>, place: LockPlace) -> Option<LockPlace> {
        let Some(source) = &self.checkpoints_password else {
            return Some(place);
        };
        let source = Secret::parse(source, Path::new(""));
        let source = parse.or_problem("checkpoints-password", source)?;
        let place = place::with_password(place, &source);
        parse.or_problem("checkpoints-password", place)
    }

    /// The file that has the password of the lock's server, or the credentials that fetch it.
    fn password_file(&self) -> Option<Located<PathBuf>> {
        let source = self.checkpoints_password.as_deref()?;
        let source = Secret::parse(source, Path::new("")).ok()?;
        source.private_file().map(|file| unplaced(file.to_owned()))
    }

    fn limits(&self, parse: &mut Parse<'_>) -> Limits {
        let mut limits = Limits::default();
        let bytes = self.max_cert_chain_bytes.as_deref();
        if let Some(bytes) = bytes.and_then(|text| {
            let number = values::number(MAXBODY.form.least, MAXBODY.form.most, "bytes");
            parse.value("max-cert-chain-bytes", text, number)
        }) {
            limits.body_bytes = bytes as usize;
        }
        limits
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

    /// Returns the log level of `--slog-level`.
    pub(crate) fn level(&self) -> Option<&'static str> {
        Some(match self.slog_level? {
            ..0 => "debug",
            0..4 => "info",
            4..8 => "warn",
            8.. => "error",
        })
    }

    fn key_source(&self) -> Option<String> {
        let variable = || std::env::var_os(KEY_VARIABLE).map(|_| KEY_SOURCE.to_owned());
        let named = given(&self.private_key).map(str::to_owned);
        named.or_else(|| self.clouds.key()).or_else(variable)
    }

    /// Reads the CCADB flags. TesseraCT accepts every root of a fetched report.
    fn ccadb(&self, parse: &mut Parse<'_>) -> Option<Ccadb> {
        let interval = self.roots_remote_fetch_interval.as_deref()?;
        let interval = parse.value("roots-remote-fetch-interval", interval, values::duration)?;
        let source = match &self.roots_remote_fetch_url[..] {
            [] => super::accept::CCADB_TRUSTED,
            [url] => url,
            _ => {
                let message = "is given more than once: only one report is read. Add other roots \
                               to --roots-pem-file";
                parse.problem("roots-remote-fetch-url", message);
                return None;
            }
        };
        (!interval.is_zero()).then(|| Ccadb {
            source: source.to_owned(),
            programme: CcadbProgramme::Testing,
        })
    }

    fn log(&self, parse: &mut Parse<'_>, data: Option<DataPlace>) -> Option<LogSettings> {
        let origin = self.origin.as_deref().unwrap_or_default();
        let prefix = parse.value("origin", origin, origin_prefix);
        let served = match (given(&self.path_prefix), &prefix) {
            (Some(path), Some(prefix)) => {
                parse.value("path-prefix", path, |path| at_path(prefix, path))
            }
            _ => prefix.clone(),
        };
        // Without --path_prefix, TesseraCT serves at the root, regardless of the origin's path.
        let root = match (given(&self.path_prefix), &prefix) {
            (None, Some(prefix)) => at_path(prefix, "").ok(),
            _ => None,
        };
        if given(&self.private_key).is_some() && self.clouds.key().is_some() {
            let message = "cannot be combined with --private-key: a log has one key";
            parse.problem("signer-private-key-secret-name", message);
        }
        let secret = self.key_source();
        let secret = parse.present("private-key", secret.as_deref());
        let secret = secret.and_then(|text| {
            let secret = Secret::parse(text, Path::new(""));
            parse.or_problem(
                "private-key",
                secret.map_err(|why| format!("`{text}` {why}")),
            )
        });
        let key = secret.as_ref().and_then(|secret| {
            let key = secret.read().map_err(|why| format!("{secret} {why}"));
            parse.or_problem("private-key", key)
        });
        let roots = self.roots(parse);
        let rounds = self.rounds(parse);
        let policy = self.policy(parse);
        let (prefix, served, data) = (prefix?, served?, data?);
        let within = data.directory().map(|it| it.join(".lucarne/cache"));
        let cache = self.cache.clone().or(within);
        let scrub = scrub::Keys::default().of(&data);
        Some(LogSettings {
            line: None,
            shortname: unplaced(short(prefix.origin())),
            description: prefix.origin().to_owned(),
            metadata: Default::default(),
            inception: None,
            origin: prefix.origin().to_owned(),
            submission: unplaced(served.clone()),
            monitoring: unplaced(served),
            also_at: root.filter(|root| *root != prefix),
            key: key?.into(),
            secret: secret.and_then(|secret| Some(unplaced(secret.private_file()?.to_owned()))),
            credentials: None,
            cache: unplaced(cache?),
            period: unplaced(rounds.period.unwrap_or_else(|| log::default_period(&data))),
            checkpoint_interval: rounds
                .idle
                .unwrap_or_else(|| log::default_checkpoint_interval(&data)),
            data: unplaced(data),
            roots: roots?,
            pool_size: unplaced(rounds.pool_size),
            lanes: LaneConfig::default(),
            journal: log::JOURNAL,
            read_cache: log::READ_CACHE,
            disk_cache: log::DISK_CACHE,
            rfc6962_reads: false,
            scrub,
            policy,
            known: Vec::new(),
            instances: None,
            clock: Clock::system(),
            written: Written::default(),
        })
    }

    fn roots(&self, parse: &mut Parse<'_>) -> Option<RootSources> {
        let ccadb = self.ccadb(parse);
        let pem = match &ccadb {
            None => parse.present("roots-pem-file", self.roots_pem_file.as_ref()),
            Some(_) => self.roots_pem_file.as_ref(),
        };
        if pem.is_none() && ccadb.is_none() {
            return None;
        }
        let refused = self.roots_reject_fingerprints.iter().filter_map(|text| {
            let read = |text: &str| text.parse().map_err(|_| NO_FINGERPRINT);
            let fingerprint = parse.value("roots-reject-fingerprints", text, read)?;
            Some(unplaced(RefusedRoots::One(fingerprint)))
        });
        let refused = refused.collect();
        Some(RootSources {
            pem: pem.cloned().map(unplaced),
            ccadb: ccadb.map(unplaced),
            refused,
            ..RootSources::default()
        })
    }

    fn rounds(&self, parse: &mut Parse<'_>) -> Rounds {
        let mut time = |flag, text: &Option<String>, key: &Key<Durations>| {
            let parser = |text: &str| key.form.parse_duration(text);
            parse.value(flag, text.as_deref()?, parser)
        };
        let period = &self.checkpoint_interval;
        let period = time("checkpoint-interval", period, &PERIOD);
        let idle = &self.checkpoint_republish_interval;
        let idle = time("checkpoint-republish-interval", idle, &CHECKPOINTINTERVAL);
        let pool = self.pushback_max_outstanding.as_deref();
        let pool = pool.and_then(|text| {
            parse.value("pushback-max-outstanding", text, |text| {
                POOLSIZE.parse(text)
            })
        });
        Rounds {
            period,
            idle,
            pool_size: pool.map_or(log::POOL_SIZE, log::pool_limit),
        }
    }

    fn policy(&self, parse: &mut Parse<'_>) -> Policy {
        let mut time = |flag, text: &Option<String>| {
            let text = given(text)?;
            parse.value(flag, text, values::time)
        };
        let not_after_start = time("not-after-start", &self.not_after_start);
        let not_after_limit = time("not-after-limit", &self.not_after_limit);
        if not_after_start >= not_after_limit
            && not_after_start.is_some()
            && not_after_limit.is_some()
        {
            parse.problem(
                "not-after-limit",
                "must be later than --not-after-start: no certificate fits into the interval",
            );
        }
        let usage = given(&self.ext_key_usages);
        let require = usage.and_then(|text| parse.value("ext-key-usages", text, require));
        let reject_extensions = self.reject_extension.iter().filter(|oid| !oid.is_empty());
        let reject_extensions = reject_extensions
            .filter_map(|text| parse.value("reject-extension", text, values::oid))
            .collect();
        Policy {
            // TesseraCT's default.
            require: require.unwrap_or(Require::Any),
            accept_sha1: self.accept_sha1_signing_algorithms.unwrap_or(true),
            reject_expired: self.reject_expired.unwrap_or(false),
            reject_unexpired: self.reject_unexpired.unwrap_or(false),
            reject_extensions,
            not_after_start,
            not_after_limit,
            max_chain: Policy::DEFAULT_MAX_CHAIN,
        }
    }
}

/// Settings of the sequencer.
struct Rounds {
    /// Period of rounds, if given.
    period: Option<Duration>,
    /// Checkpoint interval of an idle log, if given.
    idle: Option<Duration>,
    pool_size: usize,
}

/// Parser of flags, which reports problems by flag.
struct Parse<'r>(&'r mut Report);

impl Parse<'_> {
    fn problem(&mut self, flag: &str, message: impl Into<String>) {
        self.0.problem(None, format!("--{flag}"), message);
    }

    fn present<'f, T: ?Sized>(&mut self, flag: &str, value: Option<&'f T>) -> Option<&'f T> {
        if value.is_none() {
            self.problem(flag, "is missing; --origin requires it");
        }
        value
    }

    fn or_problem<T, E: Display>(&mut self, flag: &str, value: Result<T, E>) -> Option<T> {
        value
            .map_err(|why| self.problem(flag, why.to_string()))
            .ok()
    }

    fn value<T, E: Display>(
        &mut self,
        flag: &str,
        text: &str,
        parser: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = parser(text).map_err(|why| format!("`{text}` {why}"));
        self.or_problem(flag, value)
    }
}

fn unplaced<T>(value: T) -> Located<T> {
    Located { value, line: None }
}

/// Returns the default path of the lock. The lock must be outside the data, because one backup
/// would roll back both.
fn beside(directory: &Path) -> PathBuf {
    let mut name = directory.to_path_buf().into_os_string();
    name.push(".checkpoints.db");
    PathBuf::from(name)
}

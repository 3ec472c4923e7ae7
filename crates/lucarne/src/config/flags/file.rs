//! The configuration file that the flags describe.

use std::path::Path;

use lucarne_ct::Fingerprint;
use lucarne_net::without_secrets;
use lucarne_settings::values;
use lucarne_settings::{Report, Value};
use lucarne_storage::ObjectStoreConfig;

use super::Flags;
use super::tree::{Map, refused, respelled, scalar};
use crate::config::go::{at_path, given, origin_prefix, require, short};
use crate::config::keys::http::KEYS;
use crate::config::place::DataPlace;
use crate::config::{Config, accept, rounds};
use crate::prefix::Prefix;

/// Environment variable with TesseraCT's key, if no flag names the key.
const KEY_VARIABLE: &str = "LOG_PRIVATE_KEY";
/// The same source, in the format of `secret`.
const KEY_SOURCE: &str = "env:LOG_PRIVATE_KEY";

const MISSING: &str = "is missing; --origin requires it";
const NO_LOCK: &str = "is missing: the lock of a log in a bucket, such as mysql://…, \
                       postgres://…, or s3://bucket/lock";
const NO_FINGERPRINT: &str = "is not a SHA-256 fingerprint (64 hexadecimal digits)";

/// The prefixes of the log.
struct Prefixes {
    /// The prefix that the origin names.
    origin: Prefix,
    /// The prefix of submission and monitoring.
    served: Prefix,
    /// A second prefix, at the root of the host.
    also_at: Option<Prefix>,
}

impl Flags {
    /// Reads the flags as a file, and reports all problems.
    pub(super) fn config(&self, report: &mut Report) -> Option<Config> {
        let prefixes = self.prefixes(report);
        let bucket = self.bucket_place(report);
        let mut log = Map::default();
        let text = prefixes
            .as_ref()
            .map(|it| (short(it.origin.origin()), &it.served.url));
        let [name, url] = match &text {
            Some((name, url)) => [scalar(name), scalar(url)],
            None => [Value::Unset, Value::Unset],
        };
        log.add("shortname", Some(name));
        log.add("submissionprefix", Some(url));
        log.add("secret", Some(self.key(report)));
        if bucket.is_none() {
            log.add("localdirectory", Some(self.directory(report)));
        }
        log.text("cache", self.cache.as_deref());
        self.add_roots(&mut log, report);
        self.add_policy(&mut log, report);
        self.add_rounds(&mut log, report);
        let mut top = self.process(report);
        top.add("logs", Some(Value::List(vec![log.node()])));
        let config = Config::of_tree(&top.node(), Path::new(""), bucket.as_ref(), report);
        let (mut config, prefixes) = (config?, prefixes?);
        for log in &mut config.logs {
            log.origin = prefixes.origin.origin().to_owned();
            log.description.clone_from(&log.origin);
            log.also_at.clone_from(&prefixes.also_at);
        }
        Some(config)
    }

    fn process(&self, report: &mut Report) -> Map {
        let mut top = Map::default();
        let endpoint = self.http_endpoint.as_deref().unwrap_or("localhost:6962");
        top.text("listen", Some(endpoint));
        let (flag, lock) = self.lock(report);
        top.add_from(flag, "checkpoints", lock);
        top.text("checkpointspassword", self.checkpoints_password.as_deref());
        top.text("verification", self.verification.as_deref());
        let mut http = Map::default();
        if let Some(text) = &self.max_cert_chain_bytes {
            let form = KEYS.maxbody.form;
            let bytes = values::number(form.least, form.most, "bytes");
            let size = |text: &str| bytes(text).map(|bytes| format!("{bytes}B"));
            http.add("maxbody", Some(respelled(report, "maxbody", text, size)));
        }
        top.add("http", http.value());
        let mut tls = Map::default();
        tls.text("certificate", self.tls_certificate.as_deref());
        tls.text("key", self.tls_key.as_deref());
        top.add("tls", tls.value());
        top
    }

    fn prefixes(&self, report: &mut Report) -> Option<Prefixes> {
        let mut parse = |flag, result: Result<Prefix, String>| match result {
            Ok(prefix) => Some(prefix),
            Err(why) => {
                refused(report, flag, why);
                None
            }
        };
        let text = self.origin.as_deref().unwrap_or_default();
        let origin =
            origin_prefix(text).map_err(|why| format!("`{}` {why}", without_secrets(text)));
        let origin = parse("origin", origin)?;
        let path = given(&self.path_prefix);
        let served = match path {
            Some(path) => {
                let prefix = at_path(&origin, path);
                let prefix = prefix.map_err(|why| format!("`{}` {why}", without_secrets(path)));
                parse("path-prefix", prefix)?
            }
            None => origin.clone(),
        };
        // Without --path_prefix, TesseraCT serves at the root, regardless of the origin's path.
        let root = match path {
            None => at_path(&origin, "").ok(),
            Some(_) => None,
        };
        let also_at = root.filter(|root| *root != origin);
        Some(Prefixes {
            origin,
            served,
            also_at,
        })
    }

    /// Returns the source of the key.
    fn key(&self, report: &mut Report) -> Value {
        let (named, of_cloud) = (given(&self.private_key), self.clouds.key());
        if named.is_some() && of_cloud.is_some() {
            let message = "cannot be combined with --private-key: a log has one key";
            refused(report, "signer-private-key-secret-name", message);
        }
        let variable = || std::env::var_os(KEY_VARIABLE).map(|_| KEY_SOURCE.to_owned());
        let source = named.map(str::to_owned).or(of_cloud).or_else(variable);
        match source {
            Some(source) => Value::Scalar(source),
            None => refused(report, "private-key", MISSING),
        }
    }

    fn directory(&self, report: &mut Report) -> Value {
        match &self.storage_dir {
            Some(directory) => scalar(directory),
            // The problem of an invalid bucket is reported already.
            None if self.bucket.is_some() => Value::Unset,
            None => refused(report, "storage-dir", MISSING),
        }
    }

    fn bucket_place(&self, report: &mut Report) -> Option<DataPlace> {
        let text = self.bucket.as_ref()?;
        let cloud = self.clouds.cloud().or_else(|| self.ignored.cloud());
        let url = match (ObjectStoreConfig::is_url(text), cloud) {
            (false, Some(cloud)) => cloud.bucket(text, |name| std::env::var(name).ok()),
            _ => text.clone(),
        };
        match ObjectStoreConfig::from_url(&url) {
            Ok(config) => Some(DataPlace::Bucket(Box::new(config))),
            Err(why) => {
                refused(report, "bucket", why.to_string());
                None
            }
        }
    }

    /// Returns the flag with the place of the lock, and the place. The default is beside the data,
    /// because one backup would roll back both.
    fn lock(&self, report: &mut Report) -> (&'static str, Value) {
        if let Some(text) = &self.checkpoints {
            return ("checkpoints", scalar(text));
        }
        if let Some(url) = self.clouds.lock() {
            let url = url.map(Value::Scalar);
            let url = url.unwrap_or_else(|why| refused(report, "db-host", why.to_string()));
            return ("db-host", url);
        }
        let place = match (&self.bucket, &self.storage_dir) {
            (Some(_), _) => refused(report, "checkpoints", NO_LOCK),
            (None, Some(directory)) => Value::Scalar(format!("{directory}.checkpoints.db")),
            (None, None) => Value::Unset,
        };
        ("checkpoints", place)
    }

    fn add_roots(&self, log: &mut Map, report: &mut Report) {
        let ccadb = self.ccadb(report);
        let file = match (&self.roots_pem_file, ccadb) {
            (None, None) => Some(refused(report, "roots-pem-file", MISSING)),
            (file, _) => file.as_deref().map(scalar),
        };
        log.add("roots", file);
        // TesseraCT accepts every root of a fetched report.
        log.text("ccadbroots", ccadb.map(|_| "testing"));
        log.text("rootsurl", ccadb);
        let key = "refusedroots";
        let fingerprint = |text: &str| match text.parse::<Fingerprint>() {
            Ok(_) => Ok(text.to_owned()),
            Err(_) => Err(NO_FINGERPRINT),
        };
        let fingerprints = self.roots_reject_fingerprints.iter();
        let fingerprints = fingerprints.map(|text| respelled(report, key, text, fingerprint));
        log.list(key, fingerprints.collect());
    }

    /// Returns the source of CCADB's report, if the flags enable it.
    fn ccadb(&self, report: &mut Report) -> Option<&str> {
        let interval = self.roots_remote_fetch_interval.as_deref()?;
        let interval = match values::duration(interval) {
            Ok(interval) => interval,
            Err(why) => {
                let message = format!("`{}` {why}", without_secrets(interval));
                refused(report, "roots-remote-fetch-interval", message);
                return None;
            }
        };
        let source = match &self.roots_remote_fetch_url[..] {
            [] => accept::CCADB_TRUSTED,
            [url] => url,
            _ => {
                let message = "is given more than once: only one report is read. Add other roots \
                               to --roots-pem-file";
                refused(report, "roots-remote-fetch-url", message);
                return None;
            }
        };
        (!interval.is_zero()).then_some(source)
    }

    fn add_policy(&self, log: &mut Map, report: &mut Report) {
        log.text("notafterstart", given(&self.not_after_start));
        log.text("notafterlimit", given(&self.not_after_limit));
        // TesseraCT's default.
        let usage = given(&self.ext_key_usages).unwrap_or("Any");
        log.add(
            "require",
            Some(respelled(report, "require", usage, require)),
        );
        let oids = self.reject_extension.iter().filter(|oid| !oid.is_empty());
        let oids = oids.map(|oid| scalar(oid)).collect();
        log.list("reject_extensions", oids);
        for (key, switch) in [
            ("accept_sha1", self.accept_sha1_signing_algorithms),
            ("reject_expired", self.reject_expired),
            ("reject_unexpired", self.reject_unexpired),
        ] {
            log.add(key, switch.map(|switch| Value::Scalar(switch.to_string())));
        }
    }

    fn add_rounds(&self, log: &mut Map, report: &mut Report) {
        log.text("poolsize", self.pushback_max_outstanding.as_deref());
        let keys = &rounds::KEYS;
        for (key, text) in [
            (&keys.period, &self.period),
            (&keys.checkpointinterval, &self.max_checkpoint_age),
        ] {
            // Unlike a key, a flag of Go has no number without a unit.
            let duration = |text: &str| {
                let duration = key.form.parse_duration(text);
                duration.map(|_| text.to_owned())
            };
            let text = text.as_deref();
            let value = text.map(|text| respelled(report, key.name(), text, duration));
            log.add(key.name(), value);
        }
    }
}

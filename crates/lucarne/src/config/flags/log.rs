//! Flags for the log itself.

use std::path::Path;

use lucarne_ct::LogKey;
use lucarne_log::Clock;

use super::Flags;
use super::parse::{Parse, unplaced};
use crate::config::go::{at_path, given, origin_prefix, short};
use crate::config::log::LogSettings;
use crate::config::place::DataPlace;
use crate::config::secret::Secret;
use crate::config::written::Written;
use crate::prefix::Prefix;

/// Environment variable with TesseraCT's key, if no flag names the key.
const KEY_VARIABLE: &str = "LOG_PRIVATE_KEY";
/// The same source, in the format of `secret`.
const KEY_SOURCE: &str = "env:LOG_PRIVATE_KEY";

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
    pub(super) fn log(
        &self,
        parse: &mut Parse<'_>,
        data: Option<DataPlace>,
    ) -> Option<LogSettings> {
        let prefixes = self.prefixes(parse);
        let (secret, key) = self.key(parse);
        let roots = self.roots(parse);
        let rounds = self.rounds(parse, data.as_ref());
        let policy = self.policy(parse);
        let Prefixes {
            origin,
            served,
            also_at,
        } = prefixes?;
        let data = data?;
        let within = data.directory().map(|it| it.join(".lucarne/cache"));
        let cache = self.cache.clone().or(within);
        Some(LogSettings {
            line: None,
            shortname: unplaced(short(origin.origin())),
            description: origin.origin().to_owned(),
            metadata: Default::default(),
            inception: None,
            origin: origin.origin().to_owned(),
            submission: unplaced(served.clone()),
            monitoring: unplaced(served),
            also_at,
            key: key?.into(),
            secret: secret.and_then(|secret| Some(unplaced(secret.private_file()?.to_owned()))),
            credentials: None,
            cache: unplaced(cache?),
            rounds,
            data: unplaced(data),
            roots: roots?,
            policy,
            known: Vec::new(),
            instances: None,
            clock: Clock::system(),
            written: Written::default(),
        })
    }

    fn prefixes(&self, parse: &mut Parse<'_>) -> Option<Prefixes> {
        let origin = self.origin.as_deref().unwrap_or_default();
        let origin = parse.value("origin", origin, origin_prefix)?;
        let path = given(&self.path_prefix);
        let served = match path {
            Some(path) => parse.value("path-prefix", path, |path| at_path(&origin, path))?,
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

    /// Reads the key of the log, and returns its source, too.
    fn key(&self, parse: &mut Parse<'_>) -> (Option<Secret>, Option<LogKey>) {
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
        (secret, key)
    }

    fn key_source(&self) -> Option<String> {
        let variable = || std::env::var_os(KEY_VARIABLE).map(|_| KEY_SOURCE.to_owned());
        let named = given(&self.private_key).map(str::to_owned);
        named.or_else(|| self.clouds.key()).or_else(variable)
    }
}

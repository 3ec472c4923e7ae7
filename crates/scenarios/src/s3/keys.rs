//! Keys for signing requests.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lucarne_load::PrepareError;
use parking_lot::Mutex;
use rusty_s3::Credentials;

use super::options::S3Options;
use crate::connection_options::wrong;

/// Environment variables with the key, its secret and its token.
const ENVIRONMENT: [&str; 3] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];

/// Returns the keys of each store from the options or the environment. Returns an empty list if the
/// keys must come from a profile or the machine's role.
///
/// # Errors
/// If a part of a key is missing, or if the number of keys is wrong.
pub(super) fn given(
    options: &S3Options,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Credentials>, PrepareError> {
    let stores = options.endpoint.len();
    let lists = [
        (&options.access_key, "access-key"),
        (&options.secret_key, "secret-key"),
        (&options.session_token, "session-token"),
    ];
    let mut parts = Vec::with_capacity(lists.len());
    for (values, flag) in lists {
        parts.push(per_store(values, flag, stores)?);
    }
    let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
    let named = options
        .profile
        .as_ref()
        .is_some_and(|name| !name.is_empty());
    if parts.iter().all(Option::is_none) && (named || variable(ENVIRONMENT[0]).is_none()) {
        return Ok(Vec::new());
    }
    let of_environment = parts[0].is_none();
    let mut value = |part: usize| {
        let given = parts[part].take();
        given.or_else(|| Some(vec![variable(ENVIRONMENT[part])?; stores]))
    };
    let missing =
        |flag: &str, name: &str| wrong(format!("no signing key: use `--{flag}` or set {name}"));
    let keys = value(0).ok_or_else(|| missing("access-key", ENVIRONMENT[0]))?;
    let secrets = value(1).ok_or_else(|| missing("secret-key", ENVIRONMENT[1]))?;
    // A token belongs to the key from the same source.
    let tokens = if of_environment {
        value(2)
    } else {
        parts[2].take()
    };
    let pairs = keys.into_iter().zip(secrets).enumerate();
    let signed = pairs.map(|(store, (key, secret))| match &tokens {
        Some(tokens) => Credentials::new_with_token(key, secret, tokens[store].clone()),
        None => Credentials::new(key, secret),
    });
    Ok(signed.collect())
}

/// Returns a value for each store from one common value or one for each. Returns `None` without
/// values.
fn per_store(
    values: &[String],
    flag: &str,
    stores: usize,
) -> Result<Option<Vec<String>>, PrepareError> {
    match values {
        [] => Ok(None),
        // `${NAME:-}` in a plan can give an empty text.
        [one] if one.is_empty() => Ok(None),
        [one] => Ok(Some(vec![one.clone(); stores])),
        many if many.len() == stores => Ok(Some(many.to_vec())),
        many => Err(wrong(format!(
            "`--{flag}` is given {} times for {stores} stores: give one, or one for each",
            many.len()
        ))),
    }
}

/// Keys that requests are signed with.
#[derive(Debug)]
pub(super) enum Keys {
    /// Keys that stay the same.
    Given(Arc<Credentials>),
    /// Keys of a source, which renews them.
    #[cfg_attr(not(feature = "object-stores"), allow(dead_code))]
    Found(FoundKeys),
}

/// Source of keys, with the last keys that it returned.
#[derive(Debug)]
pub(super) struct FoundKeys {
    source: Box<dyn KeySource>,
    last: Mutex<Arc<Credentials>>,
}

/// A source of keys that renews expiring keys.
#[async_trait]
pub(super) trait KeySource: fmt::Debug + Send + Sync {
    /// Returns the keys that are valid now.
    async fn keys(&self) -> Result<Credentials, PrepareError>;
}

impl Keys {
    /// Returns the keys of a source.
    ///
    /// # Errors
    /// If the source has no keys.
    #[cfg_attr(not(feature = "object-stores"), allow(dead_code))]
    async fn of(source: Box<dyn KeySource>) -> Result<Self, PrepareError> {
        let last = Mutex::new(Arc::new(source.keys().await?));
        Ok(Keys::Found(FoundKeys { source, last }))
    }

    /// Returns the keys for a request. If the keys cannot be renewed, returns the last keys, which
    /// the store refuses once they have expired.
    pub(super) async fn now(&self) -> Arc<Credentials> {
        match self {
            Keys::Given(keys) => keys.clone(),
            Keys::Found(found) => {
                let keys = found.source.keys().await.map(Arc::new);
                let mut last = found.last.lock();
                if let Ok(keys) = keys {
                    *last = keys;
                }
                last.clone()
            }
        }
    }
}

#[cfg(feature = "object-stores")]
#[async_trait]
impl KeySource for lucarne_storage::object::AwsKeySource {
    async fn keys(&self) -> Result<Credentials, PrepareError> {
        let keys = self.keys().await.map_err(|error| none(&error))?;
        Ok(match keys.session_token {
            Some(token) => Credentials::new_with_token(keys.access_key, keys.secret_key, token),
            None => Credentials::new(keys.access_key, keys.secret_key),
        })
    }
}

#[cfg(feature = "object-stores")]
fn none(error: &dyn fmt::Display) -> PrepareError {
    wrong(format!(
        "no signing key: {error}: use `--access-key` and `--secret-key`, set \
         AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a `--profile`"
    ))
}

/// Finds keys in the same places as the stores of a log: in a profile, or at the service that
/// provides the role of this machine.
///
/// # Errors
/// If no key was found.
#[cfg(feature = "object-stores")]
pub(super) async fn find(profile: Option<&str>) -> Result<Keys, PrepareError> {
    let source = lucarne_storage::object::AwsKeySource::find(profile);
    Keys::of(Box::new(source.map_err(|error| none(&error))?)).await
}

/// Looks up keys in a build without object stores.
///
/// # Errors
/// Always, because this build has no object stores.
#[cfg(not(feature = "object-stores"))]
pub(super) async fn find(_profile: Option<&str>) -> Result<Keys, PrepareError> {
    Err(wrong(
        "no signing key: use `--access-key` and `--secret-key`, or set \
         AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (this build has no profiles)",
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    fn options(access: &[&str], secret: &[&str], token: &[&str]) -> S3Options {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        S3Options {
            endpoint: texts(&["http://a/", "http://b/"]),
            access_key: texts(access),
            secret_key: texts(secret),
            session_token: texts(token),
            ..S3Options::default()
        }
    }

    /// Returns key, secret and token of each store; the environment has all three.
    fn keys(options: &S3Options) -> Result<Vec<String>, PrepareError> {
        let environment = |name: &str| Some(name.replace("AWS_", "").to_lowercase());
        let keys = given(options, &environment)?;
        let shown = keys
            .iter()
            .map(|it| format!("{} {} {:?}", it.key(), it.secret(), it.token()));
        Ok(shown.collect())
    }

    #[test]
    fn a_token_stays_with_its_key() {
        let of_environment = "access_key_id secret_access_key Some(\"session_token\")";
        assert_eq!(keys(&options(&[], &[], &[])).unwrap(), [of_environment; 2]);
        assert_eq!(
            keys(&options(&["a"], &["s"], &[])).unwrap(),
            ["a s None"; 2]
        );
        assert_eq!(
            keys(&options(&["a", "b"], &["s", "t"], &["x", "y"])).unwrap(),
            ["a s Some(\"x\")", "b t Some(\"y\")"]
        );
        assert_eq!(
            keys(&options(&["a"], &[""], &[])).unwrap(),
            ["a secret_access_key None"; 2]
        );
        assert!(keys(&options(&["a"], &["s", "t", "u"], &[])).is_err());
    }

    #[test]
    fn keys_are_found_elsewhere_only_if_none_are_given() {
        let nothing = |_: &str| None;
        assert!(given(&options(&[], &[], &[]), &nothing).unwrap().is_empty());
        assert!(given(&options(&["a"], &[], &[]), &nothing).is_err());
        let profile = S3Options {
            profile: Some("ct".into()),
            ..options(&[], &[], &[])
        };
        assert_eq!(keys(&profile).unwrap(), [""; 0]);
    }

    /// A source that returns three keys, and then fails.
    #[derive(Debug, Default)]
    struct Role(AtomicU64);

    #[async_trait]
    impl KeySource for Role {
        async fn keys(&self) -> Result<Credentials, PrepareError> {
            match self.0.fetch_add(1, Relaxed) {
                time @ 0..3 => Ok(Credentials::new(time.to_string(), "secret")),
                _ => Err(wrong("the service is away")),
            }
        }
    }

    #[tokio::test]
    async fn keys_that_expire_are_renewed() {
        let keys = Keys::of(Box::new(Role::default())).await.unwrap();
        for expected in ["1", "2", "2", "2"] {
            assert_eq!(keys.now().await.key(), expected);
        }
        assert!(Keys::of(Box::new(Role(4.into()))).await.is_err());
    }
}

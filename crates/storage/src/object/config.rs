//! The configuration of an object store: the bucket, its form as one URL, and the timeouts of
//! requests.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::{AssetError, path};

/// Example URLs of each kind, for messages.
const EXAMPLES: &str = "s3://bucket/prefix?region=eu-central-1, \
     s3://bucket/prefix?endpoint=https://minio.example:9000, gs://bucket/prefix or \
     az://container/prefix?account=name";

/// The location of the objects of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStoreConfig {
    /// The bucket.
    pub bucket: Bucket,
    /// Prefix of every key, character for character, like Sunlight's `s3keyprefix`: `2026h1/`,
    /// including the slash. Empty if the log owns the whole bucket.
    pub key_prefix: String,
    /// Timeouts and retries of requests.
    pub policy: RequestPolicy,
    /// Maximum number of concurrent requests of one call.
    pub parallel: usize,
}

impl ObjectStoreConfig {
    /// Creates a configuration with the default timeouts and 32 concurrent requests.
    pub fn new(bucket: Bucket, key_prefix: impl Into<String>) -> Self {
        Self {
            bucket,
            key_prefix: key_prefix.into(),
            policy: RequestPolicy::default(),
            parallel: 32,
        }
    }

    /// Returns `true` if `text` has the scheme of a bucket URL.
    pub fn is_url(text: &str) -> bool {
        ["s3://", "gs://", "az://"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
    }

    /// Parses one of these URLs:
    ///
    /// - `s3://bucket/prefix`, with `?region=`, `endpoint=`, `style=path` or `virtual`, `profile=`;
    /// - `gs://bucket/prefix`, with `?endpoint=`, `credentials=` (a file, or `none`);
    /// - `az://container/prefix`, with `?account=`, `endpoint=`.
    ///
    /// An endpoint may be `http://`, because the user wrote it explicitly. The prefix is a folder:
    /// a slash is added at its end.
    ///
    /// # Errors
    ///
    /// [`AssetError::Configuration`]. The message has no secrets.
    pub fn from_url(text: &str) -> Result<Self, AssetError> {
        let malformed = || configuration(format!("not a bucket URL: write {EXAMPLES}"));
        let url = Url::parse(text).map_err(|_| malformed())?;
        if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
            return Err(configuration(
                "a bucket URL must not have a user name, password or port. Put credentials into \
                 the environment, and a server into `?endpoint=…`",
            ));
        }
        let name = url.host_str().ok_or_else(malformed)?.to_owned();
        let mut parameters = Parameters::of(&url);
        let bucket = match url.scheme() {
            "s3" => Bucket::S3(S3 {
                region: parameters.take("region"),
                bucket: name,
                endpoint: parameters.take("endpoint"),
                virtual_hosted: parameters.style()?,
                allow_http: true,
                profile: parameters.take("profile"),
                keys: None,
            }),
            "gs" => {
                let (anonymous, credentials) = credentials(parameters.take("credentials"));
                Bucket::Gcs(Gcs {
                    bucket: name,
                    endpoint: parameters.take("endpoint"),
                    allow_http: true,
                    anonymous,
                    credentials,
                })
            }
            "az" => Bucket::Azure(Azure {
                account: parameters.take("account"),
                container: name,
                endpoint: parameters.take("endpoint"),
                allow_http: true,
                key: None,
            }),
            _ => return Err(malformed()),
        };
        parameters.finish()?;
        let prefix = url.path().trim_matches('/');
        let prefix = match prefix {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let config = Self::new(bucket, prefix);
        config.validate()?;
        Ok(config)
    }

    /// Returns a text that identifies the bucket: kind, server, name. Different buckets have
    /// different texts.
    pub fn bucket_identity(&self) -> String {
        let of = |kind: &str, place: Option<&str>, bucket: &str| {
            let place = place.unwrap_or_default().trim_end_matches('/');
            format!("{kind} {place} {bucket}")
        };
        match &self.bucket {
            Bucket::S3(s3) => of("s3", s3.endpoint.as_deref(), &s3.bucket),
            Bucket::Gcs(gcs) => of("gs", gcs.endpoint.as_deref(), &gcs.bucket),
            Bucket::Azure(azure) => {
                let place = azure.endpoint.as_ref().or(azure.account.as_ref());
                of("az", place.map(String::as_str), &azure.container)
            }
        }
    }

    /// Checks the prefix: keys with this prefix must be listed exactly as they were put, so the
    /// store's client must not rewrite them.
    pub(super) fn check_prefix(&self) -> Result<(), AssetError> {
        let prefix = &self.key_prefix;
        let plain =
            prefix.is_empty() || path::check(prefix.strip_suffix('/').unwrap_or(prefix)).is_ok();
        if plain && prefix.len() <= 256 {
            return Ok(());
        }
        Err(configuration(format!(
            "invalid key prefix {prefix:?}: expected parts of letters, digits, `-`, `_` and `.`, \
             separated by `/`, that do not begin with a dot"
        )))
    }

    /// Returns the location for messages: the bucket, the prefix, and the server unless it is the
    /// default. The text has no secrets.
    pub fn location(&self) -> String {
        let prefix = &self.key_prefix;
        let (place, endpoint) = match &self.bucket {
            Bucket::S3(s3) => (format!("s3://{}/{prefix}", s3.bucket), &s3.endpoint),
            Bucket::Gcs(gcs) => (format!("gs://{}/{prefix}", gcs.bucket), &gcs.endpoint),
            Bucket::Azure(azure) => {
                let place = format!("az://{}/{prefix}", azure.container);
                let account = azure.account.as_ref();
                let place = match account {
                    Some(account) => format!("{place} of account {account}"),
                    None => place,
                };
                (place, &azure.endpoint)
            }
        };
        match endpoint {
            Some(endpoint) => format!("{place} at {endpoint}"),
            None => place,
        }
    }
}

/// A bucket of a cloud provider, or of a server with the same protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// Amazon S3, MinIO, versitygw, Ceph, …
    S3(S3),
    /// Google Cloud Storage.
    Gcs(Gcs),
    /// Azure Blob Storage.
    Azure(Azure),
}

/// A bucket in S3.
///
/// Without [`keys`](Self::keys), credentials come from the sources of the AWS tools:
/// `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` (`AWS_SESSION_TOKEN`), a web identity token, a
/// profile of `~/.aws/credentials`, a container's role, the instance's role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3 {
    /// The region; `None` uses the first of these that is set: the region of the profile with the
    /// used keys, `AWS_REGION`, `AWS_DEFAULT_REGION`, `us-east-1`.
    pub region: Option<String>,
    /// The name of the bucket.
    pub bucket: String,
    /// URL of the server if it is not Amazon's: `https://minio.example:9000`.
    pub endpoint: Option<String>,
    /// Put the bucket into the host name of the `endpoint` instead of the path.
    pub virtual_hosted: bool,
    /// Allow an `http://` endpoint. Anyone on the network path can read and alter its traffic.
    pub allow_http: bool,
    /// A profile of `~/.aws/credentials` and `~/.aws/config`; `None` uses `AWS_PROFILE`, or
    /// `default` if the environment has no other keys.
    pub profile: Option<String>,
    /// Explicit keys; `None` uses the environment.
    pub keys: Option<S3Keys>,
}

/// An access key of S3.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Keys {
    /// Name of the key, which is not secret.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
}

impl fmt::Debug for S3Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Keys({}, …)", self.access_key)
    }
}

/// A bucket in Google Cloud Storage.
///
/// Without a file in `credentials`, the credentials come from `GOOGLE_APPLICATION_CREDENTIALS`,
/// from the file of `gcloud`, or from the instance's service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gcs {
    /// The name of the bucket.
    pub bucket: String,
    /// URL of the server if it is not Google's, such as an emulator.
    pub endpoint: Option<String>,
    /// Allow an `http://` endpoint.
    pub allow_http: bool,
    /// Send no credentials, for emulators.
    pub anonymous: bool,
    /// Path of a file with application credentials.
    pub credentials: Option<PathBuf>,
}

/// A container of an Azure storage account.
///
/// Without `key`, credentials come from `AZURE_STORAGE_ACCOUNT_KEY` and related variables, from a
/// workload identity, or from the managed identity.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Azure {
    /// The storage account; `None` uses `AZURE_STORAGE_ACCOUNT_NAME`.
    pub account: Option<String>,
    /// The name of the container.
    pub container: String,
    /// URL of the server if it is not Microsoft's.
    pub endpoint: Option<String>,
    /// Allow an `http://` endpoint.
    pub allow_http: bool,
    /// Key of the account.
    pub key: Option<String>,
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Azure({:?}, {:?}, …)", self.account, self.container)
    }
}

/// Timeouts and retries of requests. The defaults fit a round: if the store does not respond, the
/// round fails within about fifteen seconds. The log then responds with 503 and tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPolicy {
    /// Timeout of one request with its response, plus one second for each MiB transferred.
    pub request: Duration,
    /// Delay after which a repeatable request without a response is sent a second time,
    /// concurrently with the first; `None` disables this. At most one request in ten is sent twice.
    pub hedge: Option<Duration>,
    /// Maximum number of retries of a failed request.
    pub retries: usize,
    /// Time after the first attempt beyond which no retry starts.
    pub retrying: Duration,
    /// Timeout of a call of a lock in a bucket, including its retries.
    pub lock_call: Duration,
}

impl Default for RequestPolicy {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(5),
            hedge: Some(Duration::from_millis(250)),
            retries: 5,
            retrying: Duration::from_secs(10),
            lock_call: Duration::from_secs(10),
        }
    }
}

/// Parses `none` or a file; `None` leaves the choice to the environment.
fn credentials(text: Option<String>) -> (bool, Option<PathBuf>) {
    match text {
        Some(text) if text == "none" => (true, None),
        text => (false, text.map(PathBuf::from)),
    }
}

/// The query of the URL. Every parameter must be known.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn of(url: &Url) -> Self {
        let pairs = url.query_pairs().into_owned();
        Self(pairs.collect())
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(place).1)
    }

    /// Parses `style`; returns `true` if the bucket is part of the host name.
    fn style(&mut self) -> Result<bool, AssetError> {
        match self.take("style").as_deref() {
            None | Some("path") => Ok(false),
            Some("virtual") => Ok(true),
            Some(_) => Err(configuration("`style` must be `path` or `virtual`")),
        }
    }

    fn finish(self) -> Result<(), AssetError> {
        match self.0.first() {
            None => Ok(()),
            Some((unknown, _)) => Err(configuration(format!(
                "unknown or repeated parameter `{unknown}`: write {EXAMPLES}"
            ))),
        }
    }
}

pub(super) fn configuration(problem: impl Into<String>) -> AssetError {
    AssetError::Configuration {
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn s3(endpoint: Option<&str>) -> S3 {
        S3 {
            bucket: "logs".into(),
            endpoint: endpoint.map(Into::into),
            keys: Some(S3Keys {
                access_key: "AKIA".into(),
                secret_key: "secret-of-ours".into(),
            }),
            ..S3::default()
        }
    }

    fn problem(s3: S3) -> String {
        let config = ObjectStoreConfig::new(Bucket::S3(s3), "");
        let connected = config.connect(Arc::default());
        connected.err().unwrap().to_string()
    }

    #[test]
    fn names_that_no_bucket_has_are_refused_in_words() {
        let named = |bucket: &str| S3 {
            bucket: bucket.into(),
            ..s3(None)
        };
        let said = problem(named("ab"));
        assert!(
            said.contains("\"ab\" is not the name of a bucket: names have at least 3"),
            "{said}"
        );
        let said = problem(named("logs/2026"));
        assert!(said.contains("it has a slash"), "{said}");
    }

    #[test]
    fn secrets_are_neither_shown_nor_accepted_where_they_would_be() {
        let shown = format!("{:?}", s3(None));
        assert!(
            shown.contains("AKIA") && !shown.contains("secret"),
            "{shown}"
        );
        let azure = Azure {
            key: Some("secret-of-ours".into()),
            ..Azure::default()
        };
        assert!(!format!("{azure:?}").contains("secret"));
        for endpoint in [
            "https://me:secret@host",
            "https://host/?sig=secret",
            "secret",
        ] {
            let problem = problem(s3(Some(endpoint)));
            assert!(!problem.contains("secret"), "{problem}");
        }
    }

    #[test]
    fn what_is_no_bucket_or_endpoint_is_refused_with_an_explanation() {
        assert!(problem(s3(Some("http://host"))).contains("plain HTTP is not allowed"));
        assert!(problem(s3(Some("s3://host"))).contains("https://"));
        let nameless = S3 {
            bucket: String::new(),
            ..s3(None)
        };
        assert!(problem(nameless).contains("bucket"));
    }

    #[test]
    fn locations_say_where() {
        let config = |bucket| ObjectStoreConfig::new(bucket, "2026h1/").location();
        let found = config(Bucket::S3(s3(Some("https://minio.example"))));
        assert_eq!(found, "s3://logs/2026h1/ at https://minio.example");
        let gcs = Gcs {
            bucket: "logs".into(),
            ..Gcs::default()
        };
        assert_eq!(config(Bucket::Gcs(gcs)), "gs://logs/2026h1/");
    }

    #[test]
    fn each_kind_has_its_url() {
        let read = |url| ObjectStoreConfig::from_url(url).unwrap();
        let s3 = read("s3://logs/locks?endpoint=http://127.0.0.1:9000&region=eu&style=path");
        assert_eq!(s3.key_prefix, "locks/");
        assert_eq!(s3.location(), "s3://logs/locks/ at http://127.0.0.1:9000");
        let gcs = read("gs://logs?endpoint=http://localhost:4443&credentials=none");
        assert!(matches!(&gcs.bucket, Bucket::Gcs(gcs) if gcs.anonymous));
        let azure = read("az://logs/a/b/?account=lucarne");
        assert_eq!(azure.key_prefix, "a/b/");
        assert_eq!(azure.bucket_identity(), "az lucarne logs");
    }

    #[test]
    fn what_is_no_url_of_a_bucket_is_refused_without_its_secrets() {
        for url in [
            "s3://key:secret@logs/",
            "s3://logs/?secret_key=secret&foo=1",
            "s3://logs/?endpoint=https://u:secret@host",
            "s3:secret",
            "s3://logs/?style=secret",
            "gs://logs:80/secret",
            "s3://logs/.secret",
        ] {
            let error = ObjectStoreConfig::from_url(url).unwrap_err().to_string();
            assert!(!error.contains("=secret"), "{error}");
            assert!(!error.contains(":secret"), "{error}");
        }
    }
}

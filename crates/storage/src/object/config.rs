//! The store, and how patient to be with it.

mod bucket_url;
#[cfg(feature = "object-stores")]
pub(crate) mod connect;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::opening;
use crate::{AssetError, path};

/// The place of the objects of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStoreConfig {
    /// The bucket.
    pub bucket: Bucket,
    /// Holds what every key begins with, character for character, as Sunlight's
    /// `s3keyprefix`: `2026h1/`, with its slash. Empty: the whole bucket is the
    /// log's.
    pub key_prefix: String,
    /// The time that requests may take.
    pub policy: RequestPolicy,
    /// Most requests of one call that are under way at once.
    pub parallel: usize,
}

impl ObjectStoreConfig {
    /// With the usual timeouts, and 32 requests at once.
    pub fn new(bucket: Bucket, key_prefix: impl Into<String>) -> Self {
        Self {
            bucket,
            key_prefix: key_prefix.into(),
            policy: RequestPolicy::default(),
            parallel: 32,
        }
    }
}

/// A bucket of one of the clouds, or of a server that speaks their protocol.
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
/// Without [`keys`](Self::keys), credentials come from where AWS tools find
/// them: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` (`AWS_SESSION_TOKEN`),
/// a web identity token, a profile of `~/.aws/credentials`, a container's role,
/// the instance's role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3 {
    /// The region; if `None`, that of `AWS_REGION`, else `us-east-1`.
    pub region: Option<String>,
    /// The name of the bucket.
    pub bucket: String,
    /// The server, if it is not Amazon's: `https://minio.example:9000`.
    pub endpoint: Option<String>,
    /// With an `endpoint`: the bucket is in the host's name instead of the path.
    pub virtual_hosted: bool,
    /// Accept an `http://` endpoint, which anyone on the way can read and alter.
    pub allow_http: bool,
    /// A profile of `~/.aws/credentials` and `~/.aws/config`; if `None`, that of
    /// `AWS_PROFILE`, or `default` where the environment has no other keys.
    pub profile: Option<String>,
    /// Keys, where they are not to come from the environment.
    pub keys: Option<S3Keys>,
}

/// An access key of S3.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Keys {
    /// The key's name; no secret.
    pub access_key: String,
    /// The secret.
    pub secret_key: String,
}

impl fmt::Debug for S3Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S3Keys({}, …)", self.access_key)
    }
}

/// A bucket in Google Cloud Storage.
///
/// Without `credentials`, they come from `GOOGLE_APPLICATION_CREDENTIALS`, from
/// `gcloud`'s own file, or from the instance's service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gcs {
    /// The name of the bucket.
    pub bucket: String,
    /// The server, if it is not Google's: an emulator.
    pub endpoint: Option<String>,
    /// Accept an `http://` endpoint.
    pub allow_http: bool,
    /// Send no credentials: for emulators.
    pub anonymous: bool,
    /// A file of application credentials.
    pub credentials: Option<PathBuf>,
}

/// A container of an Azure storage account.
///
/// Without `key`, credentials come from `AZURE_STORAGE_ACCOUNT_KEY` and its
/// kin, from a workload identity, or from the managed identity.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Azure {
    /// The storage account; if `None`, that of `AZURE_STORAGE_ACCOUNT_NAME`.
    pub account: Option<String>,
    /// The name of the container.
    pub container: String,
    /// The server, if it is not Microsoft's.
    pub endpoint: Option<String>,
    /// Accept an `http://` endpoint.
    pub allow_http: bool,
    /// The account's key.
    pub key: Option<String>,
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Azure({:?}, {:?}, …)", self.account, self.container)
    }
}

/// The time that requests may take. The defaults fit a round: it fails within some
/// fifteen seconds of a store that does not answer, and the log, which then
/// answers 503, tries anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPolicy {
    /// For one request and its answer; a second more for each MiB moved.
    pub request: Duration,
    /// Without an answer for so long, what may be sent twice is sent again,
    /// beside the first (`None`: never). At most one request in ten.
    pub hedge: Option<Duration>,
    /// The number of times that a request that failed is repeated.
    pub retries: usize,
    /// No repetition begins later than this.
    pub retrying: Duration,
    /// For a call of a lock that is kept in a bucket, its repetitions included.
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

impl ObjectStoreConfig {
    /// Checks whether it could be one, as far as that can be told without asking it.
    ///
    /// # Errors
    ///
    /// [`AssetError::Configuration`], or [`AssetError::NotBuilt`].
    pub fn validate(&self) -> Result<(), AssetError> {
        self.check_prefix()?;
        opening::check(self)
    }

    /// Checks that what is listed is what was put: no key that the store's client
    /// would rewrite.
    pub(super) fn check_prefix(&self) -> Result<(), AssetError> {
        let prefix = &self.key_prefix;
        let plain =
            prefix.is_empty() || path::check(prefix.strip_suffix('/').unwrap_or(prefix)).is_ok();
        if plain && prefix.len() <= 256 {
            return Ok(());
        }
        Err(configuration(format!(
            "the key prefix {prefix:?} is not made of letters, digits, `-`, `_` and `.`, in \
             parts that `/` separates and that do not begin with a dot"
        )))
    }

    /// For people: the bucket, the prefix, the server if it is not the usual
    /// one. No secret is in any of them.
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
}

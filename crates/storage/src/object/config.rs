//! Which store, and how patient to be with it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use url::Url;

use super::http::Connector;
use super::profile::Profile;
use crate::{Error, Stats, path};

/// Where the objects of one log are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStoreConfig {
    /// The bucket.
    pub bucket: Bucket,
    /// What every key begins with, character for character, as Sunlight's
    /// `s3keyprefix`: `2026h1/`, with its slash. Empty: the whole bucket is the
    /// log's.
    pub key_prefix: String,
    /// How long requests may take.
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

/// How long requests may take. The defaults fit a round: it fails within some
/// fifteen seconds of a store that does not answer, and the log, which then
/// answers 503, tries anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPolicy {
    /// For one request and its answer; a second more for each MiB moved.
    pub request: Duration,
    /// Without an answer for so long, what may be sent twice is sent again,
    /// beside the first (`None`: never). At most one request in ten.
    pub hedge: Option<Duration>,
    /// How often a request that failed is repeated.
    pub retries: usize,
    /// No repetition begins later than this.
    pub retrying: Duration,
}

impl Default for RequestPolicy {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(5),
            hedge: Some(Duration::from_millis(250)),
            retries: 5,
            retrying: Duration::from_secs(10),
        }
    }
}

impl ObjectStoreConfig {
    /// Whether it could be one, as far as that can be told without asking it.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`].
    pub fn validate(&self) -> Result<(), Error> {
        self.check_prefix()?;
        self.connect(Arc::default()).map(drop)
    }

    /// What is listed must be what was put: no key that the store's client
    /// would rewrite.
    pub(super) fn check_prefix(&self) -> Result<(), Error> {
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

    /// A client of the store; nothing is sent yet.
    pub(crate) fn connect(&self, stats: Arc<Stats>) -> Result<Arc<dyn ObjectStore>, Error> {
        let connector = Connector {
            policy: self.policy,
            stats,
            accept_gzip: matches!(self.bucket, Bucket::Gcs(_)),
        };
        let retry = self.policy.retry();
        match &self.bucket {
            Bucket::S3(s3) => s3.connect(connector, retry),
            Bucket::Gcs(gcs) => gcs.connect(connector, retry),
            Bucket::Azure(azure) => azure.connect(connector, retry),
        }
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

impl RequestPolicy {
    /// For who would rather know that there is no answer than wait for one.
    pub(crate) fn hasty() -> Self {
        Self {
            request: Duration::from_secs(3),
            hedge: None,
            retries: 0,
            retrying: Duration::from_secs(3),
        }
    }

    pub(crate) fn retry(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(50),
                max_backoff: Duration::from_secs(2),
                base: 2.0,
            },
            max_retries: self.retries,
            retry_timeout: self.retrying,
        }
    }
}

type Connected = Result<Arc<dyn ObjectStore>, Error>;

impl S3 {
    fn connect(&self, connector: Connector, retry: RetryConfig) -> Connected {
        Ok(Arc::new(self.client(connector, retry)?.0))
    }

    /// The client, and the region that it is for.
    pub(crate) fn client(
        &self,
        connector: Connector,
        retry: RetryConfig,
    ) -> Result<(AmazonS3, String), Error> {
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(named("bucket", &self.bucket)?)
            .with_retry(retry)
            .with_http_connector(connector);
        let profile = match &self.keys {
            None => Profile::find(self.profile.as_deref()).map_err(configuration)?,
            Some(_) => None,
        };
        let inherited = profile.as_ref().and_then(|found| found.region.as_ref());
        if let Some(region) = self.region.as_ref().or(inherited) {
            builder = builder.with_region(region);
        }
        if let Some(keys) = profile.and_then(|found| found.keys) {
            builder = builder
                .with_access_key_id(keys.access_key)
                .with_secret_access_key(keys.secret_key);
            if let Some(token) = keys.token {
                builder = builder.with_token(token);
            }
        }
        if let Some(endpoint) = &self.endpoint {
            let mut url = endpoint_url(endpoint, self.allow_http)?;
            if self.virtual_hosted {
                let host = format!("{}.{}", self.bucket, url.host_str().unwrap_or_default());
                url.set_host(Some(&host))
                    .map_err(|e| configuration(format!("{host} is no host name: {e}")))?;
            }
            builder = builder
                .with_endpoint(url.as_str().trim_end_matches('/'))
                .with_virtual_hosted_style_request(self.virtual_hosted);
        } else if builder
            .get_config_value(&AmazonS3ConfigKey::Endpoint)
            .is_none()
        {
            // As Amazon recommends; a dot in the name does not fit its certificate.
            let dotted = self.bucket.contains('.');
            builder = builder.with_virtual_hosted_style_request(!dotted);
        }
        if let Some(keys) = &self.keys {
            builder = builder
                .with_access_key_id(&keys.access_key)
                .with_secret_access_key(&keys.secret_key);
        }
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
        let region = region.unwrap_or_else(|| "us-east-1".into());
        let client = builder.build().map_err(|e| configuration(e.to_string()))?;
        Ok((client, region))
    }
}

impl Gcs {
    fn connect(&self, connector: Connector, retry: RetryConfig) -> Connected {
        Ok(Arc::new(self.client(connector, retry)?))
    }

    pub(crate) fn client(
        &self,
        connector: Connector,
        retry: RetryConfig,
    ) -> Result<GoogleCloudStorage, Error> {
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_bucket_name(named("bucket", &self.bucket)?)
            .with_retry(retry)
            .with_http_connector(connector);
        if self.anonymous {
            // The client asks for a token even where it sends none.
            builder = builder.with_skip_signature(true).with_bearer_token("none");
        }
        if let Some(endpoint) = &self.endpoint {
            let url = endpoint_url(endpoint, self.allow_http)?;
            builder = builder.with_base_url(url.as_str().trim_end_matches('/'));
        }
        if let Some(file) = &self.credentials {
            builder = builder.with_application_credentials(file.display().to_string());
        }
        builder.build().map_err(|e| configuration(e.to_string()))
    }
}

impl Azure {
    fn connect(&self, connector: Connector, retry: RetryConfig) -> Connected {
        let mut builder = MicrosoftAzureBuilder::from_env()
            .with_container_name(named("container", &self.container)?)
            .with_retry(retry)
            .with_http_connector(connector);
        if let Some(account) = &self.account {
            builder = builder.with_account(account);
        }
        if let Some(endpoint) = &self.endpoint {
            let url = endpoint_url(endpoint, self.allow_http)?;
            builder = builder.with_endpoint(url.as_str().trim_end_matches('/').to_owned());
        }
        if let Some(key) = &self.key {
            builder = builder.with_access_key(key);
        }
        Ok(Arc::new(
            builder.build().map_err(|e| configuration(e.to_string()))?,
        ))
    }
}

fn named<'n>(what: &str, name: &'n str) -> Result<&'n str, Error> {
    match name.is_empty() || name.contains('/') {
        true => Err(configuration(format!("{name:?} is no name of a {what}"))),
        false => Ok(name),
    }
}

/// An endpoint is shown in messages: it has no place for secrets.
pub(crate) fn endpoint_url(endpoint: &str, allow_http: bool) -> Result<Url, Error> {
    let url = Url::parse(endpoint).map_err(|_| {
        configuration("the endpoint is no URL: it should read like https://minio.example:9000")
    })?;
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        let problem = "the endpoint has a user name, password or query. Credentials go elsewhere";
        return Err(configuration(problem));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if allow_http => Ok(url),
        "http" => Err(configuration(format!(
            "{endpoint} is not encrypted, and plain HTTP is not allowed"
        ))),
        scheme => Err(configuration(format!(
            "{scheme}: is no scheme of an endpoint: it should read like https://minio.example:9000"
        ))),
    }
}

pub(super) fn configuration(problem: impl Into<String>) -> Error {
    Error::Configuration {
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
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

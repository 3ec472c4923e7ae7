//! HTTP clients of the configured stores.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use url::Url;

use super::config::configuration;
use super::credentials::Profile;
use super::http::Connector;
use super::{Azure, Bucket, Gcs, ObjectStoreConfig, RequestPolicy, S3};
use crate::{AssetError, Stats};

impl ObjectStoreConfig {
    /// Creates a client of the store without sending a request.
    pub(crate) fn connect(&self, stats: Arc<Stats>) -> Result<Arc<dyn ObjectStore>, AssetError> {
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
}

impl RequestPolicy {
    /// Returns a policy with short timeouts, for checks that must end soon.
    pub(crate) fn hasty() -> Self {
        Self {
            request: Duration::from_secs(3),
            hedge: None,
            retries: 0,
            retrying: Duration::from_secs(3),
            ..Self::default()
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

type Connected = Result<Arc<dyn ObjectStore>, AssetError>;

impl S3 {
    fn connect(&self, connector: Connector, retry: RetryConfig) -> Connected {
        Ok(Arc::new(self.client(connector, retry)?.0))
    }

    /// Creates the client and returns it with its region.
    pub(crate) fn client(
        &self,
        connector: Connector,
        retry: RetryConfig,
    ) -> Result<(AmazonS3, String), AssetError> {
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(named("bucket", &self.bucket)?)
            .with_retry(retry)
            .with_http_connector(connector);
        let profile = match &self.keys {
            None => Profile::find(self.profile.as_deref())
                .map_err(|error| configuration(error.to_string()))?,
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
            if let Some(token) = keys.session_token {
                builder = builder.with_token(token);
            }
        }
        if let Some(endpoint) = &self.endpoint {
            let mut url = endpoint_url(endpoint, self.allow_http)?;
            if self.virtual_hosted {
                let host = format!("{}.{}", self.bucket, url.host_str().unwrap_or_default());
                url.set_host(Some(&host))
                    .map_err(|e| configuration(format!("{host} is not a valid host name: {e}")))?;
            }
            builder = builder
                .with_endpoint(url.as_str().trim_end_matches('/'))
                .with_virtual_hosted_style_request(self.virtual_hosted);
        } else if builder
            .get_config_value(&AmazonS3ConfigKey::Endpoint)
            .is_none()
        {
            // Amazon recommends the bucket in the host name. But a bucket name with a dot does not
            // match Amazon's certificate.
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
    ) -> Result<GoogleCloudStorage, AssetError> {
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_bucket_name(named("bucket", &self.bucket)?)
            .with_retry(retry)
            .with_http_connector(connector);
        if self.anonymous {
            // The client requires a token even if it sends none.
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

fn named<'n>(what: &str, name: &'n str) -> Result<&'n str, AssetError> {
    /// The shortest name for S3, Google and Azure.
    const SHORTEST: usize = 3;
    let wrong = |why: &str| {
        Err(configuration(format!(
            "{name:?} is not the name of a {what}: {why}"
        )))
    };
    if name.contains('/') {
        return wrong("it has a slash. Move the part after the slash to the key prefix");
    }
    if name.len() < SHORTEST {
        return wrong("names have at least 3 characters");
    }
    Ok(name)
}

/// Parses an endpoint. Messages show endpoints, so endpoints must not contain secrets.
pub(crate) fn endpoint_url(endpoint: &str, allow_http: bool) -> Result<Url, AssetError> {
    let url = Url::parse(endpoint).map_err(|_| {
        configuration("the endpoint is not a URL: expected a form like https://minio.example:9000")
    })?;
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        let problem = "the endpoint has a user name, password or query: configure credentials \
                       separately";
        return Err(configuration(problem));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if allow_http => Ok(url),
        "http" => Err(configuration(format!(
            "{endpoint} is not encrypted, and plain HTTP is not allowed"
        ))),
        scheme => Err(configuration(format!(
            "the scheme `{scheme}` is not allowed in an endpoint: expected a form like \
             https://minio.example:9000"
        ))),
    }
}

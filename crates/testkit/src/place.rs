use std::{any::Any, fmt, sync::Arc};

use anyhow::Result;

use crate::{AzureServer, Bucket, DatabaseKind, DatabaseProxy, DatabaseServer, GcsServer};

/// The location of the data and the lock of logs under test, as in the configuration of the logs.
/// The servers of store and database stop when the last clone is dropped.
#[derive(Clone)]
pub struct Place {
    /// The value of `checkpoints`.
    pub checkpoints: String,
    /// Environment variables with credentials.
    pub environment: Vec<(&'static str, String)>,
    data: Data,
    servers: Vec<Arc<dyn Any + Send + Sync>>,
}

#[derive(Clone)]
enum Data {
    Directory,
    Bucket {
        kind: &'static str,
        endpoint: String,
        /// Settings, one per line.
        settings: String,
        /// Prefix of all logs.
        prefix: String,
    },
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.data {
            Data::Directory => f.write_str("POSIX"),
            Data::Bucket { kind, endpoint, .. } => write!(f, "{kind} at {endpoint}"),
        }
    }
}

impl Place {
    /// Returns directories for the data, with an SQLite database next to them for the lock.
    pub fn directory() -> Self {
        Self {
            checkpoints: "lock.sqlite".into(),
            environment: Vec::new(),
            data: Data::Directory,
            servers: Vec::new(),
        }
    }

    /// Returns a bucket for data and lock. `endpoint` replaces the endpoint of the store, for
    /// example with the endpoint of a proxy.
    pub fn bucket(bucket: &Bucket, endpoint: Option<&str>) -> Self {
        let store = &bucket.store;
        let endpoint = endpoint.unwrap_or(&store.endpoint);
        let (name, region) = (&bucket.name, store.region);
        Self {
            checkpoints: format!("s3://{name}/lock/?region={region}&endpoint={endpoint}"),
            environment: vec![
                ("AWS_ACCESS_KEY_ID", store.access_key.into()),
                ("AWS_SECRET_ACCESS_KEY", store.secret_key.into()),
                ("AWS_REGION", region.into()),
            ],
            data: Data::Bucket {
                kind: "s3",
                endpoint: endpoint.to_owned(),
                settings: format!("s3bucket: {name}\ns3endpoint: {endpoint}\ns3style: path\n"),
                prefix: String::new(),
            },
            servers: vec![Arc::new(bucket.clone())],
        }
    }

    /// Returns a bucket of fake-gcs-server for data and lock.
    ///
    /// # Errors
    /// If the server does not start or creates no bucket: the message has the remedy.
    pub async fn gcs() -> Result<Self> {
        let server = GcsServer::shared()?;
        let (name, endpoint) = (server.new_bucket().await?, server.endpoint.clone());
        Ok(Self {
            checkpoints: format!("gs://{name}/lock/?endpoint={endpoint}&credentials=none"),
            environment: Vec::new(),
            data: Data::Bucket {
                kind: "gcs",
                settings: format!(
                    "gcsbucket: {name}\ngcsendpoint: {endpoint}\ngcscredentials: none\n"
                ),
                endpoint,
                prefix: String::new(),
            },
            servers: vec![server],
        })
    }

    /// Returns a container of Azurite for data and lock.
    ///
    /// # Errors
    /// If the server does not start or creates no container: the message has the remedy.
    pub async fn azure() -> Result<Self> {
        let server = AzureServer::shared()?;
        let (name, endpoint) = (server.new_container().await?, server.endpoint.clone());
        let account = server.account;
        Ok(Self {
            checkpoints: format!("az://{name}/lock/?account={account}&endpoint={endpoint}"),
            environment: vec![("AZURE_STORAGE_ACCOUNT_KEY", server.key.into())],
            data: Data::Bucket {
                kind: "azure",
                settings: format!(
                    "azurecontainer: {name}\nazureendpoint: {endpoint}\nazureaccount: {account}\n"
                ),
                endpoint,
                prefix: String::new(),
            },
            servers: vec![server],
        })
    }

    /// Puts the bucket into the host name instead of the path.
    pub fn virtual_hosted(mut self) -> Self {
        if let Data::Bucket { settings, .. } = &mut self.data {
            *settings = settings.replace("s3style: path", "s3style: virtual");
            self.checkpoints += "&style=virtual";
        }
        self
    }

    /// Returns a place for independent logs, with another prefix.
    pub fn anew(&self) -> Self {
        let mut place = self.clone();
        if let Data::Bucket { prefix, .. } = &mut place.data {
            *prefix = format!("{:016x}/", rand::random::<u64>());
        }
        place
    }

    /// Returns the same data with a new database of this server for the lock.
    ///
    /// # Errors
    /// The error of the server.
    pub fn with_lock(mut self, server: &DatabaseServer) -> Result<Self> {
        self.checkpoints = server.url(&server.new_database()?);
        Ok(self)
    }

    /// Returns the same data with a new database of this server for the lock, which is accessed
    /// through this proxy.
    ///
    /// # Errors
    /// The error of the server.
    pub fn with_lock_behind(self, proxy: &DatabaseProxy, server: &DatabaseServer) -> Result<Self> {
        let mut place = self.with_lock(server)?;
        let (there, instead) = (server.address().to_string(), proxy.address().to_string());
        place.checkpoints = place.checkpoints.replace(&there, &instead);
        Ok(place)
    }

    /// Returns a bucket of MinIO, and MariaDB for the lock.
    ///
    /// # Errors
    /// If a server does not start: the message has the remedy.
    pub async fn s3_and_mariadb() -> Result<Self> {
        let server = DatabaseServer::shared(DatabaseKind::MariaDb)?;
        let mut place = Self::bucket(&Bucket::minio().await?, None).with_lock(&server)?;
        place.servers.push(server);
        Ok(place)
    }

    /// Returns a bucket of versitygw for data and lock.
    ///
    /// # Errors
    /// If the server does not start: the message has the remedy.
    pub async fn s3_alone() -> Result<Self> {
        Ok(Self::bucket(&Bucket::versitygw().await?, None))
    }

    /// Returns the settings for the data of a log, one per line.
    pub fn data(&self, log: &str) -> String {
        match &self.data {
            Data::Directory => format!("localdirectory: {log}\n"),
            Data::Bucket {
                kind,
                settings,
                prefix,
                ..
            } => format!("{settings}{kind}keyprefix: {prefix}{log}/\n"),
        }
    }
}

use std::{any::Any, fmt, sync::Arc};

use anyhow::Result;

use crate::{Bucket, DatabaseKind, DatabaseServer};

/// Where logs under test keep their data and their lock, as their
/// configuration says it. Servers live as long as this.
#[derive(Clone)]
pub struct Place {
    /// The value of `checkpoints`.
    pub checkpoints: String,
    /// Credentials, as the environment has them.
    pub environment: Vec<(&'static str, String)>,
    data: Data,
    servers: Vec<Arc<dyn Any + Send + Sync>>,
}

#[derive(Clone)]
enum Data {
    Directory,
    S3 {
        bucket: String,
        endpoint: String,
        style: &'static str,
        prefix: String,
    },
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.data {
            Data::Directory => f.write_str("POSIX"),
            Data::S3 { endpoint, .. } => write!(f, "S3 at {endpoint}"),
        }
    }
}

impl Place {
    /// Directories, and an SQLite database beside them.
    pub fn directory() -> Self {
        Self {
            checkpoints: "lock.sqlite".into(),
            environment: Vec::new(),
            data: Data::Directory,
            servers: Vec::new(),
        }
    }

    /// A bucket for both. `endpoint`: instead of the store's, as of a proxy.
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
            data: Data::S3 {
                bucket: name.clone(),
                endpoint: endpoint.to_owned(),
                style: "path",
                prefix: String::new(),
            },
            servers: vec![Arc::new(bucket.clone())],
        }
    }

    /// The bucket's name goes before the server's instead of into the path.
    pub fn virtual_hosted(mut self) -> Self {
        if let Data::S3 { style, .. } = &mut self.data {
            *style = "virtual";
            self.checkpoints += "&style=virtual";
        }
        self
    }

    /// For logs that have nothing to do with those before: another prefix.
    pub fn anew(&self) -> Self {
        let mut place = self.clone();
        if let Data::S3 { prefix, .. } = &mut place.data {
            *prefix = format!("{:016x}/", rand::random::<u64>());
        }
        place
    }

    /// The same data, and a new database of this server for the lock.
    ///
    /// # Errors
    /// What the server said.
    pub fn with_lock(mut self, server: &DatabaseServer) -> Result<Self> {
        self.checkpoints = server.url(&server.new_database()?);
        Ok(self)
    }

    /// A bucket of MinIO, and MariaDB for the lock.
    ///
    /// # Errors
    /// A server does not start: the message says what to do.
    pub async fn s3_and_mariadb() -> Result<Self> {
        let server = DatabaseServer::shared(DatabaseKind::MariaDb)?;
        let mut place = Self::bucket(&Bucket::minio().await?, None).with_lock(&server)?;
        place.servers.push(server);
        Ok(place)
    }

    /// A bucket of versitygw for both.
    ///
    /// # Errors
    /// The server does not start: the message says what to do.
    pub async fn s3_alone() -> Result<Self> {
        Ok(Self::bucket(&Bucket::versitygw().await?, None))
    }

    /// The settings of a log that say where its data is, each on a line.
    pub fn data(&self, log: &str) -> String {
        match &self.data {
            Data::Directory => format!("localdirectory: {log}\n"),
            Data::S3 {
                bucket,
                endpoint,
                style,
                prefix,
            } => format!(
                "s3bucket: {bucket}\ns3endpoint: {endpoint}\ns3style: {style}\n\
                 s3keyprefix: {prefix}{log}/\n"
            ),
        }
    }
}

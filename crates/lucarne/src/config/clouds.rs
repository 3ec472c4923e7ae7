//! Flags of TesseraCT's servers on AWS and GCP that mean something here: where
//! the key is, and the database, which holds the lock.

use std::fmt;
use std::path::Path;

use lucarne_storage::SqlLock;
use url::Url;

use super::place::LockPlace;

/// The flags.
#[derive(clap::Args, Clone, Default)]
pub struct Clouds {
    /// TesseraCT's on AWS: the MySQL server whose database holds the lock, if --checkpoints does not
    /// name another
    #[arg(
        long,
        alias = "db_host",
        value_name = "HOST",
        requires = "origin",
        hide = true
    )]
    db_host: Option<String>,

    /// Its port [default: 3306]
    #[arg(
        long,
        alias = "db_port",
        value_name = "PORT",
        requires = "origin",
        hide = true
    )]
    db_port: Option<u16>,

    /// The database
    #[arg(
        long,
        alias = "db_name",
        value_name = "NAME",
        requires = "origin",
        hide = true
    )]
    db_name: Option<String>,

    /// The user
    #[arg(
        long,
        alias = "db_user",
        value_name = "USER",
        requires = "origin",
        hide = true
    )]
    db_user: Option<String>,

    /// The user's password
    #[arg(
        long,
        alias = "db_password",
        value_name = "PASSWORD",
        requires = "origin",
        hide = true
    )]
    db_password: Option<String>,

    /// The key, by its name in AWS Secrets Manager or GCP Secret Manager
    #[arg(
        long,
        alias = "signer_private_key_secret_name",
        value_name = "NAME",
        requires = "origin",
        conflicts_with = "private_key",
        hide = true
    )]
    signer_private_key_secret_name: Option<String>,
}

/// Without the password.
impl fmt::Debug for Clouds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clouds({:?}, …)", self.db_host)
    }
}

/// Whose server the flags are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cloud {
    Aws,
    Gcp,
}

impl Clouds {
    /// Whose these are, if they tell.
    pub(super) fn cloud(&self) -> Option<Cloud> {
        match &self.signer_private_key_secret_name {
            Some(name) if is_google(name) => Some(Cloud::Gcp),
            Some(_) => Some(Cloud::Aws),
            None => self.db_host.is_some().then_some(Cloud::Aws),
        }
    }

    /// The key, as `secret` says it.
    pub(super) fn key(&self) -> Option<String> {
        let name = self.signer_private_key_secret_name.as_ref()?;
        Some(match name {
            name if is_google(name) => format!("gcpsecret://{name}"),
            arn if arn.starts_with("arn:") => arn.clone(),
            name => format!("awssecret://{name}"),
        })
    }

    /// The lock, if a database is named.
    ///
    /// # Errors
    /// In words that follow the flag.
    pub(super) fn lock(&self) -> Option<Result<LockPlace, String>> {
        let host = self.db_host.as_deref()?;
        Some(self.lock_at(host))
    }

    fn lock_at(&self, host: &str) -> Result<LockPlace, String> {
        let name = self.db_name.as_deref();
        let name = name.ok_or("names a server; the database is missing (--db-name)")?;
        let wrong = || format!("`{host}` is no host");
        let mut url = Url::parse("mysql://localhost").map_err(|error| error.to_string())?;
        url.set_host(Some(host)).map_err(|_| wrong())?;
        url.set_port(self.db_port).map_err(|()| wrong())?;
        let user = self.db_user.as_deref().unwrap_or_default();
        url.set_username(user).map_err(|()| wrong())?;
        url.set_path(name);
        let url = match &self.db_password {
            Some(password) => {
                SqlLock::with_password(url.as_str(), password).map_err(|error| error.to_string())?
            }
            None => url.into(),
        };
        LockPlace::parse(&url, Path::new(""))
    }
}

impl Cloud {
    /// The URL of a bucket that TesseraCT is told by its name alone. On AWS, the
    /// environment may name another server, as for Amazon's own tools.
    pub(super) fn bucket(self, name: &str) -> String {
        let variable = |name| std::env::var(name).ok().filter(|url| !url.is_empty());
        let endpoint = || variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        match self {
            Cloud::Gcp => format!("gs://{name}"),
            Cloud::Aws => match endpoint() {
                None => format!("s3://{name}"),
                Some(endpoint) => {
                    let mut query = url::form_urlencoded::Serializer::new(String::new());
                    let query = query.append_pair("endpoint", &endpoint).finish();
                    format!("s3://{name}?{query}")
                }
            },
        }
    }
}

fn is_google(secret: &str) -> bool {
    secret.starts_with("projects/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(name: &str) -> Clouds {
        Clouds {
            signer_private_key_secret_name: Some(name.into()),
            ..Clouds::default()
        }
    }

    #[test]
    fn a_key_is_where_the_clouds_keep_it() {
        let google = "projects/p/secrets/s/versions/3";
        let arn = "arn:aws:secretsmanager:eu-west-1:1:secret:k";
        for (name, cloud, key) in [
            (google, Cloud::Gcp, format!("gcpsecret://{google}")),
            ("ct/key", Cloud::Aws, "awssecret://ct/key".into()),
            (arn, Cloud::Aws, arn.into()),
        ] {
            let flags = flags(name);
            assert_eq!((flags.cloud(), flags.key()), (Some(cloud), Some(key)));
        }
        assert_eq!(
            (Clouds::default().cloud(), Clouds::default().key()),
            (None, None)
        );
    }

    #[test]
    fn the_lock_is_in_the_database_that_is_named() {
        let mut flags = Clouds {
            db_host: Some("db.example".into()),
            db_port: Some(3307),
            db_user: Some("ct@a".into()),
            db_password: Some("p@ss/w".into()),
            ..Clouds::default()
        };
        let refused = flags.lock().unwrap().unwrap_err();
        assert!(refused.contains("--db-name"), "{refused}");
        flags.db_name = Some("tessera".into());
        let place = LockPlace::Server("mysql://ct%40a:p%40ss%2Fw@db.example:3307/tessera".into());
        assert_eq!(flags.lock().unwrap().unwrap(), place);
        assert!(!format!("{flags:?}").contains("p@ss"));
        assert_eq!(Clouds::default().lock(), None);
    }

    #[test]
    fn a_bucket_is_its_clouds() {
        assert_eq!(Cloud::Gcp.bucket("b"), "gs://b");
        assert!(Cloud::Aws.bucket("b").starts_with("s3://b"));
    }
}

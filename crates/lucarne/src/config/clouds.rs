//! Flags of TesseraCT's servers on AWS and GCP that Lucarne supports: the source of the key, and
//! the database for the lock.

use std::fmt;

use lucarne_storage::{LockError, SqlLock};
use url::Url;

use super::go::given;

/// Flags for the key and the database.
#[derive(clap::Args, Clone, Default)]
pub struct Clouds {
    /// MySQL server of the lock, as for TesseraCT on AWS, unless --checkpoints names another lock
    #[arg(long, value_name = "HOST", requires = "origin", hide = true)]
    db_host: Option<String>,

    /// Port of the MySQL server [default: 3306]
    #[arg(long, value_name = "PORT", requires = "origin", hide = true)]
    db_port: Option<u16>,

    /// Name of the database
    #[arg(long, value_name = "NAME", requires = "origin", hide = true)]
    db_name: Option<String>,

    /// User of the database
    #[arg(long, value_name = "USER", requires = "origin", hide = true)]
    db_user: Option<String>,

    /// Password of the user
    #[arg(
        long,
        value_name = "PASSWORD",
        allow_hyphen_values = true,
        requires = "origin",
        hide = true
    )]
    db_password: Option<String>,

    /// Name of the key in AWS Secrets Manager or GCP Secret Manager
    #[arg(long, value_name = "NAME", requires = "origin", hide = true)]
    signer_private_key_secret_name: Option<String>,
}

/// Omits the password.
impl fmt::Debug for Clouds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clouds({:?}, …)", self.db_host)
    }
}

/// TesseraCT server that the flags belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cloud {
    Aws,
    Gcp,
}

/// Reasons why the flags do not define a lock. The text follows `--db-host`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error("names a server; the database is missing (--db-name)")]
    NoName,
    #[error("`{host}` is not a valid host")]
    NoHost {
        host: String,
        source: Option<url::ParseError>,
    },
    #[error(transparent)]
    Url(#[from] url::ParseError),
    #[error(transparent)]
    Password(#[from] LockError),
}

impl Clouds {
    /// Returns the TesseraCT server that the flags belong to; `None` if no flag shows which server
    /// it is.
    pub(super) fn cloud(&self) -> Option<Cloud> {
        match given(&self.signer_private_key_secret_name) {
            Some(name) if is_google(name) => Some(Cloud::Gcp),
            Some(_) => Some(Cloud::Aws),
            None => given(&self.db_host).map(|_| Cloud::Aws),
        }
    }

    /// Returns the key in the format of `secret`.
    pub(super) fn key(&self) -> Option<String> {
        let name = given(&self.signer_private_key_secret_name)?;
        Some(match name {
            name if is_google(name) => format!("gcpsecret://{name}"),
            arn if arn.starts_with("arn:") => arn.to_owned(),
            name => format!("awssecret://{name}"),
        })
    }

    /// Returns the URL of the lock, if a database is named.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub(super) fn lock(&self) -> Option<Result<String, DatabaseError>> {
        let host = given(&self.db_host)?;
        Some(self.lock_at(host))
    }

    /// Returns the database flags that are given without a server.
    pub(super) fn without_host(&self) -> impl Iterator<Item = &'static str> {
        let of_database = [
            ("db-name", given(&self.db_name).is_some()),
            ("db-user", given(&self.db_user).is_some()),
            ("db-password", given(&self.db_password).is_some()),
            ("db-port", self.db_port.is_some()),
        ];
        let unnamed = given(&self.db_host).is_none();
        let said = of_database.into_iter();
        said.filter_map(move |(flag, given)| (given && unnamed).then_some(flag))
    }

    fn lock_at(&self, host: &str) -> Result<String, DatabaseError> {
        let name = given(&self.db_name).ok_or(DatabaseError::NoName)?;
        let wrong = |source| DatabaseError::NoHost {
            host: host.to_owned(),
            source,
        };
        let mut url = Url::parse("mysql://localhost")?;
        url.set_host(Some(host))
            .map_err(|error| wrong(Some(error)))?;
        url.set_port(self.db_port).map_err(|()| wrong(None))?;
        let user = given(&self.db_user).unwrap_or_default();
        url.set_username(user).map_err(|()| wrong(None))?;
        url.set_path(name);
        match given(&self.db_password) {
            Some(password) => Ok(SqlLock::with_password(url.as_str(), password)?),
            None => Ok(url.into()),
        }
    }
}

impl Cloud {
    /// Returns the URL of a bucket that TesseraCT's flags give only by name. On AWS, environment
    /// variables may set the endpoint, as with Amazon's tools. `variable` reads an environment
    /// variable.
    pub(super) fn bucket(
        self,
        name: &str,
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> String {
        let variable = |name| variable(name).filter(|url| !url.is_empty());
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
        let refused = flags.lock().unwrap().unwrap_err().to_string();
        assert!(refused.contains("--db-name"), "{refused}");
        flags.db_name = Some("tessera".into());
        let url = "mysql://ct%40a:p%40ss%2Fw@db.example:3307/tessera";
        assert_eq!(flags.lock().unwrap().unwrap(), url);
        assert!(!format!("{flags:?}").contains("p@ss"));
        assert!(Clouds::default().lock().is_none());
    }

    #[test]
    fn a_bucket_is_its_clouds() {
        const ANY: (&str, &str) = ("AWS_ENDPOINT_URL", "http://any.example:9000");
        const S3: (&str, &str) = ("AWS_ENDPOINT_URL_S3", "https://s3.example/");
        let any = "s3://b?endpoint=http%3A%2F%2Fany.example%3A9000";
        let s3 = "s3://b?endpoint=https%3A%2F%2Fs3.example%2F";
        let empty = |(name, _)| (name, "");
        for (cloud, environment, url) in [
            (Cloud::Gcp, vec![ANY, S3], "gs://b"),
            (Cloud::Aws, vec![], "s3://b"),
            (Cloud::Aws, vec![ANY], any),
            (Cloud::Aws, vec![S3], s3),
            (Cloud::Aws, vec![ANY, S3], s3),
            (Cloud::Aws, vec![ANY, empty(S3)], any),
            (Cloud::Aws, vec![empty(ANY), empty(S3)], "s3://b"),
        ] {
            let variable = |name| {
                let mut set = environment.iter();
                let found = set.find(|(set, _)| *set == name);
                found.map(|(_, url)| (*url).to_owned())
            };
            assert_eq!(cloud.bucket("b", variable), url, "{environment:?}");
        }
    }
}

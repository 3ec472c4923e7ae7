//! A bucket and a prefix in it, written as one URL.

use std::path::PathBuf;

use url::Url;

use super::{Azure, Bucket, Gcs, ObjectStoreConfig, S3, configuration};
use crate::AssetError;

/// Example URLs of each kind, for messages.
const EXAMPLES: &str = "s3://bucket/prefix?region=eu-central-1, \
     s3://bucket/prefix?endpoint=https://minio.example:9000, gs://bucket/prefix or \
     az://container/prefix?account=name";

impl ObjectStoreConfig {
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

#[cfg(test)]
mod tests {
    use super::*;

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

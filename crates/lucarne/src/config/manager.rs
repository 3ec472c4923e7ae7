//! Keys in a cloud's keeping, by URL.
//!
//! - `awssecret://NAME?region=…` (`endpoint=`, `profile=`), or the ARN,
//! - `gcpsecret://projects/P/secrets/S`, and `/versions/V` if not the latest.
//!
//! Fetching is behind the cargo features `aws-secrets` and `gcp-secrets`.

use std::fmt;

use url::Url;

/// Where it is. Nothing of it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "aws-secrets", feature = "gcp-secrets")),
    allow(dead_code)
)]
pub enum Manager {
    /// AWS Secrets Manager.
    Aws {
        /// Name or ARN.
        name: String,
        /// Its region, if not the environment's.
        region: Option<String>,
        /// Another server than Amazon's.
        endpoint: Option<String>,
        /// Profile of the credentials.
        profile: Option<String>,
    },
    /// GCP Secret Manager.
    Gcp {
        /// `projects/…/secrets/…/versions/…`
        version: String,
        /// Another server than Google's.
        endpoint: Option<String>,
    },
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Manager::Aws { name, .. } => write!(f, "AWS secret `{name}`"),
            Manager::Gcp { version, .. } => write!(f, "GCP secret `{version}`"),
        }
    }
}

impl Manager {
    /// Reads a URL or an ARN; `None` if it is neither.
    pub(super) fn parse(text: &str) -> Option<Result<Self, String>> {
        if text.starts_with("arn:") {
            return Some(arn(text));
        }
        let scheme = text.split_once("://")?.0;
        match scheme {
            "awssecret" | "gcpsecret" => Some(url(text)),
            _ => Some(Err(
                "is no place of a key: write a file's path, credential:NAME, env:NAME, \
                 exec:COMMAND, awssecret://NAME or gcpsecret://projects/P/secrets/S"
                    .into(),
            )),
        }
    }

    /// Fetches the secret: a seed of 32 bytes, that in base64, or PEM.
    ///
    /// # Errors
    /// In words that follow [`Display`](fmt::Display).
    pub(super) fn fetch(&self) -> Result<Vec<u8>, String> {
        match self {
            #[cfg(feature = "aws-secrets")]
            Manager::Aws {
                name,
                region,
                endpoint,
                profile,
            } => {
                let (region, endpoint) = (region.as_deref(), endpoint.as_deref());
                let asked =
                    lucarne_storage::secrets::aws(name, region, endpoint, profile.as_deref());
                aws_value(&fetching::answer(asked)?)
            }
            #[cfg(feature = "gcp-secrets")]
            Manager::Gcp { version, endpoint } => {
                let asked = lucarne_storage::secrets::gcp(version, endpoint.as_deref());
                gcp_value(&fetching::answer(asked)?)
            }
            #[cfg(not(feature = "aws-secrets"))]
            Manager::Aws { .. } => Err(missing("aws-secrets")),
            #[cfg(not(feature = "gcp-secrets"))]
            Manager::Gcp { .. } => Err(missing("gcp-secrets")),
        }
    }
}

#[cfg(not(all(feature = "aws-secrets", feature = "gcp-secrets")))]
fn missing(feature: &str) -> String {
    format!(
        "cannot be fetched: this lucarne was built without the cargo feature `{feature}`. Build it \
         with `--features {feature}`, or let a command fetch the key (`exec:`)"
    )
}

fn arn(text: &str) -> Result<Manager, String> {
    let parts: Vec<&str> = text.splitn(7, ':').collect();
    match parts[..] {
        ["arn", _, "secretsmanager", region, _, "secret", _] if plain(text) => Ok(Manager::Aws {
            name: text.to_owned(),
            region: Some(region.to_owned()),
            endpoint: None,
            profile: None,
        }),
        _ => Err("is no ARN of a secret: arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME".into()),
    }
}

/// Names go into requests as they are.
fn plain(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "/_+=.@-:".contains(c);
    !name.is_empty() && name.chars().all(allowed)
}

fn url(text: &str) -> Result<Manager, String> {
    let url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
    let (mut region, mut endpoint, mut profile) = (None, None, None);
    for (key, value) in url.query_pairs() {
        let place = match key.as_ref() {
            "region" => &mut region,
            "endpoint" => &mut endpoint,
            "profile" => &mut profile,
            unknown => {
                return Err(format!(
                    "has the parameter `{unknown}`: there are region, endpoint and profile"
                ));
            }
        };
        *place = Some(value.into_owned());
    }
    let name = format!("{}{}", url.host_str().unwrap_or_default(), url.path());
    let name = name.trim_end_matches('/').to_owned();
    if !plain(&name) {
        return Err("has a name that no secret has".into());
    }
    if url.scheme() == "awssecret" {
        return Ok(Manager::Aws {
            name,
            region,
            endpoint,
            profile,
        });
    }
    let version = match name.split('/').collect::<Vec<_>>()[..] {
        ["projects", _, "secrets", _] => format!("{name}/versions/latest"),
        ["projects", _, "secrets", _, "versions", _] => name,
        _ => return Err("is not gcpsecret://projects/PROJECT/secrets/SECRET".into()),
    };
    Ok(Manager::Gcp { version, endpoint })
}

#[cfg(any(feature = "aws-secrets", feature = "gcp-secrets"))]
mod fetching {
    use lucarne_storage::Error;

    /// Waits for the answer, wherever this is called.
    pub(super) fn answer<B: AsRef<[u8]> + Send>(
        asked: impl Future<Output = Result<B, Error>> + Send,
    ) -> Result<serde_json::Value, String> {
        let body = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|error| error.to_string())?;
                runtime.block_on(asked).map_err(|error| error.to_string())
            });
            waiting.join().map_err(|_| "a panic".to_owned())?
        });
        let body = body.map_err(|error| format!("cannot be fetched: {error}"))?;
        serde_json::from_slice(body.as_ref()).map_err(|_| "came back as no JSON".to_owned())
    }

    /// `SecretBinary` and `payload.data`, in base64.
    pub(super) fn decoded(text: &str) -> Result<Vec<u8>, String> {
        let decoded = base64_simd::STANDARD.decode_to_vec(text);
        decoded.map_err(|_| "came back as no base64".to_owned())
    }
}

#[cfg(feature = "aws-secrets")]
fn aws_value(answer: &serde_json::Value) -> Result<Vec<u8>, String> {
    match (
        answer["SecretString"].as_str(),
        answer["SecretBinary"].as_str(),
    ) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(binary)) => fetching::decoded(binary),
        (None, None) => Err("came back without a value".into()),
    }
}

#[cfg(feature = "gcp-secrets")]
fn gcp_value(answer: &serde_json::Value) -> Result<Vec<u8>, String> {
    let data = answer["payload"]["data"].as_str();
    fetching::decoded(data.ok_or("came back without a value")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_urls() {
        let shown = |text: &str| Manager::parse(text).unwrap().map(|found| found.to_string());
        let aws = Manager::parse("awssecret://ct/2026h1?region=eu&endpoint=http://h:1");
        assert!(matches!(
            aws,
            Some(Ok(Manager::Aws { name, endpoint: Some(_), .. })) if name == "ct/2026h1"
        ));
        let arn = "arn:aws:secretsmanager:eu-central-1:123:secret:ct-AbCdEf";
        assert_eq!(shown(arn).unwrap(), format!("AWS secret `{arn}`"));
        assert_eq!(
            shown("gcpsecret://projects/p/secrets/s").unwrap(),
            "GCP secret `projects/p/secrets/s/versions/latest`"
        );
        for wrong in [
            "arn:aws:s3:::bucket",
            "awssecret://a?key=1",
            "awssecret://a\"b",
            "gcpsecret://p/s",
            "vault://x",
        ] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
        assert!(Manager::parse("keys/a.seed").is_none());
    }
}

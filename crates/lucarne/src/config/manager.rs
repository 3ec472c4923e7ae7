//! Secrets in cloud services, named by URL.
//!
//! - `awssecret://NAME?region=…` (`endpoint=`, `profile=`), also with the ARN instead of the name,
//!   or the ARN alone,
//! - `gcpsecret://projects/P/secrets/S` (`endpoint=`, `credentials=`), with `/versions/V` for a
//!   version other than the latest.

use std::fmt;
use std::io;
use std::path::Path;

use lucarne_storage::object::{Gcs, S3};
use lucarne_storage::secrets;
use url::{Host, Url};

/// Place of a secret in a cloud service. The place itself is not secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manager {
    /// AWS Secrets Manager.
    Aws {
        /// Name or ARN.
        name: String,
        /// Region, endpoint and profile; the bucket is unused.
        place: S3,
    },
    /// GCP Secret Manager.
    Gcp {
        /// `projects/…/secrets/…/versions/…`
        version: String,
        /// Endpoint and credentials; the bucket is unused.
        place: Gcs,
    },
}

/// Reasons why a text does not name a cloud secret. The text follows the value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManagerError {
    #[error(
        "is not a valid place of a key: write a file's path, credential:NAME, env:NAME, \
         exec:COMMAND, awssecret://NAME or gcpsecret://projects/P/secrets/S"
    )]
    Scheme,
    #[error(
        "is not the ARN of a secret: expected arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME"
    )]
    Arn,
    #[error("is not a GCP secret: expected gcpsecret://projects/PROJECT/secrets/SECRET")]
    Gcp,
    #[error(
        "has an invalid secret name: expected ASCII letters, digits and `/_+=.@-:`, without an \
         empty part between two `/`"
    )]
    Name,
    #[error("has the unknown parameter `{name}`; known: {known}")]
    Parameter { name: String, known: String },
}

/// Reasons why a secret cannot be fetched. The text follows the place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("cannot be fetched: {0}")]
    Runtime(#[source] io::Error),
    /// The fetching thread panicked.
    #[error("cannot be fetched: internal error (details above). Please report it")]
    Bug,
    #[error(transparent)]
    Service(#[from] secrets::SecretError),
    #[error("cannot be fetched: the response is not valid JSON")]
    NoJson(#[source] serde_json::Error),
    #[error("cannot be fetched: the value is not valid base64")]
    NoBase64(#[source] base64_simd::Error),
    #[error("cannot be fetched: the response has no value")]
    NoValue,
    #[error("cannot be fetched: the value does not match its checksum (dataCrc32c)")]
    Damaged,
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
    /// Parses a URL or an ARN; returns `None` for any other text. Paths in the URL are relative to
    /// `directory`.
    pub(super) fn parse(text: &str, directory: &Path) -> Option<Result<Self, ManagerError>> {
        let (scheme, place) = if text.starts_with("arn:") {
            ("awssecret", text)
        } else {
            text.split_once("://")?
        };
        let (name, query) = place.split_once('?').unwrap_or((place, ""));
        Some(match scheme {
            "awssecret" => aws(name, query),
            "gcpsecret" => gcp(name, query, directory),
            _ => Err(ManagerError::Scheme),
        })
    }

    /// Returns the endpoint if the connection to it is unencrypted and leaves this machine.
    pub(super) fn exposed(&self) -> Option<&str> {
        let endpoint = match self {
            Manager::Aws { place, .. } => place.endpoint.as_deref()?,
            Manager::Gcp { place, .. } => place.endpoint.as_deref()?,
        };
        is_exposed(endpoint).then_some(endpoint)
    }

    /// Returns the file with the credentials that fetch the secret, if the URL names one.
    pub(super) fn credentials(&self) -> Option<&Path> {
        match self {
            Manager::Aws { .. } => None,
            Manager::Gcp { place, .. } => place.credentials.as_deref(),
        }
    }

    /// Fetches the secret: a seed of 32 bytes, its base64, or PEM.
    ///
    /// # Errors
    /// [`FetchError`], whose text follows [`Display`](fmt::Display).
    pub(super) fn fetch(&self) -> Result<Vec<u8>, FetchError> {
        match self {
            Manager::Aws { name, place } => aws_value(&response(secrets::aws(name, place))?),
            Manager::Gcp { version, place } => gcp_value(&response(secrets::gcp(version, place))?),
        }
    }
}

fn aws(name: &str, query: &str) -> Result<Manager, ManagerError> {
    let [region, endpoint, profile] = parameters(query, ["region", "endpoint", "profile"])?;
    let its = match name.split(':').collect::<Vec<_>>()[..] {
        [_] => None,
        ["arn", _, "secretsmanager", region, _, "secret", _] => Some(region.to_owned()),
        _ => return Err(ManagerError::Arn),
    };
    if !plain(name) {
        return Err(ManagerError::Name);
    }
    let place = S3 {
        region: region.or(its),
        endpoint,
        // An explicit `http://` URL is intended.
        allow_http: true,
        profile,
        ..S3::default()
    };
    Ok(Manager::Aws {
        name: name.to_owned(),
        place,
    })
}

fn gcp(name: &str, query: &str, directory: &Path) -> Result<Manager, ManagerError> {
    let [endpoint, credentials] = parameters(query, ["endpoint", "credentials"])?;
    let version = match name.split('/').collect::<Vec<_>>()[..] {
        ["projects", _, "secrets", _] => format!("{name}/versions/latest"),
        ["projects", _, "secrets", _, "versions", _] => name.to_owned(),
        _ => return Err(ManagerError::Gcp),
    };
    if !plain(name) {
        return Err(ManagerError::Name);
    }
    let anonymous = credentials.as_deref() == Some("none");
    let place = Gcs {
        endpoint,
        allow_http: true,
        anonymous,
        credentials: credentials
            .filter(|_| !anonymous)
            .map(|file| directory.join(file)),
        ..Gcs::default()
    };
    Ok(Manager::Gcp { version, place })
}

/// Checks a name that becomes part of a path or an ARN: only safe characters, and no empty element.
fn plain(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "/_+=.@-:".contains(c);
    name.chars().all(allowed) && name.split('/').all(|part| !part.is_empty())
}

/// Returns the parameters after the `?` of a URL, in the order of `names`.
fn parameters<const N: usize>(
    query: &str,
    names: [&str; N],
) -> Result<[Option<String>; N], ManagerError> {
    let mut values = [const { None }; N];
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let Some(place) = names.iter().position(|name| *name == key) else {
            return Err(ManagerError::Parameter {
                name: key.into_owned(),
                known: names.join(", "),
            });
        };
        values[place] = Some(value.into_owned());
    }
    Ok(values)
}

/// Runs the request to its end, inside or outside of a runtime.
fn response<B: AsRef<[u8]> + Send>(
    asked: impl Future<Output = Result<B, secrets::SecretError>> + Send,
) -> Result<serde_json::Value, FetchError> {
    let body = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(FetchError::Runtime)?;
            runtime.block_on(asked).map_err(FetchError::Service)
        });
        let joined = waiting.join();
        joined.map_err(|_| FetchError::Bug)?
    })?;
    serde_json::from_slice(body.as_ref()).map_err(FetchError::NoJson)
}

/// Decodes the base64 of `SecretBinary` or `payload.data`.
fn decoded(text: &str) -> Result<Vec<u8>, FetchError> {
    let decoded = base64_simd::STANDARD.decode_to_vec(text);
    decoded.map_err(FetchError::NoBase64)
}

fn aws_value(response: &serde_json::Value) -> Result<Vec<u8>, FetchError> {
    match (
        response["SecretString"].as_str(),
        response["SecretBinary"].as_str(),
    ) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(binary)) => decoded(binary),
        (None, None) => Err(FetchError::NoValue),
    }
}

/// Returns the value of a GCP secret. Verifies its checksum if there is one.
fn gcp_value(response: &serde_json::Value) -> Result<Vec<u8>, FetchError> {
    let payload = &response["payload"];
    let data = payload["data"].as_str().ok_or(FetchError::NoValue)?;
    let value = decoded(data)?;
    // Google's JSON has 64-bit integers as strings.
    let sum = match &payload["dataCrc32c"] {
        serde_json::Value::Null => return Ok(value),
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    if sum == Some(u64::from(crc32c(&value))) {
        Ok(value)
    } else {
        Err(FetchError::Damaged)
    }
}

/// CRC-32C (RFC 3720, section 12.1), bit by bit because keys are small.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32, _| (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
    let add = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    !bytes.iter().fold(u32::MAX, add)
}

/// Returns whether requests to this URL leave the machine without TLS.
pub(super) fn is_exposed(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    let leaves = match url.host() {
        Some(Host::Ipv4(address)) => !address.is_loopback(),
        Some(Host::Ipv6(address)) => !address.is_loopback(),
        Some(Host::Domain(name)) => name != "localhost",
        None => false,
    };
    url.scheme() == "http" && leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Manager, ManagerError> {
        Manager::parse(text, Path::new("/etc/lucarne")).unwrap()
    }

    #[test]
    fn aws_secrets_have_urls_and_arns() {
        let arn = "arn:aws:secretsmanager:eu-central-1:123:secret:ct/a-AbCdEf";
        for (text, whose, region, endpoint) in [
            ("awssecret://CT/2026h1", "CT/2026h1", None, None),
            ("awssecret://ct@x?region=eu", "ct@x", Some("eu"), None),
            (arn, arn, Some("eu-central-1"), None),
            (
                &format!("{arn}?endpoint=http://h:1"),
                arn,
                Some("eu-central-1"),
                Some("http://h:1"),
            ),
            (
                &format!("awssecret://{arn}?region=eu&endpoint=http://h:1"),
                arn,
                Some("eu"),
                Some("http://h:1"),
            ),
        ] {
            let Ok(Manager::Aws { name, place }) = parse(text) else {
                panic!("{text}");
            };
            assert_eq!(name, whose);
            assert_eq!(place.region.as_deref(), region, "{text}");
            assert_eq!(place.endpoint.as_deref(), endpoint, "{text}");
        }
    }

    #[test]
    fn gcp_secrets_have_urls() {
        let secret = "gcpsecret://projects/p/secrets/s";
        let shown = |text: &str| parse(text).unwrap().to_string();
        let latest = "GCP secret `projects/p/secrets/s/versions/latest`";
        assert_eq!(shown(secret), latest);
        let third = shown(&format!("{secret}/versions/3"));
        assert_eq!(third, "GCP secret `projects/p/secrets/s/versions/3`");
        let credentials = |value: &str| match parse(&format!("{secret}?credentials={value}")) {
            Ok(Manager::Gcp { place, .. }) => (place.anonymous, place.credentials),
            other => panic!("{other:?}"),
        };
        assert_eq!(credentials("none"), (true, None));
        let file = Some("/etc/lucarne/gcp.json".into());
        assert_eq!(credentials("gcp.json"), (false, file));
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        for wrong in [
            "arn:aws:s3:::bucket",
            "awssecret://",
            "awssecret://a?key=1",
            "awssecret://a\"b",
            "awssecret://a\\b",
            "gcpsecret://p/s",
            "gcpsecret://projects//secrets/s",
            "gcpsecret://projects/p/secrets/s?region=eu",
            "vault://x",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(Manager::parse("keys/a.seed", Path::new("")).is_none());
    }

    #[test]
    fn a_key_that_travels_openly_is_noticed() {
        let exposed = |endpoint: &str| {
            let text = format!("awssecret://a?endpoint={endpoint}");
            parse(&text).unwrap().exposed().is_some()
        };
        assert!(exposed("http://secrets.example:5000"));
        for safe in [
            "https://secrets.example",
            "http://127.0.0.1:1",
            "http://[::1]:1",
        ] {
            assert!(!exposed(safe), "{safe}");
        }
    }

    /// Test vectors of RFC 3720, appendix B.4.
    #[test]
    fn checksums_are_those_of_the_rfc() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
    }
}

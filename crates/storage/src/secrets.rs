//! Keys in a cloud's keeping: AWS Secrets Manager, GCP Secret Manager.
//!
//! One request each, by the client and the credentials that object stores are
//! reached with.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use object_store::ClientOptions;
use object_store::client::{HttpConnector, HttpRequestBody};

use crate::object::{Patience, failure, http::Connector};
use crate::{Error, Stats};

/// Asks AWS Secrets Manager for the newest version of a secret, by its name or
/// ARN: the body of its answer, which is JSON with `SecretString` or
/// `SecretBinary`. Without an `endpoint` it is Amazon's in that region.
///
/// # Errors
///
/// [`Error::Configuration`], [`Error::Refused`], [`Error::Store`] or
/// [`Error::Unavailable`].
#[cfg(feature = "aws-secrets")]
pub async fn aws(
    name: &str,
    region: Option<&str>,
    endpoint: Option<&str>,
    profile: Option<&str>,
) -> Result<Bytes, Error> {
    use object_store::aws::AwsAuthorizer;

    const ACTION: &str = "fetch the secret";
    let settings = crate::object::S3 {
        // Any will do: what is wanted are credentials and the region.
        bucket: "none".into(),
        region: region.map(Into::into),
        profile: profile.map(Into::into),
        ..crate::object::S3::default()
    };
    let (client, region) = settings.client(connector(), Patience::hasty().retry())?;
    let credential = client.credentials().get_credential().await;
    let credential = credential.map_err(|e| failure::sort(ACTION, name.into(), &e))?;
    let server = match endpoint {
        Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
        None => format!("https://secretsmanager.{region}.amazonaws.com"),
    };
    let asked = format!("{{\"SecretId\": \"{name}\"}}");
    let request = Request::post(format!("{server}/"))
        .header("content-type", "application/x-amz-json-1.1")
        .header("x-amz-target", "secretsmanager.GetSecretValue")
        .body(HttpRequestBody::from(asked));
    let mut request = request.map_err(|_| wrong(name))?;
    AwsAuthorizer::new(&credential, "secretsmanager", &region)
        .try_authorize(&mut request, None)
        .map_err(|e| failure::sort(ACTION, name.into(), &e))?;
    exchange(name, request).await
}

/// Asks GCP Secret Manager for a version of a secret, such as
/// `projects/p/secrets/s/versions/latest`: the body of its answer, which is
/// JSON with `payload.data`.
///
/// # Errors
///
/// As those of AWS.
#[cfg(feature = "gcp-secrets")]
pub async fn gcp(version: &str, endpoint: Option<&str>) -> Result<Bytes, Error> {
    let settings = crate::object::Gcs {
        bucket: "none".into(),
        ..crate::object::Gcs::default()
    };
    let server = endpoint.unwrap_or("https://secretmanager.googleapis.com");
    let server = server.trim_end_matches('/');
    let mut request = Request::get(format!("{server}/v1/{version}:access"));
    // An emulator asks for no token.
    if endpoint.is_none() {
        let client = settings.client(connector(), Patience::hasty().retry())?;
        let credential = client.credentials().get_credential().await;
        let credential =
            credential.map_err(|e| failure::sort("fetch the secret", version.into(), &e))?;
        request = request.header("authorization", format!("Bearer {}", credential.bearer));
    }
    let request = request.body(HttpRequestBody::empty());
    exchange(version, request.map_err(|_| wrong(version))?).await
}

fn connector() -> Connector {
    Connector {
        patience: Patience::default(),
        stats: Arc::new(Stats::default()),
        accept_gzip: false,
    }
}

fn wrong(name: &str) -> Error {
    Error::Configuration {
        problem: format!("{name} or its endpoint makes no URL"),
    }
}

async fn exchange(name: &str, request: Request<HttpRequestBody>) -> Result<Bytes, Error> {
    let (action, place) = ("fetch the secret", name.to_owned());
    let lost = |detail: String| Error::Unavailable {
        action,
        place: name.to_owned(),
        detail,
    };
    let client = connector().connect(&ClientOptions::default());
    let client = client.map_err(|e| lost(e.to_string()))?;
    let answer = client.execute(request).await;
    let answer = answer.map_err(|e| lost(e.to_string()))?;
    let status = answer.status();
    let body = answer.into_body().bytes().await;
    let body = body.map_err(|e| lost(e.to_string()))?;
    if status.is_success() {
        return Ok(body);
    }
    // Says what is wrong, and has no secret: there was none.
    let said: String = String::from_utf8_lossy(&body).chars().take(300).collect();
    let detail = format!(
        "{status}: {}",
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    Err(match status.as_u16() {
        401 | 403 => Error::Refused {
            action,
            place,
            detail,
        },
        429 | 500.. => lost(detail),
        _ if said.contains("AccessDenied") || said.contains("UnrecognizedClient") => {
            Error::Refused {
                action,
                place,
                detail,
            }
        }
        _ => Error::Store {
            action,
            place,
            detail,
        },
    })
}

//! Requests for keys in secret managers, with the HTTP client and credentials of object stores.
//! Each request is retried a few times if the service is temporarily unavailable.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use object_store::ClientOptions;
use object_store::aws::AwsAuthorizer;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequestBody};
use serde_json::Value;

use crate::object::connect::endpoint_url;
use crate::object::http::Connector;
use crate::object::{Gcs, RequestPolicy, S3, failure};
use crate::secrets::SecretError;
use crate::{AssetError, Stats};

/// Pauses before each retry. Longer outages are left to the service manager that restarts the
/// process.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1600),
];

/// Reads the current version of a secret from AWS Secrets Manager, by its name or ARN. Returns the
/// response body, which is JSON with `SecretString` or `SecretBinary`. The bucket of `place` is
/// ignored; without an endpoint, Amazon's endpoint of the region is used.
///
/// # Errors
///
/// Any [`SecretError`].
pub async fn aws(name: &str, place: &S3) -> Result<Bytes, SecretError> {
    const SERVICE: &str = "secretsmanager";
    let mut settings = place.clone();
    settings.bucket = "none".into();
    let (client, region) = settings
        .client(connector(), RequestPolicy::hasty().retry())
        .map_err(misconfigured)?;
    // The region becomes part of a host name and of a header.
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if region.is_empty() || !region.chars().all(plain) {
        let problem = format!("{region:?} is not a valid region");
        return Err(SecretError::Configuration(problem));
    }
    let domain = if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    };
    let server = server(place.endpoint.as_deref(), || {
        format!("https://{SERVICE}.{region}.{domain}")
    })?;
    let credential = client.credentials().get_credential().await;
    let credential = credential.map_err(|error| anonymous(&error))?;
    let request = Request::post(format!("{server}/"))
        .header("content-type", "application/x-amz-json-1.1")
        .header("x-amz-target", "secretsmanager.GetSecretValue")
        .body(HttpRequestBody::from(question(name)));
    let mut request = request.map_err(|error| SecretError::Configuration(error.to_string()))?;
    AwsAuthorizer::new(&credential, SERVICE, &region)
        .try_authorize(&mut request, None)
        .map_err(|error| anonymous(&error))?;
    let service = Service {
        server: format!("{server} in {region}"),
        permission: "secretsmanager:GetSecretValue",
    };
    service.ask(request).await
}

fn question(name: &str) -> String {
    serde_json::json!({ "SecretId": name }).to_string()
}

/// Reads a version of a secret from GCP Secret Manager, such as
/// `projects/p/secrets/s/versions/latest`. Returns the response body, which is JSON with
/// `payload.data`. The bucket of `place` is ignored.
///
/// # Errors
///
/// Any [`SecretError`].
pub async fn gcp(version: &str, place: &Gcs) -> Result<Bytes, SecretError> {
    let mut settings = place.clone();
    settings.bucket = "none".into();
    let client = settings
        .client(connector(), RequestPolicy::hasty().retry())
        .map_err(misconfigured)?;
    let server = server(place.endpoint.as_deref(), || {
        "https://secretmanager.googleapis.com".into()
    })?;
    let mut request = Request::get(format!("{server}/v1/{version}:access"));
    if !place.anonymous {
        let credential = client.credentials().get_credential().await;
        let credential = credential.map_err(|error| anonymous(&error))?;
        request = request.header("authorization", format!("Bearer {}", credential.bearer));
    }
    let request = request.body(HttpRequestBody::empty());
    let request = request.map_err(|error| SecretError::Configuration(error.to_string()))?;
    let service = Service {
        server,
        permission: "secretmanager.versions.access",
    };
    service.ask(request).await
}

fn connector() -> Connector {
    Connector {
        policy: RequestPolicy {
            hedge: None,
            ..RequestPolicy::default()
        },
        stats: Arc::new(Stats::default()),
        accept_gzip: false,
    }
}

/// Returns the URL of the server without a trailing slash.
fn server(endpoint: Option<&str>, usual: impl FnOnce() -> String) -> Result<String, SecretError> {
    let Some(endpoint) = endpoint else {
        return Ok(usual());
    };
    let url = endpoint_url(endpoint, true).map_err(misconfigured)?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn misconfigured(error: AssetError) -> SecretError {
    SecretError::Configuration(match error {
        AssetError::Configuration { problem } => problem,
        other => other.to_string(),
    })
}

fn anonymous(error: &object_store::Error) -> SecretError {
    SecretError::Credentials(failure::detail(error))
}

/// The secret manager of a request: its URL and the required permission, for messages.
struct Service {
    server: String,
    permission: &'static str,
}

impl Service {
    async fn ask(&self, request: Request<HttpRequestBody>) -> Result<Bytes, SecretError> {
        let client = connector().connect(&ClientOptions::default());
        let client = client.map_err(|error| self.unavailable(error.to_string()))?;
        let mut pauses = PAUSES.into_iter();
        loop {
            match (self.exchange(&client, request.clone()).await, pauses.next()) {
                (Err(SecretError::Unavailable { .. }), Some(pause)) => {
                    // Wait until the service may be available again.
                    tokio::time::sleep(pause).await;
                }
                (response, _) => return response,
            }
        }
    }

    async fn exchange(
        &self,
        client: &HttpClient,
        request: Request<HttpRequestBody>,
    ) -> Result<Bytes, SecretError> {
        // The text of the outer error has no details.
        let lost = |error: HttpError| {
            let cause = error.source().map(ToString::to_string);
            self.unavailable(cause.unwrap_or_else(|| error.to_string()))
        };
        let response = client.execute(request).await.map_err(lost)?;
        let status = response.status();
        let body = response.into_body().bytes().await.map_err(lost)?;
        if status.is_success() {
            Ok(body)
        } else {
            Err(self.sort(status, &body))
        }
    }

    /// Classifies a response without a secret. AWS sends `__type` and a message, GCP an `error`
    /// with `status` and message.
    fn sort(&self, status: StatusCode, body: &[u8]) -> SecretError {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let code = text(&said["__type"]).or_else(|| text(&said["error"]["status"]));
        let code = code.unwrap_or_default();
        // `com.amazonaws.secretsmanager#ResourceNotFoundException`
        let code = code.rsplit('#').next().unwrap_or_default();
        let message = [
            &said["message"],
            &said["Message"],
            &said["error"]["message"],
        ];
        let message = message.into_iter().find_map(text);
        let detail = match message {
            Some(message) => format!("{code}: {message}"),
            None if !code.is_empty() => code.to_owned(),
            None => format!("{status} {}", String::from_utf8_lossy(body)),
        };
        let (server, detail) = (self.server.clone(), failure::line(&detail));
        match (status.as_u16(), code) {
            (_, "ResourceNotFoundException" | "NOT_FOUND") => {
                SecretError::Absent { server, detail }
            }
            (_, "ThrottlingException") | (408 | 429 | 500.., _) => self.unavailable(detail),
            (401 | 403, _) => self.refused(detail),
            (_, code) if UNKNOWN.contains(&code) => self.refused(detail),
            _ => SecretError::Response { server, detail },
        }
    }

    fn refused(&self, detail: String) -> SecretError {
        SecretError::Refused {
            server: self.server.clone(),
            permission: self.permission,
            detail,
        }
    }

    fn unavailable(&self, detail: String) -> SecretError {
        SecretError::Unavailable {
            server: self.server.clone(),
            detail,
        }
    }
}

/// The error codes of AWS (status 400) for rejected credentials.
const UNKNOWN: [&str; 7] = [
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_breaks_the_question() {
        for name in ["ct/2026h1", "a\"b", "a\\", "\", \"VersionId\": \"x"] {
            let asked: Value = serde_json::from_str(&question(name)).unwrap();
            assert_eq!(asked, serde_json::json!({ "SecretId": name }));
        }
    }

    #[test]
    fn answers_are_told_apart() {
        let sorted = |status: u16, body: &str| {
            let service = Service {
                server: "https://cloud.example".into(),
                permission: "secrets:read",
            };
            let status = StatusCode::from_u16(status).unwrap();
            service.sort(status, body.as_bytes())
        };
        let aws = |code: &str| format!(r#"{{"__type": "{code}", "Message": "no"}}"#);
        let gcp = |code: &str| format!(r#"{{"error": {{"status": "{code}", "message": "no"}}}}"#);
        for body in [
            aws("com.amazonaws#ResourceNotFoundException"),
            gcp("NOT_FOUND"),
        ] {
            assert!(matches!(sorted(400, &body), SecretError::Absent { .. }));
        }
        let denied = sorted(400, &aws("AccessDeniedException"));
        let said = "is refused by https://cloud.example (AccessDeniedException: no). Check the \
                    credentials, and that they have the permission secrets:read";
        assert_eq!(denied.to_string(), said);
        let denied = sorted(403, &gcp("PERMISSION_DENIED"));
        assert!(matches!(denied, SecretError::Refused { .. }));
        let busy = sorted(400, &aws("ThrottlingException"));
        assert!(matches!(busy, SecretError::Unavailable { .. }));
        let busy = sorted(503, "<html>");
        assert!(matches!(busy, SecretError::Unavailable { .. }));
        let elsewhere = sorted(404, "<html>\nno page");
        let said =
            "cannot be fetched: https://cloud.example responded with 404 Not Found <html> no page";
        assert_eq!(elsewhere.to_string(), said);
    }
}

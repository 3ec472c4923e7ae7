//! Orders and authorisations in the server's responses (RFC 8555, section 7.1).

use std::fmt;

use lucarne_load::http::Response;
use lucarne_settings::values::rfc3339;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::directory::UrlError;
use crate::option_values::Timestamp;

/// Status of an order, an authorisation or a challenge (RFC 8555, section 7.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OrderStatus {
    Pending,
    Ready,
    Processing,
    Valid,
    Invalid,
    Deactivated,
    Expired,
    Revoked,
}

impl OrderStatus {
    /// Returns whether the status can still change by waiting.
    pub(super) fn is_open(self) -> bool {
        matches!(
            self,
            OrderStatus::Pending | OrderStatus::Ready | OrderStatus::Processing
        )
    }
}

/// An order (RFC 8555, section 7.1.3).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Order {
    pub(super) status: OrderStatus,
    pub(super) expires: Option<Timestamp>,
    pub(super) identifiers: Vec<Identifier>,
    /// Renewal id of the certificate that the order replaces (RFC 9773, section 5).
    pub(super) replaces: Option<String>,
    pub(super) authorizations: Vec<String>,
    pub(super) finalize: String,
    pub(super) certificate: Option<String>,
    pub(super) error: Option<Value>,
}

/// An authorisation (RFC 8555, section 7.1.4).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Authorization {
    pub(super) status: OrderStatus,
    pub(super) expires: Option<Timestamp>,
    pub(super) identifier: Identifier,
    #[serde(default)]
    pub(super) challenges: Vec<Challenge>,
}

/// A name to prove (RFC 8555, section 9.7.7).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Identifier {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) value: String,
}

impl Identifier {
    pub(super) fn dns(name: &str) -> Self {
        let (kind, value) = ("dns".to_owned(), name.to_lowercase());
        Self { kind, value }
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.value)
    }
}

/// A challenge (RFC 8555, section 8).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Challenge {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) url: String,
    /// Token; empty for types of challenges without a token.
    #[serde(default)]
    pub(super) token: String,
    pub(super) error: Option<Value>,
}

impl Authorization {
    /// Returns the challenge of this type.
    pub(super) fn challenge(&self, kind: &str) -> Option<&Challenge> {
        self.challenges
            .iter()
            .find(|challenge| challenge.kind == kind && !challenge.token.is_empty())
    }

    /// Returns the server's errors that prevented the authorisation.
    pub(super) fn reason(&self) -> String {
        let errors = self.challenges.iter().filter_map(|it| it.error.as_ref());
        let errors: Vec<_> = errors.map(Value::to_string).collect();
        format!("{}: {}", self.identifier.value, errors.join("; "))
    }
}

/// A body is not a document of the requested kind.
#[derive(Debug, thiserror::Error)]
#[error("invalid {kind}: {source}: {excerpt}")]
pub(super) struct DocumentError {
    kind: &'static str,
    source: serde_json::Error,
    excerpt: String,
}

/// The reasons why a new order cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("the response with the new order has no Location")]
    NoLocation,
    #[error(transparent)]
    Location(#[from] UrlError),
    /// The order has nothing to prove, or cannot become valid.
    #[error("expected a new order with authorizations, found an order {status:?}: {excerpt}")]
    Status {
        status: OrderStatus,
        excerpt: String,
    },
}

/// The reasons why renewal information cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RenewalInfoError {
    #[error("the directory has no renewalInfo")]
    NotOffered,
    #[error("the renewal information has no Retry-After")]
    NoRetryAfter,
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(
        "the suggested window must end after its start, {}; its end is {}",
        rfc3339(start.unix_ms),
        rfc3339(end.unix_ms)
    )]
    Window { start: Timestamp, end: Timestamp },
}

/// The suggested renewal time of certificates (RFC 9773, section 4.2).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RenewalInfo {
    suggested_window: Window,
}

#[derive(Clone, Debug, Deserialize)]
struct Window {
    start: Timestamp,
    end: Timestamp,
}

impl RenewalInfo {
    /// Checks that the window is valid.
    pub(super) fn check(&self) -> Result<(), RenewalInfoError> {
        let Window { start, end } = self.suggested_window;
        if start < end {
            Ok(())
        } else {
            Err(RenewalInfoError::Window { start, end })
        }
    }
}

/// Parses the body of a response. `kind` names the document in the error.
///
/// # Errors
/// If the body is not a valid document.
pub(super) fn read<T: DeserializeOwned>(
    response: &Response,
    kind: &'static str,
) -> Result<T, DocumentError> {
    serde_json::from_slice(&response.body).map_err(|source| DocumentError {
        kind,
        source,
        excerpt: response.excerpt(),
    })
}

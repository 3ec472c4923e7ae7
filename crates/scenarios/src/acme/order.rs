//! Orders and authorisations, as a server tells of them (RFC 8555 7.1).

use lucarne_load::http::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::option_values::Timestamp;

/// The status of an order, an authorisation or a challenge (RFC 8555 7.1.6).
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
    /// Returns whether waiting can still help.
    pub(super) fn is_open(self) -> bool {
        matches!(
            self,
            OrderStatus::Pending | OrderStatus::Ready | OrderStatus::Processing
        )
    }
}

/// An order (RFC 8555 7.1.3).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Order {
    pub(super) status: OrderStatus,
    pub(super) authorizations: Vec<String>,
    pub(super) finalize: String,
    pub(super) certificate: Option<String>,
    pub(super) error: Option<Value>,
}

/// An authorisation (RFC 8555 7.1.4).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Authorization {
    pub(super) status: OrderStatus,
    pub(super) identifier: Identifier,
    #[serde(default)]
    pub(super) challenges: Vec<Challenge>,
}

/// The name that is to be proven.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Identifier {
    pub(super) value: String,
}

/// One way to prove it (RFC 8555 8).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Challenge {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) url: String,
    /// Not every type has one.
    #[serde(default)]
    pub(super) token: String,
    pub(super) error: Option<Value>,
}

impl Authorization {
    /// The challenge of this type.
    pub(super) fn challenge(&self, kind: &str) -> Option<&Challenge> {
        self.challenges
            .iter()
            .find(|challenge| challenge.kind == kind && !challenge.token.is_empty())
    }

    /// The reason why it did not become valid, in the server's words.
    pub(super) fn reason(&self) -> String {
        let errors = self.challenges.iter().filter_map(|it| it.error.as_ref());
        let errors: Vec<_> = errors.map(Value::to_string).collect();
        format!("{}: {}", self.identifier.value, errors.join("; "))
    }
}

/// The time at which certificates had better be renewed (RFC 9773 4.2).
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
    /// Returns whether it makes sense.
    pub(super) fn check(&self) -> Result<(), String> {
        let Window { start, end } = self.suggested_window;
        match start < end {
            true => Ok(()),
            false => Err("the suggested window ends before it begins".to_owned()),
        }
    }
}

/// A body of this kind.
///
/// # Errors
/// In words: it is something else.
pub(super) fn read<T: DeserializeOwned>(response: &Response, what: &str) -> Result<T, String> {
    serde_json::from_slice(&response.body)
        .map_err(|error| format!("that is no {what}: {error}: {}", response.excerpt()))
}

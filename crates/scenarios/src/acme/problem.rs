use lucarne_load::Failure;
use lucarne_load::http::{Response, kind};
use serde::Deserialize;

/// A problem document (RFC 7807) of ACME (RFC 8555, section 6.7).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Problem {
    /// URN below `urn:ietf:params:acme:error:`.
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    detail: String,
}

const NAMESPACE: &str = "urn:ietf:params:acme:error:";

impl Problem {
    /// Parses the problem document of a response.
    ///
    /// # Errors
    /// Returns a description if there is no valid document.
    pub(super) fn read(response: &Response) -> Result<Self, String> {
        let problem: Self = serde_json::from_slice(&response.body).map_err(|error| {
            format!(
                "{} without a problem document: {error}: {}",
                response.status,
                response.excerpt()
            )
        })?;
        if problem.kind.starts_with(NAMESPACE) {
            Ok(problem)
        } else {
            Err(format!("`{}` is not an error type of ACME", problem.kind))
        }
    }

    /// Returns whether the problem has this type.
    pub(super) fn is(&self, name: &str) -> bool {
        self.kind.strip_prefix(NAMESPACE) == Some(name)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.kind.strip_prefix(NAMESPACE).unwrap_or(&self.kind);
        write!(f, "{name}: {}", self.detail)
    }
}

/// Describes a response with an unexpected status, including the server's explanation.
pub(super) fn unexpected(response: &Response) -> Failure {
    let words = match Problem::read(response) {
        Ok(problem) => problem.to_string(),
        Err(_) => response.excerpt(),
    };
    Failure::new(kind::STATUS, format!("{} {words}", response.status))
}

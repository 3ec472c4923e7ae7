use lucarne_load::Failure;
use lucarne_load::http::{Response, kind};
use serde::Deserialize;

use super::media_type::MediaTypeError;

/// A problem document (RFC 7807) of ACME (RFC 8555, section 6.7).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Problem {
    /// URN below `urn:ietf:params:acme:error:`.
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    detail: String,
}

/// The reasons why a response is not a problem document of ACME.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProblemError {
    #[error("status {status}: {source}: {excerpt}")]
    MediaType {
        status: u16,
        source: MediaTypeError,
        excerpt: String,
    },
    #[error("status {status} without a problem document: {source}: {excerpt}")]
    Json {
        status: u16,
        source: serde_json::Error,
        excerpt: String,
    },
    #[error("`{0}` is not an error type of ACME")]
    Type(String),
}

const NAMESPACE: &str = "urn:ietf:params:acme:error:";

impl Problem {
    /// Parses the problem document of a response.
    ///
    /// # Errors
    /// If there is no valid document.
    pub(super) fn read(response: &Response) -> Result<Self, ProblemError> {
        let problem = serde_json::from_slice::<Self>(&response.body);
        let problem = problem.map_err(|source| ProblemError::Json {
            status: response.status,
            source,
            excerpt: response.excerpt(),
        })?;
        if problem.kind.starts_with(NAMESPACE) {
            Ok(problem)
        } else {
            Err(ProblemError::Type(problem.kind))
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

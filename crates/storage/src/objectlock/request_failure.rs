//! Failures of requests to the store of a lock.

use object_store::Error;

use crate::object::failure;

/// The reasons why a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The stored object is not the object that the request expects.
    Lost,
    /// The content and the e-tag belong to two different objects.
    Torn,
    /// The store confirmed a put, and returned the version of the old object.
    NotStored,
    Silence,
    Store(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if failure::is_lost(&error) {
            Self::Lost
        } else {
            Self::Store(error)
        }
    }
}

impl From<tokio::time::error::Elapsed> for Failure {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self::Silence
    }
}

impl Failure {
    /// Returns `true` if the next attempt would fail in the same way.
    pub(super) fn is_final(&self) -> bool {
        use crate::AssetError::{NoBucket, Refused, Unsuitable, Untrusted};
        let error = match self {
            Self::Store(error) => error,
            Self::NotStored => return true,
            Self::Lost | Self::Torn | Self::Silence => return false,
        };
        let sorted = failure::sort("", String::new(), error);
        matches!(
            error,
            Error::NotFound { .. }
                | Error::InvalidPath { .. }
                | Error::NotSupported { .. }
                | Error::NotImplemented { .. }
                | Error::PermissionDenied { .. }
                | Error::Unauthenticated { .. }
                | Error::UnknownConfigurationKey { .. }
        ) || matches!(
            sorted,
            NoBucket { .. } | Refused { .. } | Unsuitable { .. } | Untrusted { .. }
        )
    }

    /// Returns `true` if the store is unavailable: without a response, or with a generic error.
    pub(super) fn is_absence(&self) -> bool {
        matches!(self, Self::Silence | Self::Store(Error::Generic { .. }))
    }

    /// Describes the failure and the remedy for the usual cases.
    pub(super) fn message(&self) -> String {
        let (said, advice) = match self {
            // A caller reads the object after a lost put, and repeats the put only if no other
            // process has written the object.
            Self::Lost => (
                "the store refuses puts with the right condition (e-tag)",
                "use another store, or an SQL database for the lock",
            ),
            Self::Torn => (
                "an object does not match its e-tag",
                "find out who writes to this prefix",
            ),
            Self::NotStored => (
                "the store confirmed a put, but kept the old object",
                "use another store, or an SQL database for the lock",
            ),
            Self::Silence => ("no response in time", "check the store and the network"),
            Self::Store(error) => return said(error),
        };
        format!("{said}; {advice}")
    }
}

/// Returns the store's response and the remedy.
fn said(error: &Error) -> String {
    let detail = failure::detail(error);
    use crate::AssetError::{NoBucket, Store, Unavailable, Unsuitable};
    match (error, failure::sort("", String::new(), error)) {
        // For a put, "not found" means that the bucket is absent.
        (_, NoBucket { .. }) | (Error::NotFound { .. }, Store { .. } | Unavailable { .. }) => {
            format!("{detail}; no such bucket: check its name, region and endpoint")
        }
        (_, crate::AssetError::ClockSkew { .. }) => format!(
            "this machine's clock and the store's are too far apart ({detail}); set the clock"
        ),
        (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }, _)
        | (_, crate::AssetError::Refused { .. }) => format!(
            "the store refuses the request ({detail}). Check the credentials and their \
             permissions to get, put and delete objects under this prefix"
        ),
        (_, crate::AssetError::Untrusted { .. }) => format!(
            "the store's certificate is not trusted ({detail}). If the endpoint is correct, add \
             its certificate authority to the system's certificates, or name its file in \
             SSL_CERT_FILE"
        ),
        (_, Unsuitable { .. }) => format!(
            "the store is unsuitable for a lock ({detail}); use another store, or an SQL database"
        ),
        (_, Unavailable { .. }) => {
            format!("the store is unavailable ({detail})")
        }
        _ => detail,
    }
}

//! Sockets to listen on.

use anyhow::{Result, anyhow};
use lucarne_http::{BindError, Listener};

use crate::config::Listen;

/// Binds the first address of `place` that can be bound. `option` names what
/// gives another place, for messages.
///
/// # Errors
/// Why none could, and what to do.
pub(crate) async fn bind(place: &Listen, option: &str) -> Result<Listener> {
    let mut failure = None;
    for address in &place.addresses {
        match Listener::bind(&address.to_string()).await {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(match failure {
        None => anyhow!("cannot listen on {place}: it resolves to no address"),
        Some(BindError::Taken { .. }) => anyhow!(
            "cannot listen on {place}: another process does; stop it, or give another place \
             with {option}"
        ),
        Some(BindError::Unusable { error, .. }) => {
            anyhow!("cannot listen on {place}: {error}; give another place with {option}")
        }
    })
}

//! Tables of the documentation that are generated from the definitions of the keys.

#[cfg(feature = "proxy")]
use crate::commands::proxy;
use crate::config::keys::{self, Documented};

/// Returns all generated tables of the documentation.
pub fn documented() -> Vec<Documented> {
    #[cfg(not(feature = "proxy"))]
    let of_proxy = Vec::new();
    #[cfg(feature = "proxy")]
    let of_proxy = proxy::documented();
    keys::documented().into_iter().chain(of_proxy).collect()
}

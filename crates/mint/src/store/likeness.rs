//! Properties that a minted certificate copies from a server's certificate.

use std::time::SystemTime;

use crate::{KeyType, Time};

/// Properties of a server's certificate, for a minted certificate with the same properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// DNS names and IP addresses.
    pub names: Vec<String>,
    /// Start of the validity period.
    pub not_before: Time,
    /// End of the validity period, possibly in the past.
    pub not_after: Time,
    /// Kind of the key; `None` if it cannot be generated.
    pub key_type: Option<KeyType>,
}

impl Likeness {
    /// Returns whether the server's certificate is valid at `time`. The server may have replaced
    /// another certificate.
    pub fn is_valid_at(&self, time: SystemTime) -> bool {
        let now = Time::from(time).unix();
        (self.not_before.unix()..=self.not_after.unix()).contains(&now)
    }
}

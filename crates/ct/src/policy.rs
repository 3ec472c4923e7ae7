//! The policy of a log: its rules beyond the specification.

use lucarne_x509::Oid;

/// The extended key usage that a leaf must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Require {
    /// The leaf must have serverAuth or anyExtendedKeyUsage. A leaf without the extension is
    /// refused, although it is valid for any purpose by RFC 5280: all WebPKI logs do the same.
    #[default]
    ServerAuth,
    /// Any leaf below an accepted root.
    Any,
}

/// The rules of one log. The default is a public WebPKI log without a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The required extended key usage of leaves.
    pub require: Require,
    /// Whether certificates signed with SHA-1 are accepted. Default: yes, because the root of
    /// Chrome's Merge Delay Monitor signs with SHA-1.
    pub accept_sha1: bool,
    /// Whether leaves whose notAfter has passed are refused.
    pub reject_expired: bool,
    /// Whether leaves whose notAfter has not passed are refused.
    pub reject_unexpired: bool,
    /// Leaves with any of these extensions are refused.
    pub reject_extensions: Vec<Oid>,
    /// Earliest accepted notAfter, in milliseconds since 1970, inclusive.
    pub not_after_start: Option<u64>,
    /// End of the accepted notAfter range, in milliseconds since 1970, exclusive.
    pub not_after_limit: Option<u64>,
    /// Maximum number of certificates in a submitted chain, including the leaf.
    pub max_chain: usize,
}

impl Policy {
    /// The default [`max_chain`](Self::max_chain).
    pub const DEFAULT_MAX_CHAIN: usize = 20;
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            require: Require::ServerAuth,
            accept_sha1: true,
            reject_expired: false,
            reject_unexpired: false,
            reject_extensions: Vec::new(),
            not_after_start: None,
            not_after_limit: None,
            max_chain: Self::DEFAULT_MAX_CHAIN,
        }
    }
}

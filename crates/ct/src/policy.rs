//! The policy of what a log takes beyond what the specification demands.

use lucarne_x509::Oid;

/// The extended key usage that a leaf must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Require {
    /// The leaf has serverAuth or anyExtendedKeyUsage. A leaf without the extension is refused,
    /// although RFC 5280 lets it serve any purpose: the WebPKI logs agree on that.
    #[default]
    ServerAuth,
    /// Whatever chains to an accepted root.
    Any,
}

/// The rules of one log. The default is that of a public WebPKI log without a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The extended key usage demanded of leaves.
    pub require: Require,
    /// True if certificates signed with SHA-1 are accepted. Default yes: Chrome's Merge Delay
    /// Monitor root signs with it.
    pub accept_sha1: bool,
    /// Refuse leaves whose notAfter has passed.
    pub reject_expired: bool,
    /// Refuse leaves whose notAfter has not passed.
    pub reject_unexpired: bool,
    /// Refuse leaves with any of these extensions.
    pub reject_extensions: Vec<Oid>,
    /// Earliest notAfter accepted, in milliseconds since 1970, inclusive.
    pub not_after_start: Option<u64>,
    /// First notAfter no longer accepted, in milliseconds since 1970, exclusive.
    pub not_after_limit: Option<u64>,
    /// Most certificates in a submitted chain, the leaf included.
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

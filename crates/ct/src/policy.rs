//! The policy of a log: its rules beyond the specification, and their check.

use lucarne_x509::{Oid, oid, time};

use crate::certificate::Certificate;
use crate::rejection::{Code, Rejection};

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

/// Checks the purpose, the expiry and the extensions of a leaf.
pub(crate) fn check_policy(
    leaf: &Certificate<'_>,
    policy: &Policy,
    now_ms: u64,
) -> Result<(), Rejection> {
    if policy.require == Require::ServerAuth {
        check_server_auth(leaf)?;
    }
    check_not_after(leaf, policy, now_ms)?;
    let refused = leaf.extensions().find(|extension| {
        let mut refused = policy.reject_extensions.iter();
        refused.any(|oid| oid.as_bytes() == extension.oid)
    });
    match refused {
        None => Ok(()),
        Some(extension) => {
            let oid = oid::display(extension.oid);
            let detail =
                format!("this log is configured to refuse leaves with the extension {oid}");
            Err(Rejection::of(0, Code::ExtensionRefused, detail))
        }
    }
}

fn check_server_auth(leaf: &Certificate<'_>) -> Result<(), Rejection> {
    let usages = || leaf.extended_key_usages().into_iter().flatten();
    let serves = [
        oid::content::SERVER_AUTH,
        oid::content::ANY_EXTENDED_KEY_USAGE,
    ];
    if usages().any(|usage| serves.contains(&usage)) {
        return Ok(());
    }
    let found: Vec<_> = usages().map(oid::display).collect();
    let found = if found.is_empty() {
        "no extended key usage".to_owned()
    } else {
        format!("the extended key usages {}", found.join(", "))
    };
    let detail = format!(
        "the leaf has {found}; this log requires serverAuth (1.3.6.1.5.5.7.3.1) or \
         anyExtendedKeyUsage (2.5.29.37.0)"
    );
    Err(Rejection::of(0, Code::MissingServerAuth, detail))
}

fn check_not_after(leaf: &Certificate<'_>, policy: &Policy, now_ms: u64) -> Result<(), Rejection> {
    let window = policy.not_after_start.is_some() || policy.not_after_limit.is_some();
    if !window && !policy.reject_expired && !policy.reject_unexpired {
        return Ok(());
    }
    let reject = |code, detail: String| Err(Rejection::of(0, code, detail));
    let Some(not_after) = leaf.not_after() else {
        let detail = "notAfter is not a valid time, and this log restricts notAfter";
        return reject(Code::InvalidValidity, detail.to_owned());
    };
    let shown = time::display(not_after);
    if policy
        .not_after_start
        .is_some_and(|start| not_after < signed(start))
        || policy
            .not_after_limit
            .is_some_and(|limit| not_after >= signed(limit))
    {
        let window = show_window(policy);
        return reject(
            Code::OutsideWindow,
            format!("notAfter {shown} is outside {window}"),
        );
    }
    let expired = not_after < signed(now_ms);
    if expired && policy.reject_expired {
        reject(
            Code::Expired,
            format!("expired at {shown}; this log accepts only unexpired certificates"),
        )
    } else if !expired && policy.reject_unexpired {
        reject(
            Code::NotExpired,
            format!("expires at {shown}; this log accepts only expired certificates"),
        )
    } else {
        Ok(())
    }
}

/// Formats the window, such as `[2026-01-01T00:00:00Z, 2026-07-01T00:00:00Z)`.
fn show_window(policy: &Policy) -> String {
    let show = |bound: Option<u64>, open: &str| {
        bound.map_or_else(|| open.to_owned(), |bound| time::display(signed(bound)))
    };
    let start = show(policy.not_after_start, "no limit");
    let limit = show(policy.not_after_limit, "no limit");
    format!("this log's window [{start}, {limit})")
}

fn signed(milliseconds: u64) -> i64 {
    i64::try_from(milliseconds).unwrap_or(i64::MAX)
}

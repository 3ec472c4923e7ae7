//! Rules of a log about the leaf: purpose, expiry and extensions.

use lucarne_x509::{oid, time};

use crate::certificate::Certificate;
use crate::policy::{Policy, Require};
use crate::rejection::{Code, Rejection};

pub(super) fn check_policy(
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

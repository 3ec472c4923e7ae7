//! A lint of any certificate ends, and reports no unverified property as good.
//!
//! The input is the length of a certificate (two bytes), the certificate, and possibly its issuer.

use lucarne_ct::Certificate;
use lucarne_ct::lint::{Lint, Weight};

pub(crate) fn run(input: &[u8]) {
    let Some((length, rest)) = input.split_first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_be_bytes(*length));
    let Some((leaf, issuer)) = rest.split_at_checked(length) else {
        return;
    };
    let Ok(leaf) = Certificate::parse(leaf) else {
        return;
    };
    let issuer = Certificate::parse(issuer).ok();
    let lint = Lint {
        list: None,
        issuers: issuer.as_slice(),
        at_ms: 1_785_000_000_000,
    };
    // The certificate is also its own precertificate, because it may be one.
    for precertificate in [None, Some(&leaf)] {
        let linted = lint.look_at(&leaf, precertificate);
        let verified = linted.findings.is_empty();
        // Without a log list, neither SCTs nor policies can be verified; without an issuer, nothing
        // can.
        assert!(!verified || (linted.policies.is_empty() && issuer.is_some()));
        assert!(verified || linted.has(Weight::Wrong) || linted.has(Weight::Unverified));
    }
}

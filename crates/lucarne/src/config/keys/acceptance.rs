//! Conditions for accepted certificates.

use lucarne_ct::{Oid, Policy, Require};
use lucarne_settings::form::{Boolean, Count, Each, Time, Words};
use lucarne_settings::section;

use super::SUNLIGHT;
use crate::config::values::{self, SpellingError};

section! {
    for Policy = [Policy::default()];

    /// Earliest accepted notAfter.
    #[beside(SUNLIGHT)]
    notafterstart: Time = Time, "none" => not_after_start;

    /// First notAfter that is no longer accepted. Seven days after this time, the log becomes
    /// read-only (410 Gone). A log without a window is for tests and private use.
    #[beside(SUNLIGHT)]
    notafterlimit: Time = Time, "none" => not_after_limit;

    /// Required extended key usage of leaves. `server_auth` accepts leaves with serverAuth
    /// (1.3.6.1.5.5.7.3.1) or anyExtendedKeyUsage (2.5.29.37.0), which includes serverAuth, and
    /// refuses leaves without any usage. `any` accepts all leaves.
    require: Words<Require> =
        Words(&[("server_auth", Require::ServerAuth), ("any", Require::Any)]) => require;

    /// Accept chains with SHA-1 signatures. The Merge Delay Monitor needs them.
    accept_sha1: Boolean = Boolean => accept_sha1;

    /// Refuse expired leaves.
    reject_expired: Boolean = Boolean => reject_expired;

    /// Refuse leaves that have not expired.
    reject_unexpired: Boolean = Boolean => reject_unexpired;

    /// Refuse leaves with one of these extensions: a list of OIDs.
    reject_extensions: Each<Oid, SpellingError> = Each(values::oid), "none" => reject_extensions;

    /// Maximum number of certificates in a submitted chain.
    maxchain: Count = Count::within(2, 100, "certificates") => max_chain;
}

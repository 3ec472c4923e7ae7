//! Flags for the acceptance of certificates.

use lucarne_ct::{Policy, Require};

use super::Flags;
use super::parse::Parse;
use crate::config::go::{given, require};
use crate::config::values;

impl Flags {
    pub(super) fn policy(&self, parse: &mut Parse<'_>) -> Policy {
        let mut time = |flag, text: &Option<String>| {
            let text = given(text)?;
            parse.value(flag, text, values::time)
        };
        let not_after_start = time("not-after-start", &self.not_after_start);
        let not_after_limit = time("not-after-limit", &self.not_after_limit);
        if not_after_start >= not_after_limit
            && not_after_start.is_some()
            && not_after_limit.is_some()
        {
            parse.problem(
                "not-after-limit",
                "must be later than --not-after-start: no certificate fits into the interval",
            );
        }
        let usage = given(&self.ext_key_usages);
        let require = usage.and_then(|text| parse.value("ext-key-usages", text, require));
        let reject_extensions = self.reject_extension.iter().filter(|oid| !oid.is_empty());
        let reject_extensions = reject_extensions
            .filter_map(|text| parse.value("reject-extension", text, values::oid))
            .collect();
        Policy {
            // TesseraCT's default.
            require: require.unwrap_or(Require::Any),
            accept_sha1: self.accept_sha1_signing_algorithms.unwrap_or(true),
            reject_expired: self.reject_expired.unwrap_or(false),
            reject_unexpired: self.reject_unexpired.unwrap_or(false),
            reject_extensions,
            not_after_start,
            not_after_limit,
            max_chain: Policy::DEFAULT_MAX_CHAIN,
        }
    }
}

//! `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers): fields with the
//! limits of a client and its remaining units.

use http::HeaderValue;
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, HeaderMap, HeaderName};

use super::policy::{Policy, ReadLimits};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Adds the fields. For each bucket of a client, the fields state the size (`q`) and the time to
/// fill an empty bucket (`w`). For the emptiest bucket, they state the content (`r`) and a time in
/// seconds (`t`): until the bucket is full, or until a refused request would be admitted.
pub(super) fn say(
    headers: &mut HeaderMap,
    limits: &ReadLimits,
    policies: impl Iterator<Item = Policy>,
    (policy, remaining, seconds): (Policy, u64, u64),
) {
    let policies = policies.map(|policy| {
        let rate = limits.rate(policy);
        let (burst, window) = (rate.burst(), rate.window_seconds());
        format!("\"{}\";q={burst};w={window}", policy.name())
    });
    let policies = policies.collect::<Vec<_>>().join(", ");
    let limit = format!("\"{}\";r={remaining};t={seconds}", policy.name());
    for (name, value) in [(RATELIMIT_POLICY, policies), (RATELIMIT, limit)] {
        // The value has only digits and known names, so that it is a valid header value.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    let exposed = HeaderValue::from_static("retry-after, ratelimit, ratelimit-policy");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

//! The published form of the limits: JSON for programs, and text.

use serde::Serialize;

use super::policy::{FORGOTTEN_SECONDS, Policy, ReadLimits, UNIT_BYTES};

/// The field `read_limits` of `log.v3.json`.
#[derive(Serialize)]
pub(crate) struct PublishedLimits {
    /// Number of response bytes that cost one unit, in addition to the unit of the request.
    bytes_per_unit: usize,
    policies: Vec<PublishedPolicy>,
    partial_tile_again: Again,
    unlimited: [&'static str; 1],
}

#[derive(Serialize)]
struct PublishedPolicy {
    /// Name as in the `RateLimit` fields.
    name: &'static str,
    scope: &'static str,
    units: u64,
    window_seconds: u64,
}

/// The price of repeated requests for the same partial tile.
#[derive(Serialize)]
struct Again {
    factor: u64,
    most_units: u64,
    forgotten_seconds: u64,
}

impl PublishedLimits {
    pub(crate) fn of(limits: &ReadLimits) -> Self {
        let published = |policy: Policy| {
            let rate = limits.rate(policy);
            PublishedPolicy {
                name: policy.name(),
                scope: match policy {
                    Policy::Client => "an IPv4 address or an IPv6 /56",
                    Policy::Network => "an IPv6 /48",
                    Policy::NoContact => {
                        "tiles and issuers, all clients whose User-Agent has no e-mail address and no URL"
                    }
                },
                units: rate.burst(),
                window_seconds: rate.window_seconds(),
            }
        };
        PublishedLimits {
            bytes_per_unit: UNIT_BYTES,
            policies: Policy::ALL.map(published).into(),
            partial_tile_again: Again {
                factor: 2,
                most_units: limits.max_of_repeats(),
                forgotten_seconds: FORGOTTEN_SECONDS,
            },
            unlimited: ["checkpoint"],
        }
    }
}

impl ReadLimits {
    /// Returns the limits as sentences.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let PublishedLimits {
            policies,
            partial_tile_again,
            ..
        } = PublishedLimits::of(self);
        let mut words = vec![format!(
            "A request costs one unit, and one more for each complete {UNIT_BYTES} bytes of its \
             response. The checkpoint is free."
        )];
        words.extend(policies.iter().map(|policy| {
            let (units, seconds) = (policy.units, policy.window_seconds);
            format!("{units} units in {seconds} s for {}.", policy.scope)
        }));
        let Again {
            most_units,
            forgotten_seconds,
            ..
        } = partial_tile_again;
        words.push(format!(
            "Each repeated request for the same partial tile costs a client twice as much as the \
             one before, up to {most_units} units; the price halves every {forgotten_seconds} s \
             without a request."
        ));
        words.push(
            "Beyond that: 429, with Retry-After and the fields RateLimit and RateLimit-Policy."
                .to_owned(),
        );
        words
    }
}

//! The configured read limits, and the buckets that result from them.

use super::clock::MonotonicClock;
use super::rate::Rate;

/// Number of response bytes that cost as much as a request.
pub const UNIT_BYTES: usize = 16 << 10;
/// Size of the bucket of an IPv6 /48, as a multiple of the bucket of one client.
const NETWORK_TIMES: u64 = 4;
/// Maximum number of doublings of the price of a partial tile.
pub(super) const MAX_DOUBLINGS: u64 = 10;
/// Time in seconds after which the price of a partial tile is halved again.
pub(super) const FORGOTTEN_SECONDS: u64 = 10;
pub(super) const FORGOTTEN_NS: u64 = FORGOTTEN_SECONDS * 1_000_000_000;

/// The read limits, for all logs of the process together.
#[derive(Clone, Debug)]
pub struct ReadLimits {
    /// The bucket of one client: an IPv4 address, or an IPv6 /56. The bucket of an IPv6 /48 is four
    /// times as large.
    pub client: Rate,
    /// The bucket for tiles, issuers and the reads of RFC 6962, shared by all clients whose
    /// `User-Agent` has neither an e-mail address nor a URL.
    pub no_contact: Rate,
    /// Maximum number of remembered clients, with 16 bytes each, and of remembered partial tiles.
    pub clients: usize,
    /// The clock of all buckets.
    pub clock: MonotonicClock,
}

impl Default for ReadLimits {
    fn default() -> Self {
        ReadLimits {
            client: Rate::per_second(5000, 500),
            no_contact: Rate::per_second(10_000, 1000),
            clients: 65_536,
            clock: MonotonicClock::system(),
        }
    }
}

impl ReadLimits {
    /// Returns the size and the refill rate of a kind of bucket.
    pub(crate) fn rate(&self, policy: Policy) -> Rate {
        match policy {
            Policy::Client => self.client,
            Policy::Network => self.client.times(NETWORK_TIMES),
            Policy::NoContact => self.no_contact,
        }
    }

    /// Returns the maximum price of a request for a partial tile before its response is known.
    pub(crate) fn max_of_repeats(&self) -> u64 {
        self.client
            .burst()
            .min(self.no_contact.burst())
            .min(1 << MAX_DOUBLINGS)
    }

    /// Returns the price of a partial tile after this number of repetitions.
    pub(super) fn price(&self, doublings: u64) -> u64 {
        (1 << doublings).min(self.max_of_repeats())
    }
}

/// The kinds of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The bucket of one client.
    Client,
    /// The bucket of an IPv6 /48.
    Network,
    /// The bucket of all clients without contact.
    NoContact,
}

impl Policy {
    pub(crate) const ALL: [Policy; 3] = [Policy::Client, Policy::Network, Policy::NoContact];

    /// Returns the name in header fields, `log.v3.json` and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Client => "client",
            Policy::Network => "network",
            Policy::NoContact => "no-contact",
        }
    }
}

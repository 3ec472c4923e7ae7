//! The limits of reading as they are set, and the buckets that follow from them.

use super::clock::MonotonicClock;
use super::rate::Rate;

/// The bytes of an answer that cost as much as a request.
pub const UNIT_BYTES: usize = 16 << 10;
/// The bucket of an IPv6 /48 is so many times that of one client.
const NETWORK_TIMES: u64 = 4;
/// The most doublings of the price of a partial tile.
pub(super) const MOST_DOUBLINGS: u64 = 10;
/// The time after which one doubling is forgotten, in seconds.
pub(super) const FORGOTTEN_SECONDS: u64 = 10;
pub(super) const FORGOTTEN_NS: u64 = FORGOTTEN_SECONDS * 1_000_000_000;

/// The limits of reading, for all logs of the process together.
#[derive(Clone, Debug)]
pub struct ReadLimits {
    /// The bucket of one client: an IPv4 address, or an IPv6 /56. An IPv6 /48 has four times as much.
    pub client: Rate,
    /// The bucket for tiles and issuers that all clients share whose `User-Agent` has neither an e-mail
    /// address nor a URL.
    pub no_contact: Rate,
    /// The clients that are remembered at a time, with 16 bytes each, and as many partial tiles.
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
    /// Returns the bucket that each kind of clients has.
    pub(crate) fn rate(&self, policy: Policy) -> Rate {
        match policy {
            Policy::Client => self.client,
            Policy::Network => self.client.times(NETWORK_TIMES),
            Policy::NoContact => self.no_contact,
        }
    }

    /// Returns the most that one request for a partial tile costs before its answer is known.
    pub(crate) fn most_of_repeats(&self) -> u64 {
        self.client
            .burst()
            .min(self.no_contact.burst())
            .min(1 << MOST_DOUBLINGS)
    }

    /// Returns the price of a partial tile that has been asked for so often of late.
    pub(super) fn price(&self, doublings: u64) -> u64 {
        (1 << doublings).min(self.most_of_repeats())
    }
}

/// The buckets by whose they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// One client's.
    Client,
    /// That of an IPv6 /48.
    Network,
    /// That of all who leave no contact.
    NoContact,
}

impl Policy {
    pub(crate) const ALL: [Policy; 3] = [Policy::Client, Policy::Network, Policy::NoContact];

    /// Returns the name that header fields, `log.v3.json` and metrics have for it.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Client => "client",
            Policy::Network => "network",
            Policy::NoContact => "no-contact",
        }
    }
}

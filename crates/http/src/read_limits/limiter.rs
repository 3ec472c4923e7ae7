//! The decision on each request.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::header::{HeaderMap, USER_AGENT};
use lucarne_net::Network;
use lucarne_tlog::Tile;

use super::client_table::{ClientTable, Found, Place, WhenFull};
use super::contact;
use super::policy::{FORGOTTEN_NS, MAX_DOUBLINGS, Policy, ReadLimits, UNIT_BYTES};
use super::rate::Rate;
use crate::forwarded::Proxies;

/// The kind of resource that is read, as far as the buckets depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A part of a tree, possibly a partial tile. Monitors read parts of a tree, and should leave a
    /// contact.
    Tree(Option<PartialTile>),
    /// A page, a list, or accepted roots. Browsers and CAs leave no contact, and do not share the
    /// bucket of readers without a contact.
    Other,
    /// `/metrics` or `/health`. These requests have a bucket of their own for each client, so that
    /// a client with many reads can still observe the server.
    Operations,
}

/// A partial tile of one of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartialTile {
    /// Number of the log in the process.
    pub log: usize,
    /// Whether the request is for the names tile of the data tile `tile`.
    pub names: bool,
    /// The hash tile or data tile; always a data tile if `names` is set.
    pub tile: Tile,
}

/// Decides which requests are admitted.
pub struct ReadLimiter {
    limits: ReadLimits,
    rates: [Rate; 3],
    proxies: Proxies,
    buckets: ClientTable,
    /// For each client and partial tile, the time at which the repeated requests are forgotten.
    repeats: ClientTable,
    no_contact: Apart,
}

/// A number that many cores change, on its own cache line.
#[derive(Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// The decision on a request.
#[derive(Clone, Copy, Debug)]
pub enum Decision {
    /// The request came through an unknown proxy, so that its client is unknown. Nothing is
    /// counted.
    Unlimited,
    /// The request is admitted. [`ReadLimiter::settle`] charges the client for the response.
    Admitted(Admission),
    /// The request is refused.
    Refused(Refusal),
}

/// An admitted request, with the buckets that pay for the response.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    levels: Levels,
    /// Whether the table had no free slot for the client or its network, so that a shared bucket
    /// paid.
    pub(super) shared: bool,
}

/// A refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The bucket with the longest wait.
    pub policy: Policy,
    /// Nanoseconds until the request would be admitted.
    pub wait: u64,
    /// Number of units in the bucket of `policy`.
    pub remaining: u64,
    /// The buckets of the request.
    pub(super) policies: [Option<Policy>; 3],
}

/// The buckets of a request.
type Buckets = [Option<Bucket>; 3];
/// The buckets, each with the time at which it is full again.
type Levels = [Option<(Bucket, u64)>; 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    policy: Policy,
    /// Position in the table; `None` for the bucket that all clients without contact share.
    place: Option<Place>,
    when_full: WhenFull,
}

/// The content of a bucket that is less than half full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// The kind of bucket.
    pub policy: Policy,
    /// Number of units in the bucket.
    pub units: u64,
    /// Nanoseconds until the bucket is full.
    pub whole_in: u64,
}

impl Admission {
    /// Returns the kinds of the buckets that pay.
    pub(super) fn policies(&self) -> impl Iterator<Item = Policy> + use<> {
        let levels = self.levels.into_iter().flatten();
        levels.map(|(bucket, _)| bucket.policy)
    }
}

impl ReadLimiter {
    /// Creates a limiter. `proxies` are trusted proxies; `None` if they are not configured.
    pub fn new(limits: ReadLimits, proxies: Option<Vec<Network>>) -> Self {
        ReadLimiter {
            proxies: Proxies::new(proxies),
            buckets: ClientTable::new(limits.clients),
            repeats: ClientTable::new(limits.clients),
            no_contact: Apart::default(),
            rates: Policy::ALL.map(|policy| limits.rate(policy)),
            limits,
        }
    }

    /// Returns the configured limits.
    pub fn limits(&self) -> &ReadLimits {
        &self.limits
    }

    /// Returns the number of clients and IPv6 networks whose bucket is not full.
    pub(crate) fn clients(&self) -> usize {
        self.buckets.len(self.limits.clock.now())
    }

    /// Decides on a request from `peer` at the time `now`.
    pub fn decide(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
        reading: Reading,
        now: u64,
    ) -> Decision {
        let Some(client) = self.proxies.client(peer, headers) else {
            return Decision::Unlimited;
        };
        let (mut client, mut network) = keys(client);
        let mut when_full = WhenFull::Share;
        let (of_tree, partial) = match reading {
            Reading::Tree(partial) => (true, partial),
            Reading::Other => (false, None),
            Reading::Operations => {
                client |= OPERATIONS;
                network = network.map(|key| key | OPERATIONS);
                // Many clients that read must not hide the state of the server.
                when_full = WhenFull::Replace;
                (false, None)
            }
        };
        let shares = of_tree && !has_contact(headers);
        let buckets = self.buckets_of(client, network, shares, when_full);
        let repeats = partial.map(|tile| self.repeats.place_of_deed(client, tile));
        let until = repeats.map_or(0, |place| self.repeated(place, now, |until| *until));
        let price = self.limits.price(doublings(until, now));
        match self.take(buckets, price, now) {
            Some(admission) => {
                if let Some(place) = repeats {
                    self.repeated(place, now, |until| *until = once_more(*until, now));
                }
                Decision::Admitted(admission)
            }
            None => Decision::Refused(self.refusal(buckets, until, now)),
        }
    }

    /// Charges a request for the bytes of its response. Returns the content of the emptiest bucket
    /// if the bucket is less than half full. The response reports this content to the client.
    pub fn settle(&self, admission: &Admission, bytes: usize, now: u64) -> Option<Remainder> {
        let cost = (bytes / UNIT_BYTES) as u64;
        let mut least: Option<Remainder> = None;
        for (bucket, mut level) in admission.levels.into_iter().flatten() {
            let rate = self.rates[bucket.policy as usize];
            if cost > 0 {
                (_, level) = self.at(bucket, now, |rate, level| {
                    rate.charge(level, now, cost);
                    *level
                });
            }
            let units = rate.remaining(level, now);
            if units < rate.burst() / 2 && least.is_none_or(|least| units < least.units) {
                least = Some(Remainder {
                    policy: bucket.policy,
                    units,
                    whole_in: level.saturating_sub(now),
                });
            }
        }
        least
    }

    fn buckets_of(
        &self,
        client: u64,
        network: Option<u64>,
        shares: bool,
        when_full: WhenFull,
    ) -> Buckets {
        let bucket = |policy, key: u64| Bucket {
            policy,
            place: Some(self.buckets.place(key)),
            when_full,
        };
        let shared = Bucket {
            policy: Policy::NoContact,
            place: None,
            when_full,
        };
        [
            Some(bucket(Policy::Client, client)),
            network.map(|network| bucket(Policy::Network, network)),
            shares.then_some(shared),
        ]
    }

    /// Takes units from all of the buckets or, if one of them has too few, from none.
    fn take(&self, buckets: Buckets, cost: u64, now: u64) -> Option<Admission> {
        let mut levels = [None; 3];
        let mut shared = false;
        for (index, bucket) in buckets.into_iter().enumerate() {
            let Some(bucket) = bucket else { continue };
            let (found, level) = self.at(bucket, now, |rate, level| {
                rate.take(level, now, cost).then_some(*level)
            });
            match level {
                Some(level) => levels[index] = Some((bucket, level)),
                None => {
                    for (bucket, _) in levels.into_iter().flatten() {
                        self.at(bucket, now, |rate, level| rate.give_back(level, cost));
                    }
                    return None;
                }
            }
            shared |= found == Found::Shared;
        }
        Some(Admission { levels, shared })
    }

    /// Computes the earliest time at which the request would be admitted if no other request came
    /// before. The price falls as repetitions are forgotten.
    fn refusal(&self, buckets: Buckets, until: u64, now: u64) -> Refusal {
        let levels = buckets.into_iter().flatten().map(|bucket| {
            let (_, level) = self.at(bucket, now, |_, level| *level);
            (bucket.policy, level)
        });
        let levels: Vec<_> = levels.collect();
        let lacking = |price| {
            let waits = levels.iter().map(|(policy, level)| {
                let wait = self.rates[*policy as usize].wait(*level, now, price);
                (wait, *policy, *level)
            });
            waits
                .max_by_key(|it| it.0)
                .unwrap_or((0, Policy::Client, now))
        };
        let at_price_of = |doublings: u64| {
            let (wait, policy, level) = lacking(self.limits.price(doublings));
            let forgotten = until.saturating_sub(now + doublings * FORGOTTEN_NS);
            (wait.max(forgotten), policy, level)
        };
        let moments = (0..=doublings(until, now)).rev().map(at_price_of);
        let first = moments.min_by_key(|it| it.0);
        let (wait, policy, level) = first.unwrap_or((0, Policy::Client, now));
        Refusal {
            policy,
            wait,
            remaining: self.rates[policy as usize].remaining(level, now),
            policies: buckets.map(|bucket| bucket.map(|bucket| bucket.policy)),
        }
    }

    /// Calls a function with the time at which a bucket is full. The function may change this time.
    fn at<T>(&self, bucket: Bucket, now: u64, change: impl Fn(Rate, &mut u64) -> T) -> (Found, T) {
        let rate = self.rates[bucket.policy as usize];
        if let Some(place) = bucket.place {
            let change = |level: &mut u64| change(rate, level);
            return self.buckets.with(place, now, bucket.when_full, change);
        }
        // One atomic number for all cores, without a lock.
        let mut level = self.no_contact.0.load(Relaxed);
        loop {
            let mut changed = level;
            let outcome = change(rate, &mut changed);
            if changed == level {
                return (Found::Own, outcome);
            }
            match self
                .no_contact
                .0
                .compare_exchange_weak(level, changed, Relaxed, Relaxed)
            {
                Ok(_) => return (Found::Own, outcome),
                Err(newer) => level = newer,
            }
        }
    }

    fn repeated<T>(&self, place: Place, now: u64, change: impl FnOnce(&mut u64) -> T) -> T {
        self.repeats.with(place, now, WhenFull::Replace, change).1
    }
}

/// The bit that separates the keys of `/metrics` and `/health` from those of other reads. No length
/// of a prefix has this bit.
const OPERATIONS: u64 = 1 << 7;

fn has_contact(headers: &HeaderMap) -> bool {
    let agent = headers.get(USER_AGENT);
    agent.is_some_and(|agent| contact::has_contact(agent.as_bytes()))
}

/// Returns the keys of a client and of its network: the address prefix in the upper bytes, the
/// length of the prefix in the lowest byte.
fn keys(client: IpAddr) -> (u64, Option<u64>) {
    match client.to_canonical() {
        IpAddr::V4(address) => (u64::from(address.to_bits()) << 8 | 32, None),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let prefix = |length: u32| ((bits >> (128 - length)) as u64) << (64 - length);
            let customer = prefix(56) & !0xff | 56;
            (customer, Some(prefix(48) & !0xff | 48))
        }
    }
}

/// Returns the number of doublings that are not forgotten at `now` if all are forgotten at `until`.
fn doublings(until: u64, now: u64) -> u64 {
    until.saturating_sub(now).div_ceil(FORGOTTEN_NS)
}

/// Returns the time at which all doublings are forgotten after one more request.
fn once_more(until: u64, now: u64) -> u64 {
    let once_more = until.max(now) + FORGOTTEN_NS;
    once_more.min(now + MAX_DOUBLINGS * FORGOTTEN_NS)
}

#[cfg(test)]
mod tests;

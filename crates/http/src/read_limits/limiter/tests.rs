use std::time::Duration;

use http::HeaderValue;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::read_limits::clock::MonotonicClock;

const SECOND: u64 = 1_000_000_000;
/// The `User-Agent` of a client with a contact.
const NAMED: &str = "monitor/1.0 (ops@example.com)";

/// Returns a limiter with `burst` units for each client, refilled at one per second, and a bucket
/// of ten times this size for all clients without contact.
fn limiter(burst: u64) -> ReadLimiter {
    let limits = ReadLimits {
        client: Rate::new(burst, Duration::from_secs(1)),
        no_contact: Rate::new(10 * burst, Duration::from_secs(1)),
        clients: 4096,
        clock: MonotonicClock::new(|| 0),
    };
    ReadLimiter::new(limits, Some(Vec::new()))
}

fn agent(agent: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static(agent))])
}

fn ask(limiter: &ReadLimiter, address: &str, now: u64) -> Result<Admission, Refusal> {
    ask_for(limiter, address, None, now)
}

fn ask_for(
    limiter: &ReadLimiter,
    address: &str,
    tile: Option<PartialTile>,
    now: u64,
) -> Result<Admission, Refusal> {
    let reading = Reading::Tree(tile);
    decided(limiter.decide(address.parse().unwrap(), &agent(NAMED), reading, now))
}

fn decided(decision: Decision) -> Result<Admission, Refusal> {
    match decision {
        Decision::Admitted(admission) => Ok(admission),
        Decision::Refused(refusal) => Err(refusal),
        Decision::Unlimited => panic!("nothing was counted"),
    }
}

fn admitted(limiter: &ReadLimiter, address: &str, times: usize, now: u64) -> usize {
    (0..times)
        .filter(|_| ask(limiter, address, now).is_ok())
        .count()
}

fn partial(path: &str) -> Option<PartialTile> {
    Some(PartialTile {
        log: 0,
        names: false,
        tile: Tile::parse(path).unwrap(),
    })
}

#[test]
fn a_client_is_an_address_or_what_a_customer_gets() {
    let of = |address: &str| keys(address.parse().unwrap());
    assert_eq!(of("2001:db8:1:2ff::1"), of("2001:db8:1:200:1:2:3:4"));
    assert_ne!(of("2001:db8:1:2ff::1").0, of("2001:db8:1:300::1").0);
    assert_eq!(of("2001:db8:1:2ff::1").1, of("2001:db8:1:300::1").1);
    assert_ne!(of("2001:db8:1:2ff::1").1, of("2001:db8:2:2ff::1").1);
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    assert_ne!(of("192.0.2.2"), of("192.0.2.1"));
    assert_eq!(of("192.0.2.1").1, None);
    // All keys differ, and none is the unused key 0.
    let (customer, network) = of("::");
    assert!(customer != network.unwrap() && customer != of("0.0.0.0").0);
    assert!(![customer, network.unwrap(), of("0.0.0.0").0].contains(&0));
}

#[test]
fn each_address_has_its_own() {
    let limiter = limiter(5);
    assert_eq!(admitted(&limiter, "192.0.2.1", 9, 0), 5);
    assert_eq!(admitted(&limiter, "192.0.2.2", 9, 0), 5);
    assert_eq!(admitted(&limiter, "192.0.2.1", 9, 2 * SECOND), 2);
    // Another interface of the same host is the same client.
    assert_eq!(admitted(&limiter, "2001:db8::1", 4, 0), 4);
    assert_eq!(admitted(&limiter, "2001:db8::ff:1", 4, 0), 1);
}

#[test]
fn the_customers_of_one_network_share_four_times_as_much() {
    let limiter = limiter(5);
    for customer in 0..4 {
        let address = format!("2001:db8:1:{customer}00::1");
        assert_eq!(admitted(&limiter, &address, 9, 0), 5, "{address}");
    }
    let refusal = ask(&limiter, "2001:db8:1:400::1", 0).unwrap_err();
    assert_eq!(refusal.policy, Policy::Network);
    assert_eq!((refusal.wait, refusal.remaining), (SECOND / 4, 0));
    assert_eq!(refusal.retry_after(), 1);
    // Refused requests took nothing from the client's own bucket.
    assert_eq!(admitted(&limiter, "2001:db8:1:400::1", 9, 2 * SECOND), 5);
    assert_eq!(admitted(&limiter, "2001:db8:2::1", 9, 0), 5);
}

#[test]
fn those_without_contact_share_one() {
    let limiter = limiter(5);
    let ask = |address: String, headers: &HeaderMap| {
        decided(limiter.decide(address.parse().unwrap(), headers, Reading::Tree(None), 0))
    };
    for client in 0..10 {
        let of = |headers: &HeaderMap| {
            let asked = (0..9).map(|_| ask(format!("192.0.2.{client}"), headers));
            asked.filter(Result::is_ok).count()
        };
        // Requests with and without a contact take from the same bucket of the client.
        assert_eq!(of(&agent("curl/8.5.0")), 5);
        assert_eq!(of(&agent(NAMED)), 0);
    }
    for headers in [HeaderMap::new(), agent("curl/8.5.0")] {
        let refusal = ask("192.0.2.99".into(), &headers).unwrap_err();
        assert_eq!((refusal.policy, refusal.wait), (Policy::NoContact, SECOND));
    }
    // A client that reads no tiles is not a monitor.
    let page = limiter.decide([192, 0, 2, 98].into(), &HeaderMap::new(), Reading::Other, 0);
    assert!(decided(page).is_ok());
    let (_, refusals) = (0..9)
        .map(|_| ask("192.0.2.99".into(), &agent(NAMED)))
        .partition::<Vec<_>, _>(Result::is_ok);
    assert_eq!(
        refusals.len(),
        4,
        "what all share does not touch who leaves a contact"
    );
}

#[test]
fn bytes_cost_as_requests_do() {
    let limiter = limiter(10);
    let spend = |bytes, now| {
        let admission = ask(&limiter, "192.0.2.1", now).unwrap();
        limiter.settle(&admission, bytes, now)
    };
    assert_eq!(spend(UNIT_BYTES - 1, 0), None);
    assert_eq!(spend(3 * UNIT_BYTES, 0), None);
    // Half of the units are used.
    let left = spend(0, 0).unwrap();
    assert_eq!(
        (left.policy, left.units, left.whole_in),
        (Policy::Client, 4, 6 * SECOND)
    );
    // A response may cost more than the bucket has, but the next request waits.
    assert_eq!(spend(8 * UNIT_BYTES, 0).unwrap().units, 0);
    let refusal = ask(&limiter, "192.0.2.1", 0).unwrap_err();
    assert_eq!((refusal.retry_after(), refusal.remaining), (6, 0));
    assert!(ask(&limiter, "192.0.2.1", 5 * SECOND).is_err());
    assert!(ask(&limiter, "192.0.2.1", 6 * SECOND).is_ok());
}

/// Returns the price of a request: the number of units that it takes from the bucket.
fn cost(limiter: &ReadLimiter, address: &str, tile: Option<PartialTile>, now: u64) -> u64 {
    let left = || {
        let admission = ask(limiter, address, now).unwrap();
        limiter
            .settle(&admission, 0, now)
            .map_or(u64::MAX, |left| left.units)
    };
    let before = left();
    ask_for(limiter, address, tile, now).unwrap();
    before - left() - 1
}

#[test]
fn the_same_partial_tile_costs_more_each_time() {
    let limiter = limiter(100_000);
    let (one, other) = (
        partial("tile/0/x001/234.p/7"),
        partial("tile/0/x001/234.p/8"),
    );
    // Uses more than half of the bucket, so that the remainder is reported.
    let admission = ask(&limiter, "192.0.2.1", 0).unwrap();
    limiter.settle(&admission, 60_000 * UNIT_BYTES, 0);
    let cost = |tile, now| cost(&limiter, "192.0.2.1", tile, now);
    let costs: Vec<_> = (0..13).map(|_| cost(one, 0)).collect();
    assert_eq!(
        costs,
        [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]
    );
    assert_eq!(cost(other, 0), 1);
    let names = one.map(|tile| PartialTile {
        names: true,
        ..tile
    });
    let elsewhere = one.map(|tile| PartialTile { log: 1, ..tile });
    assert_eq!(
        (cost(names, 0), cost(elsewhere, 0), cost(None, 0)),
        (1, 1, 1)
    );
    // One doubling is forgotten after ten seconds.
    let later = FORGOTTEN_NS;
    assert_eq!(cost(one, later), 512);
    assert_eq!(cost(one, 4 * later), 128);
    assert_eq!(cost(one, 20 * later), 1);
    // A client that repeats a request every ten seconds pays one unit each time.
    for round in 21..40 {
        assert_eq!(cost(one, round * later), 1, "{round}");
    }
}

#[test]
fn repeats_are_each_clients_own() {
    let limiter = limiter(100);
    let tile = partial("tile/data/000.p/3");
    let times = |address| {
        (0..99)
            .filter(|_| ask_for(&limiter, address, tile, 0).is_ok())
            .count()
    };
    // The price is 1 + 2 + … + 32 of 100: the next request would cost 64.
    assert_eq!((times("192.0.2.1"), times("192.0.2.2")), (6, 6));
    let refusal = ask_for(&limiter, "192.0.2.1", tile, 0).unwrap_err();
    // After ten seconds the request would cost 32 units, and the bucket has 37 now.
    assert_eq!((refusal.wait, refusal.remaining), (10 * SECOND, 37));
    assert!(ask(&limiter, "192.0.2.1", 0).is_ok(), "all else goes on");
}

#[test]
fn no_price_is_more_than_a_bucket_holds() {
    let limiter = limiter(3);
    let tile = partial("tile/data/000.p/3");
    let mut now = 0;
    for _ in 0..20 {
        if let Err(refusal) = ask_for(&limiter, "192.0.2.1", tile, now) {
            now += refusal.wait;
            assert!(ask_for(&limiter, "192.0.2.1", tile, now).is_ok());
        }
    }
}

#[test]
fn what_is_remembered_of_a_hundred_thousand_is_bounded() {
    let limiter = limiter(5);
    let address = |n: u32| IpAddr::from(n.to_be_bytes());
    let tile = Reading::Tree(partial("tile/0/000.p/1"));
    let ask = |n, now| decided(limiter.decide(address(n), &agent(NAMED), tile, now));
    let all: Vec<_> = (1..=100_000).map(|n| ask(n, 0)).collect();
    assert_eq!(limiter.buckets.len(0), 4096);
    assert!(limiter.repeats.len(0) <= 4096);
    // No request is admitted because of a full table: the excess clients share one bucket in each
    // of 256 sets.
    let admitted = all.iter().flatten();
    let shared = admitted
        .clone()
        .filter(|admission| admission.shared)
        .count();
    assert_eq!((admitted.count() - shared, shared), (4096, 256 * 5));
    // The sharing ends as soon as the other buckets are full again.
    assert!(ask(200_000, 100 * SECOND).is_ok_and(|admission| !admission.shared));
    assert_eq!(limiter.buckets.len(100 * SECOND), 1);
}

proptest! {
    /// A client that requests partial and full tiles of any size never gets more than its bucket
    /// and the refill, except for the response that puts it into debt, and every announced waiting
    /// time is correct.
    #[test]
    fn no_client_gets_more_and_none_is_told_wrong(
        requests in vec((0..20_000_u64, 0..4_usize, 0..6_usize), 1..150)
    ) {
        let limiter = limiter(8);
        let tiles = [None, partial("tile/0/000.p/1"), partial("tile/0/000.p/2"), partial("tile/data/000.p/1")];
        let (mut now, mut spent) = (0, Vec::new());
        for (later_ms, tile, units) in requests {
            now += later_ms * 1_000_000;
            match ask_for(&limiter, "192.0.2.1", tiles[tile], now) {
                Ok(admission) => {
                    let level = admission.levels[0].unwrap().1;
                    limiter.settle(&admission, units * UNIT_BYTES, now);
                    let (debt, before) = (units as u64, spent.last().map_or(0, |it: &(u64, u64, u64)| it.2));
                    let cost = (level - before.max(now)) / SECOND;
                    spent.push((now, cost + debt, level + debt * SECOND));
                }
                Err(refusal) => {
                    prop_assert!(refusal.wait > 0);
                    let early = ask_for(&limiter, "192.0.2.1", tiles[tile], now + refusal.wait - 1);
                    prop_assert!(early.is_err());
                    let seconds = now + (refusal.retry_after() - 1) * SECOND;
                    prop_assert!(ask_for(&limiter, "192.0.2.1", tiles[tile], seconds).is_err());
                    now += refusal.wait;
                    let admission = ask_for(&limiter, "192.0.2.1", tiles[tile], now);
                    prop_assert!(admission.is_ok());
                    let level = admission.unwrap().levels[0].unwrap().1;
                    let before = spent.last().map_or(0, |it| it.2);
                    spent.push((now, (level - before.max(now)) / SECOND, level));
                }
            }
        }
        for (first, (from, _, _)) in spent.iter().enumerate() {
            let mut sum = 0;
            for (to, cost, _) in &spent[first..] {
                sum += cost;
                // The size of the last response is unknown before it is created.
                prop_assert!(sum * SECOND <= (8 + 5) * SECOND + (to - from));
            }
        }
    }
}

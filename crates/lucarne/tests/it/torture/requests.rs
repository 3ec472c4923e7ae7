//! Faults of requests to a store: lost before or after their effect, refused or late, and responses
//! that are cut or have a flipped bit.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use lucarne_testkit::{Bucket, Fate, Place, Server, StoreProxy};
use rand::seq::IndexedRandom;
use rand::{Rng, rngs::StdRng};

use super::Cases;
use super::life::Life;
use crate::common::{EVENT_TIMEOUT, run};

/// Requests of a start and of some rounds after it.
const REQUESTS: u64 = 60;

#[test]
fn requests_that_go_wrong_lose_nothing() {
    let mut cases = Cases::new("a request to the store goes wrong", 8);
    let bucket = run(Bucket::versitygw()).unwrap();
    let proxy = StoreProxy::start(bucket.store.address).unwrap();
    let life = Life::new(Place::bucket(&bucket, Some(&proxy.endpoint)));
    while let Some(mut luck) = cases.next() {
        let fault = strike(&life, &proxy, &mut luck);
        life.is_whole(&fault);
    }
    life.settle();
}

/// Strikes one request, or three in a row, of a working server. Returns a description of the fault.
fn strike(life: &Life, proxy: &StoreProxy, luck: &mut StdRng) -> String {
    let fates = [
        Fate::Status(503),
        Fate::Status(500),
        Fate::LoseAnswer,
        Fate::Delay(Duration::from_millis(700)),
        Fate::HalveAnswer,
        Fate::FlipAnswer(luck.random_range(0..20_000)),
    ];
    let fate = *fates.choose(luck).unwrap();
    let first = luck.random_range(1..=REQUESTS);
    let last = first + if luck.random_bool(0.5) { 0 } else { 2 };
    let fault = format!("{fate:?} of requests {first} to {last}");
    let (number, before) = (AtomicU64::new(0), proxy.struck());
    proxy.judge(move |_| {
        let number = number.fetch_add(1, SeqCst) + 1;
        if (first..=last).contains(&number) {
            fate
        } else {
            Fate::Pass
        }
    });
    let mut server = life.log.launch("serve").spawn().unwrap();
    let started = Instant::now();
    let unstruck = || proxy.struck() <= before + (last - first);
    while unstruck() && server.try_wait().unwrap().is_none() {
        assert!(
            started.elapsed() < EVENT_TIMEOUT,
            "{fault}: never\n{}",
            server.output()
        );
        // A poll with a deadline: no verdict depends on the interval.
        std::thread::sleep(Duration::from_millis(2));
    }
    goes_on(life, &mut server, &fault);
    let _ = server.kill();
    proxy.judge(|_| Fate::Pass);
    fault
}

/// Checks that the log continues by itself, or the process has ended, because a store with these
/// responses fails the test for a lock at startup.
pub(super) fn goes_on(life: &Life, server: &mut Server, fault: &str) {
    let mut status = None;
    let taking = life.waits_for_promises(|| {
        status = server.try_wait().unwrap();
        status.map(|status| format!("it ended: {status}"))
    });
    let output = server.output();
    if let Err(how) = taking {
        let refused = status.is_some_and(|status| status.code() == Some(1));
        assert!(
            refused && output.contains("lucarne: "),
            "{fault}: {how}:\n{output}"
        );
    }
}

//! Faults at each call that changes a file: the process is killed before or after the call, or the
//! call fails, in every way that calls can fail.

use std::time::{Duration, Instant};

use lucarne_testkit::{Errno, Place, Plan, Strike, Traced, tracing_is_permitted};
use rand::seq::IndexedRandom;
use rand::{Rng, rngs::StdRng};

use super::Cases;
use super::life::Life;
use crate::common::EVENT_TIMEOUT;

/// Calls of a start and of some rounds after it.
const CALLS: u64 = 400;

const DEATHS: [Strike; 2] = [Strike::KillBefore, Strike::KillAfter];

/// Failures that a kernel can produce. EINTR after a transfer is not one of them: POSIX allows
/// EINTR only if nothing was transferred (write(2), section 2.9.7 of POSIX.1-2024).
const FAILURES: [Strike; 7] = [
    // A block device reports an error before it accepts the block.
    Strike::Fail(Errno::EIO),
    // The file system or the user's quota is full (write(2), rename(2), fsync(2)).
    Strike::Fail(Errno::ENOSPC),
    Strike::Fail(Errno::EDQUOT),
    // A signal arrives before the transfer begins.
    Strike::Fail(Errno::EINTR),
    // The change is on the disk, but its acknowledgement is lost, on NFS or on a failing path of a
    // multipath device.
    Strike::FailAfter(Errno::EIO),
    // The disk became full during the call (write(2): "partial write").
    Strike::Short,
    // The disk is busy.
    Strike::Late(Duration::from_millis(700)),
];

#[test]
fn deaths_at_calls_lose_nothing() {
    strike_again_and_again(Cases::new("killed at a call", 12), &DEATHS);
}

#[test]
fn calls_that_fail_lose_nothing() {
    strike_again_and_again(Cases::new("a call fails", 12), &FAILURES);
}

fn strike_again_and_again(mut cases: Cases, strikes: &[Strike]) {
    if !tracing_is_permitted() {
        return;
    }
    let mut life = Life::new(Place::directory());
    while let Some(mut luck) = cases.next() {
        let fault = strike(&life, strikes, &mut luck);
        life.is_whole(&fault);
        if life.is_over() {
            std::mem::replace(&mut life, Life::new(Place::directory())).settle();
        }
    }
    life.settle();
}

/// Strikes one call of a working server. Returns a description of the fault.
fn strike(life: &Life, strikes: &[Strike], luck: &mut StdRng) -> String {
    let strike = *strikes.choose(luck).unwrap();
    let number = luck.random_range(1..=CALLS);
    let plan = Plan {
        below: life.log.path().to_owned(),
        counted: |_| true,
        strike: Some((number, strike)),
        record: false,
    };
    let server = life.log.launch("serve").trace(plan).unwrap();
    let started = Instant::now();
    while server.struck().is_none() && server.ended().is_none() {
        assert!(
            started.elapsed() < EVENT_TIMEOUT,
            "{number} calls are not made:\n{}",
            server.output()
        );
        // A poll with a deadline: no verdict depends on the interval.
        std::thread::sleep(Duration::from_millis(1));
    }
    let call = server.struck().unwrap_or_default();
    let fault = format!("{strike:?} at call {number}, {call}");
    match strike {
        Strike::KillBefore | Strike::KillAfter => {}
        _ => survives(life, &server, &fault),
    }
    server.kill().unwrap();
    fault
}

/// Checks that the log continues by itself, or has ended during startup with a message.
fn survives(life: &Life, server: &Traced, fault: &str) {
    let ended = || server.ended().map(|status| format!("it ended: {status}"));
    if let Err(how) = life.waits_for_promises(ended) {
        let output = server.output();
        let says_why = server
            .ended()
            .is_some_and(|status| status.code() == Some(1));
        assert!(
            says_why && output.contains("lucarne: "),
            "{fault}: {how}:\n{output}"
        );
    }
}

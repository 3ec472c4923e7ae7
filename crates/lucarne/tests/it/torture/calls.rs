//! Each call that changes a file: the process dies before it or behind it, or the
//! call fails, in every way that calls do.

use std::time::{Duration, Instant};

use lucarne_testkit::{Errno, Place, Plan, Strike, Traced, tracing_is_permitted};
use rand::seq::IndexedRandom;
use rand::{Rng, rngs::StdRng};

use super::Cases;
use super::life::Life;
use crate::common::PATIENCE;

/// The number of calls of a start and of some rounds behind it.
const CALLS: u64 = 400;

const DEATHS: [Strike; 2] = [Strike::KillBefore, Strike::KillAfter];

/// Failures that a kernel can produce. EINTR after a transfer is not one of them: POSIX
/// has EINTR only if nothing was transferred (write(2), section 2.9.7 of POSIX.1-2024).
const FAILURES: [Strike; 7] = [
    // A block device reports an error before it takes the block.
    Strike::Fail(Errno::EIO),
    // The file system is full, or the user's quota (write(2), rename(2), fsync(2)).
    Strike::Fail(Errno::ENOSPC),
    Strike::Fail(Errno::EDQUOT),
    // A signal arrives before the transfer begins.
    Strike::Fail(Errno::EINTR),
    // The change is on the disk, and its acknowledgement is lost: NFS, or a path of a
    // multipath device that fails.
    Strike::FailAfter(Errno::EIO),
    // The disk became full in the middle (write(2): "partial write").
    Strike::Short,
    // A busy disk.
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

/// One call of a server at work is struck: which and how, in words.
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
            started.elapsed() < PATIENCE,
            "{number} calls are not made:\n{}",
            server.output()
        );
        // Polled, with a deadline: no verdict depends on the pace.
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

/// The log goes on by itself; or it has ended, while it started, and says why.
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

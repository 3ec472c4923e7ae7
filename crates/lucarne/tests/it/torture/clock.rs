//! The clock is set back and ahead, while the log signs and before it starts.

use std::time::Duration;

use lucarne_mint::now_ms;
use lucarne_testkit::{BadDisk, Place};
use rand::Rng;
use rand::seq::IndexedRandom;

use super::Cases;
use super::life::Life;
use crate::common::EVENT_TIMEOUT;

/// Steps in milliseconds. The log does not sign with a clock more than 10 s ahead, and waits for a
/// clock that is more than 10 s behind.
const STEPS: [i64; 9] = [
    -86_400_000,
    -60_000,
    -9_000,
    -100,
    100,
    5_000,
    9_000,
    60_000,
    3_600_000,
];

/// Steps before a start. A step of one hour ahead would be accepted, because it looks like a pause.
const STEPS_BEFORE_A_START: [i64; 5] = [-3_600_000, -9_000, 100, 9_000, 3 * 86_400_000];

/// Maximum milliseconds by which a checkpoint is ahead of the real time.
const AHEAD: u64 = 10_000 + 1_000;

#[test]
fn steps_of_the_clock_lose_nothing() {
    let mut cases = Cases::new("the clock is set", 2);
    let life = Life::new(Place::directory());
    while let Some(mut luck) = cases.next() {
        let disk = BadDisk::new();
        let starting = luck.random_bool(0.3);
        let steps: &[i64] = if starting {
            &STEPS_BEFORE_A_START
        } else {
            &STEPS
        };
        let step = *steps.choose(&mut luck).unwrap();
        let fault = format!("{step} ms, starting: {starting}");
        if starting {
            disk.step_clock(step);
        }
        let mut server = disk.under(life.log.launch("serve")).spawn().unwrap();
        if !starting {
            let taking = life.waits_for_promises(|| None);
            taking.unwrap_or_else(|how| panic!("{fault}: {how}:\n{}", server.output()));
            disk.step_clock(step);
        }
        // Time to sign. No signature may be ahead of the real time, whenever it is created.
        std::thread::sleep(Duration::from_millis(luck.random_range(50..1500)));
        let newest_ms = life.newest_ms();
        assert!(newest_ms <= now_ms() + AHEAD, "{fault}: signed {newest_ms}");
        disk.step_clock(0);
        let ended = || None;
        if !starting {
            let taking = life.waits_for_promises(ended);
            taking.unwrap_or_else(|how| panic!("{fault}: {how}:\n{}", server.output()));
        }
        server.stop(EVENT_TIMEOUT).unwrap();
        life.is_whole(&fault);
    }
    life.settle();
}

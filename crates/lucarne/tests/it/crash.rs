//! After a kill at any moment, no promised entry is lost, no entry is logged twice, and no signed
//! tree is taken back.

use std::fs;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::load::Load;
use crate::common::{EVENT_TIMEOUT, assert_has, log_at, ready, run};
use lucarne_testkit::{LogUnderTest, Place, Server};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::runtime::Runtime;

const SUBMITTERS: usize = 6;

/// Number of kills of a log in a store. Each kill takes long, so the default is small;
/// `LUCARNE_KILLS=50` runs the complete test.
const KILLS_ON_STORES: usize = 10;

#[test]
fn fifty_kills_under_load_lose_and_repeat_nothing() {
    kill_again_and_again(Place::directory(), 50, |_| ());
}

#[test]
fn kills_on_s3_and_mariadb_lose_and_repeat_nothing() {
    let place = run(Place::s3_and_mariadb()).unwrap();
    kill_again_and_again(place, kills_on_stores(), |_| ());
}

#[test]
fn kills_on_s3_alone_lose_and_repeat_nothing() {
    let place = run(Place::s3_alone()).unwrap();
    kill_again_and_again(place, kills_on_stores(), |_| ());
}

fn kills_on_stores() -> usize {
    match std::env::var("LUCARNE_KILLS") {
        Ok(kills) => kills.parse().expect("LUCARNE_KILLS is a number"),
        Err(_) => KILLS_ON_STORES,
    }
}

/// The dedup index is only a copy of data in the tiles.
#[test]
fn a_lost_dedup_index_repeats_nothing() {
    kill_again_and_again(Place::directory(), 12, |log| {
        let removed = fs::remove_dir_all(log.path().join("cache"));
        // The process was killed before it created the index.
        let absent = |error: &Error| error.kind() == ErrorKind::NotFound;
        assert!(removed.is_ok() || removed.is_err_and(|error| absent(&error)));
    });
}

/// Runs the log under load, kills it at random moments, calls `between` after each kill, and
/// compares SCTs and entries at the end.
fn kill_again_and_again(place: Place, kills: usize, between: impl Fn(&LogUnderTest)) {
    let at = format!("{place:?}");
    let seed = match std::env::var("LUCARNE_SEED") {
        Ok(seed) => seed.parse().expect("LUCARNE_SEED is a number"),
        Err(_) => 1,
    };
    println!("moments of death: LUCARNE_SEED={seed}");
    let started = Instant::now();
    let mut moments = StdRng::seed_from_u64(seed);
    let log = log_at(place, "period: 20");
    let runtime = Runtime::new().unwrap();
    let load = Arc::new(Load::new(&log));
    let mut at_work: Vec<_> = (0..SUBMITTERS)
        .map(|_| {
            let load = load.clone();
            runtime.spawn(async move { load.submit_on().await })
        })
        .collect();
    let polling = load.clone();
    at_work.push(runtime.spawn(async move { polling.poll_on().await }));

    let (mut recoveries, mut catching_up) = (0, 0);
    for number in 0..kills {
        let mut server = match number % 5 {
            4 => killed_while_starting(&log, &mut moments),
            _ => killed_at_work(&log, &load, &mut moments),
        };
        server.kill().unwrap();
        let output = server.output();
        assert!(!output.contains(" ERROR "), "kill {number}:\n{output}");
        recoveries += usize::from(output.contains("rolling forward"));
        catching_up += usize::from(output.contains("dedup index: catching up"));
        between(&log);
    }

    let mut server = log.start().unwrap();
    runtime.block_on(ready(&log));
    load.end();
    let report = runtime.block_on(async {
        for task in at_work {
            task.await.unwrap();
        }
        load.settle_accounts().await
    });
    let took = started.elapsed().as_secs();
    print!("{at}: {kills} kills in {took} s, {recoveries} times the journal was rolled forward, ");
    println!("{catching_up} times the index caught up\n{report}");
    report.assert_clean();
    assert!(report.submissions > 2 * kills && report.scts > report.submissions);
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    assert_has(&server.output(), "has its response");
}

/// Starts a server that will be killed after it has issued SCTs for some time.
fn killed_at_work(log: &LogUnderTest, load: &Load, moments: &mut StdRng) -> Server {
    let before = load.promised.load(Ordering::SeqCst);
    let server = log.start().unwrap();
    let started = Instant::now();
    while load.promised.load(Ordering::SeqCst) == before {
        let waited = started.elapsed();
        assert!(waited < EVENT_TIMEOUT, "no SCT:\n{}", server.output());
        // A poll with a deadline: no verdict depends on the interval.
        sleep(Duration::from_millis(1));
    }
    // The caller kills the server after a random time. No time may lose an entry.
    sleep(Duration::from_millis(moments.random_range(20..400)));
    server
}

/// Starts a server that will be killed between its first instruction and its first SCT.
fn killed_while_starting(log: &LogUnderTest, moments: &mut StdRng) -> Server {
    let server = log.launch("serve").spawn().unwrap();
    // The caller kills the server after a random time. No time may lose an entry.
    sleep(Duration::from_millis(moments.random_range(0..150)));
    server
}

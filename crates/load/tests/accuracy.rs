//! The report, compared with the notes of the virtual users and of a server. No assertion here
//! compares two clocks or depends on the load of the machine: `benches/accuracy` measures the error
//! of percentiles.
#![allow(clippy::unwrap_used)]

#[path = "../benches/accuracy/ask.rs"]
mod ask;
#[path = "../benches/accuracy/server.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use ask::{Ask, Asked, RATE, SECONDS, constant_rate, first_due, run, stalled, trend, wrong};
use lucarne_load::executor::{ArrivalRateOptions, Rate};
use lucarne_load::{ExecutorConfig, Histogram, Outcome, Verdict};
use server::{Server, Stall};

/// Checks that a metric of the report has the values that the users recorded.
fn agrees(outcome: &Outcome, metric: &str, notes: &[Asked], value: fn(&Asked) -> Duration) {
    println!("{metric}:");
    let mut values: Vec<Duration> = notes.iter().map(value).collect();
    assert_eq!(
        wrong(&trend(outcome, metric), &mut values),
        None,
        "{metric}"
    );
}

fn since_due(asked: &Asked) -> Duration {
    asked.exchange.finished - asked.intended
}

/// Returns the time from the last write of the request to the first byte of the response.
fn first_byte(asked: &Asked) -> Duration {
    asked.exchange.first_byte.unwrap()
}

/// Returns the time from the first byte of the response to the last.
fn body(asked: &Asked) -> Duration {
    asked.exchange.body.unwrap()
}

/// Waiting counts from the due time of an arrival, so a stall of 1.5 s is visible.
#[test]
fn the_engine_reports_what_its_users_saw() {
    let (server, ask, outcome) = stalled();
    let notes = ask.notes.lock().unwrap();
    let arrivals = RATE as usize * SECONDS as usize;
    assert!(
        (arrivals - 1..=arrivals + 1).contains(&notes.len()),
        "{} iterations",
        notes.len()
    );
    assert_eq!(server.answered().len(), notes.len());
    let start = first_due(&notes);
    for asked in notes.iter() {
        let due = start + Duration::from_secs_f64(asked.number as f64 / RATE);
        let off = asked.intended.max(due) - asked.intended.min(due);
        assert!(
            off < Duration::from_micros(100),
            "iteration {} is {off:?} off",
            asked.number
        );
        let started = asked.exchange.started;
        assert!(started >= asked.intended, "begun before it was due");
    }
    agrees(&outcome, "http_req_duration", &notes, since_due);
    let requests = trend(&outcome, "http_req_duration");
    let iterations = trend(&outcome, "iteration_duration");
    assert_eq!(iterations.count(), requests.count());
    assert!(iterations.max() >= requests.max());
    let longest = requests.max();
    assert!(longest >= Duration::from_millis(1500), "{longest:?}");
    // Most arrivals of the stall found no free user, and began late.
    let mut from_start = Histogram::new();
    for asked in notes.iter() {
        from_start.record(asked.exchange.finished - asked.exchange.started);
    }
    let mut waits: Vec<Duration> = notes.iter().map(since_due).collect();
    println!("counted from the actual start:");
    assert!(
        wrong(&from_start, &mut waits).is_some(),
        "this test cannot tell the intended start from the actual one"
    );
    assert_eq!(
        outcome.verdict,
        Verdict::Unjudged,
        "{:?}",
        outcome.summary.thresholds
    );
    let row = &outcome.summary.scenarios[0];
    assert_eq!((row.dropped, row.interrupted), (0, 0), "{row:?}");
}

/// The first byte comes after 200 ms or more, the last another 300 ms later.
#[test]
fn phases_are_told_apart() {
    let server = Server::start(ask::two_phases, None);
    let ask = Arc::new(Ask::new(&server));
    let users = ExecutorConfig::ConstantVus {
        vus: 32,
        duration: Duration::from_secs(60),
        iterations: Some(128),
    };
    let outcome = run(ask.clone(), users, 1);
    let notes = ask.notes.lock().unwrap();
    assert_eq!(server.phases().len(), 128);
    agrees(&outcome, "http_req_waiting", &notes, first_byte);
    agrees(&outcome, "http_req_receiving", &notes, body);
    for asked in notes.iter() {
        // The server receives the request after the client's last write began, so the client
        // measures at least the delay of the server.
        let (wait, rest) = ask::two_phases(asked.number);
        assert!(first_byte(asked) >= wait, "{:?}", asked.exchange);
        assert!(since_due(asked) >= wait + rest, "{:?}", asked.exchange);
    }
}

/// Two workers split the arrivals; together they are one open loop.
#[test]
fn two_threads_are_one_load() {
    let server = Server::start(ask::one_phase, None);
    let ask = Arc::new(Ask::new(&server));
    let outcome = run(ask.clone(), constant_rate(60), 2);
    let notes = ask.notes.lock().unwrap();
    let mut numbers: Vec<u64> = notes.iter().map(|asked| asked.number).collect();
    numbers.sort_unstable();
    let all: Vec<u64> = (0..numbers.len() as u64).collect();
    assert_eq!(numbers, all, "each arrival once");
    let mut answered: Vec<u64> = server
        .answered()
        .iter()
        .map(|(number, _)| *number)
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, all, "each arrival is one request");
    agrees(&outcome, "http_req_duration", &notes, since_due);
}

/// Load that could not be offered counts as dropped, and fails the run.
#[test]
fn what_was_not_offered_is_said() {
    let stall = Stall {
        begin: Duration::from_secs(1),
        length: Duration::from_secs(4),
    };
    let server = Server::start(|_| (Duration::from_millis(20), Duration::ZERO), Some(stall));
    let ask = Arc::new(Ask::new(&server));
    let executor = ExecutorConfig::ConstantArrivalRate {
        rate: Rate::per_second(RATE),
        duration: Duration::from_secs(6),
        options: ArrivalRateOptions {
            max_vus: 5,
            max_start_delay: Duration::from_millis(500),
            ..ArrivalRateOptions::default()
        },
    };
    let outcome = run(ask, executor, 1);
    let row = &outcome.summary.scenarios[0];
    assert!(row.dropped > 100, "{row:?}");
    assert_eq!(row.asked, row.started + row.dropped, "{row:?}");
    assert!(row.achieved < 0.8, "{row:?}");
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert_eq!(outcome.verdict.exit_code(), 99);
}

//! The figures are held against the truth: engine and client against a server that
//! notes, on the same clock, when each answer left it.
//!
//! The truth about an open loop needs nothing of the engine but the instant of
//! the first arrival: arrival `n` is due `n / rate` later, and what a client
//! waits for is the answer to it. A machine that is busy with other things can
//! only make single answers late; what is wrong by construction is wrong in
//! each of three attempts.
#![allow(clippy::unwrap_used)]

#[path = "accuracy/server.rs"]
mod server;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_load::executor::{ArrivalRateOptions, Rate};
use lucarne_load::http::{Client, ClientOptions, Endpoint, Request};
use lucarne_load::{
    ExecutorConfig, Histogram, Iteration, Outcome, PrepareError, Recorder, Run, Scenario,
    ScenarioConfig, Tags, Verdict, VirtualUser,
};
use server::{Server, Stall};

/// The most that a percentile may be off.
const TOLERANCE: f64 = 0.01;
const PERCENTILES: [f64; 5] = [50.0, 75.0, 90.0, 95.0, 99.0];
const ATTEMPTS: usize = 3;

/// Asks the server `/<number of the iteration>`, and notes for itself what
/// happened.
struct Ask {
    url: String,
    /// Where requests go, once they have been looked up.
    endpoint: Mutex<Option<Arc<Endpoint>>>,
    notes: Arc<Mutex<Vec<Asked>>>,
}

/// One iteration, as the scenario saw it.
#[derive(Clone, Copy)]
struct Asked {
    number: u64,
    intended: Instant,
    started: Instant,
    finished: Instant,
}

impl Ask {
    fn new(server: &Server) -> Self {
        Ask {
            url: server.url(),
            endpoint: Mutex::default(),
            notes: Arc::default(),
        }
    }
}

#[async_trait]
impl Scenario for Ask {
    async fn prepare(&self) -> Result<(), PrepareError> {
        let resolved = Endpoint::resolve(&self.url, &ClientOptions::default()).await;
        let endpoint = resolved.map_err(|error| PrepareError::Configuration(error.to_string()))?;
        *self.endpoint.lock().unwrap() = Some(endpoint);
        Ok(())
    }

    fn user(&self, _number: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        let endpoint = self.endpoint.lock().unwrap().clone().unwrap();
        Box::new(Asker {
            client: Client::new(endpoint, Arc::default()),
            tags: recorder.tags(&[]),
            notes: self.notes.clone(),
        })
    }
}

struct Asker {
    client: Client,
    tags: Tags,
    notes: Arc<Mutex<Vec<Asked>>>,
}

#[async_trait]
impl VirtualUser for Asker {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let path = format!("/{}", iteration.number());
        let response = self.client.send(&Request::get(&path)).await;
        let finished = Instant::now();
        iteration.request(self.tags, &response.exchange);
        self.notes.lock().unwrap().push(Asked {
            number: iteration.number(),
            intended: iteration.intended(),
            started: response.exchange.started,
            finished,
        });
    }
}

fn run(scenario: Arc<Ask>, executor: ExecutorConfig, workers: usize) -> Outcome {
    let run = Run {
        scenarios: vec![ScenarioConfig::new("ask", executor, scenario)],
        workers,
        ..Run::default()
    };
    run.start().wait()
}

/// A percentile by linear interpolation between the neighbours of p·(n−1).
fn percentile(sorted: &[Duration], p: f64) -> Duration {
    let place = p / 100.0 * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]).mul_f64(place.fract())
}

/// The first percentile that is further off than [`TOLERANCE`], in words.
fn wrong(measured: &Histogram, truth: &mut [Duration]) -> Option<String> {
    assert_eq!(measured.count(), truth.len() as u64, "samples");
    truth.sort_unstable();
    let mut words = None;
    for p in PERCENTILES {
        let (said, true_one) = (measured.percentile(p), percentile(truth, p));
        let off = said.as_secs_f64() / true_one.as_secs_f64() - 1.0;
        println!(
            "p{p}: {said:?} reported, {true_one:?} true, {:+.2} %",
            off * 100.0
        );
        if off.abs() > TOLERANCE {
            words = words.or(Some(format!("p{p} is {said:?}, should be {true_one:?}")));
        }
    }
    words
}

/// Tries until nothing is wrong, three times at most.
fn attempts(mut attempt: impl FnMut() -> Option<String>) {
    let mut last = String::new();
    for number in 1..=ATTEMPTS {
        match attempt() {
            None => return,
            Some(words) => println!("attempt {number}: {words}"),
        }
        last = format!("wrong in each of {ATTEMPTS} attempts, see above");
    }
    panic!("{last}");
}

fn trend(outcome: &Outcome, metric: &str) -> Histogram {
    let total = outcome.summary.total(metric);
    let total = total.unwrap_or_else(|| panic!("no {metric} in the summary"));
    total.trend().unwrap().clone()
}

const RATE: f64 = 60.0;
const SECONDS: u64 = 8;

fn constant_rate(max_vus: u64) -> ExecutorConfig {
    ExecutorConfig::ConstantArrivalRate {
        rate: Rate::per_second(RATE),
        duration: Duration::from_secs(SECONDS),
        options: ArrivalRateOptions {
            pre_allocated_vus: max_vus,
            max_vus,
            ..ArrivalRateOptions::default()
        },
    }
}

/// Answers take 150 to 450 ms, and between 3 s and 4.5 s nothing is answered
/// at all. Thirty users are enough for the answers, not for the stall: most
/// arrivals of that time find nobody to carry them out. They are late, and the
/// target is to blame.
fn stalled() -> (Server, Arc<Ask>, Outcome) {
    let stall = Stall {
        begin: Duration::from_secs(3),
        length: Duration::from_millis(1500),
    };
    let server = Server::start(
        |number| {
            (
                Duration::from_millis(150 + number * 7919 % 301),
                Duration::ZERO,
            )
        },
        Some(stall),
    );
    let ask = Arc::new(Ask::new(&server));
    let outcome = run(ask.clone(), constant_rate(30), 1);
    (server, ask, outcome)
}

/// Returns what each client really waited, by the server's notes.
fn truth(server: &Server, first_due: Instant) -> Vec<Duration> {
    let due = |number: u64| first_due + Duration::from_secs_f64(number as f64 / RATE);
    let answered = server.answered();
    let waits = answered
        .iter()
        .map(|(number, at)| at.saturating_duration_since(due(*number)));
    waits.collect()
}

fn first_due(notes: &[Asked]) -> Instant {
    let first = notes.iter().find(|asked| asked.number == 0);
    first.expect("iteration 0").intended
}

#[test]
fn percentiles_are_right_and_a_stall_is_seen() {
    attempts(|| {
        let (server, ask, outcome) = stalled();
        let notes = ask.notes.lock().unwrap().clone();
        let asked = RATE as usize * SECONDS as usize;
        assert!(
            (asked - 1..=asked + 1).contains(&notes.len()),
            "{} iterations",
            notes.len()
        );
        let mut truth = truth(&server, first_due(&notes));
        let reported = trend(&outcome, "http_req_duration");
        let mut words = wrong(&reported, &mut truth);
        // The stall is what the highest percentiles are made of.
        let longest = reported.max();
        if longest < Duration::from_millis(1500) || longest > Duration::from_secs(4) {
            words = words.or(Some(format!("a stall of 1.5 s, and at most {longest:?}")));
        }
        // One that was measured from where requests really began would not do.
        let mut from_start = Histogram::new();
        for asked in &notes {
            from_start.record(asked.finished - asked.started);
        }
        println!("counted from the actual start:");
        assert!(
            wrong(&from_start, &mut truth).is_some(),
            "this test cannot tell the intended start from the actual one"
        );
        words
    });
}

/// The same, told by the scenario itself: no machine can be too busy for that.
#[test]
fn the_engine_reports_what_its_users_saw() {
    let (_server, ask, outcome) = stalled();
    let notes = ask.notes.lock().unwrap();
    let start = first_due(&notes);
    for asked in notes.iter() {
        let due = start + Duration::from_secs_f64(asked.number as f64 / RATE);
        let off = asked.intended.max(due) - asked.intended.min(due);
        assert!(
            off < Duration::from_micros(100),
            "iteration {} is {off:?} off",
            asked.number
        );
        assert!(asked.started >= asked.intended, "begun before it was due");
    }
    for metric in ["http_req_duration", "iteration_duration"] {
        let mut waits: Vec<Duration> = notes
            .iter()
            .map(|asked| asked.finished - asked.intended)
            .collect();
        println!("{metric}:");
        assert_eq!(wrong(&trend(&outcome, metric), &mut waits), None);
    }
    assert_eq!(
        outcome.verdict,
        Verdict::Unjudged,
        "{:?}",
        outcome.summary.thresholds
    );
    let row = &outcome.summary.scenarios[0];
    assert_eq!((row.dropped, row.interrupted), (0, 0), "{row:?}");
}

/// The first byte comes after 200 ms or so, the last another 300 ms later.
#[test]
fn phases_are_told_apart() {
    attempts(|| {
        let server = Server::start(
            |number| {
                let more = number * 7919 % 101;
                (
                    Duration::from_millis(200 + more),
                    Duration::from_millis(300 + 2 * more),
                )
            },
            None,
        );
        let ask = Arc::new(Ask::new(&server));
        let users = ExecutorConfig::ConstantVus {
            vus: 32,
            duration: Duration::from_secs(5),
            iterations: None,
        };
        let outcome = run(ask, users, 1);
        let phases = server.phases();
        assert!(phases.len() > 150, "{} answers", phases.len());
        let mut waiting: Vec<Duration> = phases.iter().map(|(waiting, _)| *waiting).collect();
        let mut receiving: Vec<Duration> = phases.iter().map(|(_, body)| *body).collect();
        println!("waiting:");
        let words = wrong(&trend(&outcome, "http_req_waiting"), &mut waiting);
        println!("receiving:");
        words.or(wrong(
            &trend(&outcome, "http_req_receiving"),
            &mut receiving,
        ))
    });
}

/// Two workers split the arrivals; together they are one open loop.
#[test]
fn two_threads_are_one_load() {
    attempts(|| {
        let server = Server::start(
            |number| {
                (
                    Duration::from_millis(150 + number * 7919 % 301),
                    Duration::ZERO,
                )
            },
            None,
        );
        let ask = Arc::new(Ask::new(&server));
        let outcome = run(ask.clone(), constant_rate(60), 2);
        let notes = ask.notes.lock().unwrap().clone();
        let mut numbers: Vec<u64> = notes.iter().map(|asked| asked.number).collect();
        numbers.sort_unstable();
        let all: Vec<u64> = (0..numbers.len() as u64).collect();
        assert_eq!(numbers, all, "each arrival once");
        wrong(
            &trend(&outcome, "http_req_duration"),
            &mut truth(&server, first_due(&notes)),
        )
    });
}

/// Load that could not be offered is counted as dropped, and fails the run.
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

//! A scenario that keeps notes of its requests, and the comparison of a report with these notes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_load::executor::{ArrivalRateOptions, Rate};
use lucarne_load::http::{Client, ClientOptions, Endpoint, Request};
use lucarne_load::{
    Exchange, ExecutorConfig, Histogram, Iteration, Outcome, PrepareError, Recorder, Run, Scenario,
    ScenarioConfig, Tags, VirtualUser,
};

use super::server::{Server, Stall};

/// Largest relative error of a percentile.
const TOLERANCE: f64 = 0.01;
const PERCENTILES: [f64; 5] = [50.0, 75.0, 90.0, 95.0, 99.0];

/// Requests `/<number of the iteration>` from the server, and keeps its own notes.
pub(crate) struct Ask {
    url: String,
    /// Endpoint of the requests; `None` before `prepare`.
    endpoint: Mutex<Option<Arc<Endpoint>>>,
    pub(crate) notes: Arc<Mutex<Vec<Asked>>>,
}

/// An iteration in the notes of the scenario.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) number: u64,
    pub(crate) intended: Instant,
    pub(crate) exchange: Exchange,
}

impl Ask {
    pub(crate) fn new(server: &Server) -> Self {
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
        iteration.request(self.tags, &response.exchange);
        self.notes.lock().unwrap().push(Asked {
            number: iteration.number(),
            intended: iteration.intended(),
            exchange: response.exchange,
        });
    }
}

pub(crate) fn run(scenario: Arc<Ask>, executor: ExecutorConfig, workers: usize) -> Outcome {
    let run = Run {
        scenarios: vec![ScenarioConfig::new("ask", executor, scenario)],
        workers,
        ..Run::default()
    };
    run.start().wait()
}

/// Computes a percentile by linear interpolation between the neighbours of p·(n−1).
pub(crate) fn percentile(sorted: &[Duration], p: f64) -> Duration {
    let place = p / 100.0 * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]).mul_f64(place.fract())
}

/// Describes the first percentile whose error exceeds [`TOLERANCE`].
pub(crate) fn wrong(measured: &Histogram, truth: &mut [Duration]) -> Option<String> {
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

pub(crate) fn trend(outcome: &Outcome, metric: &str) -> Histogram {
    let total = outcome.summary.total(metric);
    let total = total.unwrap_or_else(|| panic!("no {metric} in the summary"));
    total.trend().unwrap().clone()
}

/// Arrivals per second.
pub(crate) const RATE: f64 = 60.0;
pub(crate) const SECONDS: u64 = 8;

pub(crate) fn constant_rate(max_vus: u64) -> ExecutorConfig {
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

/// Delays the whole response by 150 to 450 ms.
pub(crate) fn one_phase(number: u64) -> (Duration, Duration) {
    let wait = Duration::from_millis(150 + number * 7919 % 301);
    (wait, Duration::ZERO)
}

/// Delays the first byte by 200 to 300 ms, and the last by another 300 to 500 ms.
pub(crate) fn two_phases(number: u64) -> (Duration, Duration) {
    let more = number * 7919 % 101;
    let (wait, rest) = (200 + more, 300 + 2 * more);
    (Duration::from_millis(wait), Duration::from_millis(rest))
}

/// Runs with responses after 150 to 450 ms, and without responses between 3 s and 4.5 s. Thirty
/// users are enough for the responses, but not for the stall: most arrivals in that time find no
/// free user. The target causes their delay.
pub(crate) fn stalled() -> (Server, Arc<Ask>, Outcome) {
    let stall = Stall {
        begin: Duration::from_secs(3),
        length: Duration::from_millis(1500),
    };
    let server = Server::start(one_phase, Some(stall));
    let ask = Arc::new(Ask::new(&server));
    let outcome = run(ask.clone(), constant_rate(30), 1);
    (server, ask, outcome)
}

pub(crate) fn first_due(notes: &[Asked]) -> Instant {
    let first = notes.iter().find(|asked| asked.number == 0);
    first.expect("iteration 0").intended
}

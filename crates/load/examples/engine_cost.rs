//! Cost of the engine itself: CPU time per iteration, and the start delay of iterations.
//!
//!     cargo run --release -p lucarne-load --example engine_cost -- 10000 10
//!
//! offers 10,000 iterations per second for ten seconds, each with one request of no duration, and
//! prints the process' CPU time per iteration. Without a rate, one user iterates as fast as
//! possible: this is the highest rate of one core with a target that costs nothing.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_load::executor::{ArrivalRateOptions, Rate};
use lucarne_load::{
    Exchange, ExecutorConfig, Iteration, PrepareError, Recorder, Run, Scenario, ScenarioConfig,
    Tags, VirtualUser,
};

struct Nothing;

struct Idler(Tags);

#[async_trait]
impl Scenario for Nothing {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(Idler(recorder.tags(&[("op", "nothing")])))
    }
}

#[async_trait]
impl VirtualUser for Idler {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let now = Instant::now();
        let phase = Some(Duration::from_micros(10));
        let exchange = Exchange {
            sending: phase,
            first_byte: phase,
            body: phase,
            status: 200,
            bytes_in: 100,
            bytes_out: 100,
            body_in: 5,
            body_out: 7,
            ..Exchange::without_response(now, "none", Ok(()))
        };
        iteration.request(self.0, &exchange);
        iteration.passed(self.0, "nothing is wrong");
    }
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse::<f64>().ok());
    let rate = arguments.next();
    let duration = Duration::from_secs_f64(arguments.next().unwrap_or(5.0));
    let executor = match rate {
        Some(rate) => {
            let (rate, options) = (Rate::per_second(rate), ArrivalRateOptions::default());
            ExecutorConfig::ConstantArrivalRate {
                rate,
                duration,
                options,
            }
        }
        None => ExecutorConfig::ConstantVus {
            vus: 1,
            duration,
            iterations: None,
        },
    };
    let scenarios = vec![ScenarioConfig::new("nothing", executor, Arc::new(Nothing))];
    let summary = Run {
        scenarios,
        ..Run::default()
    }
    .start()
    .wait()
    .summary;
    let scenario = &summary.scenarios[0];
    let cpu = summary.environment.process_cpu.unwrap_or_default();
    println!(
        "{}: {} iterations, {} dropped",
        scenario.executor, scenario.completed, scenario.dropped
    );
    println!(
        "{:.0} iterations/s",
        scenario.completed as f64 / scenario.duration
    );
    println!(
        "{:.2} µs of CPU per iteration",
        cpu * 1e6 / scenario.completed as f64
    );
    if let Some(metric) = summary.total("iteration_duration") {
        let Some(late) = metric.trend() else { return };
        let [p50, p99] = [50.0, 99.0].map(|p| late.percentile(p));
        println!(
            "begun late by: median {p50:.1?}, p99 {p99:.1?}, longest {:.1?}",
            late.max()
        );
    }
    println!(
        "{} MB at most",
        summary.environment.peak_memory.unwrap_or(0) / 1_000_000
    );
}

//! A scenario that only waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_load::executor::{ArrivalRateOptions, Rate};
use lucarne_load::threshold::{Threshold, Thresholds};
use lucarne_load::{
    Exchange, ExecutorConfig, Iteration, Outcome, PrepareError, Recorder, Run, Scenario,
    ScenarioConfig, Summary, Tags, VirtualUser,
};

/// Each iteration records one "request" whose duration `delay` computes from the time since the
/// creation of the scenario.
pub(crate) struct Waiting<F> {
    since: Instant,
    delay: F,
}

struct Waiter<F> {
    since: Instant,
    delay: F,
    tags: Tags,
}

impl<F: Fn(Duration) -> Duration + Clone + Send + Sync + 'static> Waiting<F> {
    pub(crate) fn scenario(delay: F) -> Arc<dyn Scenario> {
        Arc::new(Waiting {
            since: Instant::now(),
            delay,
        })
    }
}

#[async_trait]
impl<F: Fn(Duration) -> Duration + Clone + Send + Sync + 'static> Scenario for Waiting<F> {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        let tags = recorder.tags(&[("op", "wait")]);
        Box::new(Waiter {
            since: self.since,
            delay: self.delay.clone(),
            tags,
        })
    }
}

#[async_trait]
impl<F: Fn(Duration) -> Duration + Send + Sync> VirtualUser for Waiter<F> {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let started = Instant::now();
        let delay = (self.delay)(started - self.since);
        // The target takes this time.
        if !delay.is_zero() {
            let pending = iteration.pending(self.tags, "none");
            pending.until(tokio::time::sleep(delay)).await;
        }
        iteration.request(self.tags, &answered(started));
        iteration.passed(self.tags, "waited");
    }
}

pub(crate) fn answered(started: Instant) -> Exchange {
    Exchange {
        status: 200,
        bytes_in: 10,
        bytes_out: 20,
        body_in: 5,
        body_out: 7,
        ..Exchange::without_response(started, "none", Ok(()))
    }
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn constant(per_second: f64, duration: Duration) -> ExecutorConfig {
    constant_with(per_second, duration, ArrivalRateOptions::default())
}

pub(crate) fn constant_with(
    per_second: f64,
    duration: Duration,
    options: ArrivalRateOptions,
) -> ExecutorConfig {
    ExecutorConfig::ConstantArrivalRate {
        rate: Rate::per_second(per_second),
        duration,
        options,
    }
}

pub(crate) fn run(scenarios: Vec<ScenarioConfig>, thresholds: &[(&str, &str)]) -> Run {
    let thresholds = thresholds
        .iter()
        .map(|(key, text)| Threshold::new(key, text).unwrap());
    let thresholds = Thresholds(thresholds.collect());
    Run {
        name: "test".into(),
        scenarios,
        thresholds,
        ..Run::default()
    }
}

pub(crate) fn one(executor: ExecutorConfig, scenario: Arc<dyn Scenario>) -> Outcome {
    run(vec![ScenarioConfig::new("s", executor, scenario)], &[])
        .start()
        .wait()
}

pub(crate) fn count(summary: &Summary, metric: &str) -> u64 {
    summary.total(metric).map_or(0, |metric| metric.samples())
}

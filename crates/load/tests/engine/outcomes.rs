//! Outcomes of a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_load::{
    ExecutorConfig, Iteration, PrepareError, Recorder, Scenario, ScenarioConfig, Verdict,
    VirtualUser,
};

use crate::waiting::{Waiting, constant, millis, one, run};

#[test]
fn scenarios_start_when_they_should_and_keep_their_tags() {
    let mut late = ScenarioConfig::new(
        "late",
        constant(50.0, millis(200)),
        Waiting::scenario(|_| Duration::ZERO),
    );
    late.start = millis(500);
    late.tags = vec![("stage".into(), "second".into())];
    let early = ScenarioConfig::new(
        "early",
        constant(50.0, millis(200)),
        Waiting::scenario(|_| Duration::ZERO),
    );
    let keys = [
        ("http_reqs{scenario:late,stage:second,op:wait}", "count==10"),
        ("http_reqs{scenario:early}", "count==10"),
        ("http_reqs{status:200}", "count==20"),
        ("http_reqs{status:500}", "count==0"),
        ("checks{check:waited}", "rate==1"),
        ("errors{kind:reset}", "count==0"),
        ("data_sent", "count==400"),
    ];
    let outcome = run(vec![late, early], &keys).start().wait();
    assert_eq!(
        outcome.verdict,
        Verdict::Passed,
        "{:?}",
        outcome.summary.thresholds
    );
    assert!(outcome.summary.duration >= 0.68);
    assert_eq!(outcome.summary.scenarios[0].name, "late");
}

/// Occupies the only worker, like too much load for this machine.
struct Hog;

#[async_trait]
impl Scenario for Hog {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(Hog)
    }
}

#[async_trait]
impl VirtualUser for Hog {
    async fn iterate(&mut self, _: &mut Iteration) {
        // The fault: the worker does something else for at least this time.
        std::thread::sleep(millis(50));
    }
}

#[test]
fn what_the_load_generator_loses_is_told_apart_from_the_target() {
    let delay = |outcome: &lucarne_load::Outcome| {
        let metric = outcome.summary.total("iteration_start_delay").unwrap();
        metric.trend().unwrap().clone()
    };
    let warned = |outcome: &lucarne_load::Outcome| {
        let mut notes = outcome.summary.notes.iter();
        notes.any(|note| note.title.contains("iteration_start_delay"))
    };
    let own = one(constant(50.0, millis(500)), Arc::new(Hog));
    assert!(delay(&own).max() >= millis(40), "{:?}", delay(&own));
    assert!(warned(&own));
    // The target is too slow for the number of users. Iterations start late because of the target,
    // not because of the generator.
    let options = lucarne_load::executor::ArrivalRateOptions {
        max_vus: 1,
        ..Default::default()
    };
    let executor = crate::waiting::constant_with(100.0, millis(1000), options);
    let target = one(executor, Waiting::scenario(|_| millis(50)));
    let durations = target.summary.total("iteration_duration").unwrap();
    let durations = durations.trend().unwrap();
    assert!(durations.max() >= millis(400), "{durations:?}");
    assert!(
        delay(&target).mean() < durations.mean() / 2,
        "{:?} of {:?}",
        delay(&target).mean(),
        durations.mean()
    );
}

#[test]
fn a_run_without_thresholds_says_so() {
    let outcome = one(
        constant(50.0, millis(100)),
        Waiting::scenario(|_| millis(1)),
    );
    assert_eq!(
        (outcome.verdict, outcome.verdict.exit_code()),
        (Verdict::Unjudged, 0)
    );
    let text = lucarne_load::report::text(&outcome.summary);
    assert!(
        text.contains("no thresholds") && !text.contains("passed"),
        "{text}"
    );
}

#[test]
fn thresholds_without_samples_fail() {
    let planned = ScenarioConfig::new(
        "s",
        constant(20.0, millis(100)),
        Waiting::scenario(|_| Duration::ZERO),
    );
    let outcome = run(
        vec![planned],
        &[("http_req_duration{scenario:other}", "p(95)<500")],
    )
    .start()
    .wait();
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert_eq!(
        outcome.summary.thresholds[0].reason.as_deref(),
        Some("no samples")
    );
}

#[test]
fn keys_change_the_load() {
    let planned = ScenarioConfig::new(
        "s",
        constant(50.0, Duration::from_secs(600)),
        Waiting::scenario(|_| Duration::ZERO),
    );
    let users = ExecutorConfig::ConstantVus {
        vus: 2,
        duration: Duration::from_secs(600),
        iterations: None,
    };
    let users = ScenarioConfig::new("u", users, Waiting::scenario(|_| millis(5)));
    let running = run(vec![planned, users], &[]).start();
    let controls = running.controls();
    controls.scale(0, 10.0);
    controls.set(1, 6.0);
    assert_eq!(controls.list()[1].factor, 3.0);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut seen = running.snapshot();
    while seen.scenarios.len() < 2
        || seen.scenarios[0].achieved < 250.0
        || seen.scenarios[1].users != 6
    {
        assert!(Instant::now() < deadline, "{seen:?}");
        // Polled, with a deadline: no verdict depends on the pace.
        std::thread::sleep(millis(50));
        seen = running.snapshot();
    }
    assert_eq!(seen.scenarios[0].asked.round(), 500.0);
    assert_eq!(controls.list()[0].asked.round(), 500.0);
    running.stop();
    running.wait();
}

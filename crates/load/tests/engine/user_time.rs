//! Time that users lose because the target does not respond, or requests waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_load::report::text;
use lucarne_load::{
    ExecutorConfig, Iteration, Metric, Outcome, PrepareError, Recorder, Run, Scenario,
    ScenarioConfig, Summary, Verdict, VirtualUser,
};

use crate::waiting::{answered, constant, millis, run};

const FOREVER: Duration = Duration::from_secs(3600);

/// Behaviour of the target after [`RESPONSES`] responses.
#[derive(Clone, Copy)]
enum Then {
    /// Requests have no response.
    Hangs,
    /// Responses request a wait of an hour.
    Throttles,
    /// The target responds as before, and the plan has a think time of an hour.
    Thinks,
    /// Each response takes this time.
    Takes(Duration),
}

const RESPONSES: u64 = 20;

#[derive(Clone)]
struct Target {
    then: Then,
    requests: Arc<AtomicU64>,
}

impl Target {
    fn config(name: &str, then: Then, executor: ExecutorConfig) -> ScenarioConfig {
        let target = Target {
            then,
            requests: Arc::default(),
        };
        ScenarioConfig::new(name, executor, Arc::new(target))
    }
}

#[async_trait]
impl Scenario for Target {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl VirtualUser for Target {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let (tags, started) = (iteration.base(), Instant::now());
        let then = self.requests.fetch_add(1, Ordering::Relaxed) >= RESPONSES;
        let takes = match self.then {
            Then::Hangs if then => FOREVER,
            Then::Takes(time) => time,
            _ => millis(1),
        };
        let pending = iteration.pending(tags, "none");
        // The target takes this time.
        pending.until(tokio::time::sleep(takes)).await;
        iteration.request(tags, &answered(started));
        match self.then {
            Then::Throttles if then => iteration.throttled(FOREVER).await,
            Then::Thinks if then => iteration.pause(FOREVER).await,
            _ => {}
        }
    }
}

fn users(vus: u64, duration: Duration) -> ExecutorConfig {
    ExecutorConfig::ConstantVus {
        vus,
        duration,
        iterations: None,
    }
}

/// Returns the crossed thresholds on time, and the verdict.
fn crossed(outcome: &Outcome) -> Vec<&str> {
    let crossed = outcome.summary.thresholds.iter().filter(|it| !it.passed);
    let names = crossed.map(|it| it.metric.as_str());
    names
        .filter(|name| !name.starts_with("iterations_finished"))
        .collect()
}

fn share(summary: &Summary, metric: &str, scenario: &str) -> f64 {
    match summary.select(metric, &[("scenario", scenario)]) {
        Some(Metric::Rate { good, total }) => good as f64 / total as f64,
        other => panic!("{metric}: {other:?}"),
    }
}

#[test]
fn a_target_that_hangs_fails_in_both_models() {
    let second = Duration::from_secs(1);
    let mut scenarios = vec![
        Target::config("closed", Then::Hangs, users(2, second)),
        Target::config("open", Then::Hangs, constant(100.0, second)),
        Target::config("thinks", Then::Thinks, users(2, second)),
    ];
    for planned in &mut scenarios {
        // Longer than the silence that is ordinary.
        planned.graceful_stop = Duration::from_secs(8);
    }
    let lax = [("iterations_finished", "rate>=0")];
    let outcome = run(scenarios, &lax).start().wait();
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert_eq!(
        crossed(&outcome),
        [
            "vu_time_lost{scenario:closed}",
            "target_silent{scenario:closed}",
            "target_silent{scenario:open}"
        ]
    );
    let summary = &outcome.summary;
    assert!(share(summary, "vu_time_lost", "closed") > 0.5);
    assert!(share(summary, "vu_time_lost", "open") > 0.5);
    assert_eq!(share(summary, "vu_time_lost", "thinks"), 0.0);
    let text = text(summary);
    for line in [
        "closed: no response in the last ",
        "open: no response in the last ",
        "vu_time_lost.......",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line}\n{text}");
    }
    assert!(!text.contains("thinks: no response"), "{text}");

    let merged = Summary::merge(vec![summary.clone(), summary.clone()]).unwrap();
    assert_eq!(merged.verdict, Verdict::Crossed);
    for metric in ["vu_time_lost", "target_silent"] {
        let samples = |summary: &Summary| summary.total(metric).unwrap().samples();
        assert_eq!(samples(&merged), 2 * samples(summary), "{metric}");
    }
}

/// Runs one scenario in both models, and returns the outcome.
fn both(then: Then, allow: &[&str]) -> Outcome {
    let time = millis(500);
    let mut scenarios = vec![
        Target::config("closed", then, users(2, time)),
        Target::config("open", then, constant(100.0, time)),
    ];
    for planned in &mut scenarios {
        planned.graceful_stop = millis(500);
    }
    let run = Run {
        allow: allow.iter().map(|name| (*name).to_owned()).collect(),
        ..run(scenarios, &[])
    };
    run.check_allowed().unwrap();
    run.start().wait()
}

#[test]
fn a_target_that_makes_users_wait_fails_in_both_models() {
    let outcome = both(Then::Throttles, &[]);
    assert_eq!(
        crossed(&outcome),
        [
            "vu_time_throttled{scenario:closed}",
            "vu_time_throttled{scenario:open}"
        ]
    );
    let told = &outcome.summary.errors[0].details[0];
    assert!(
        told.ends_with(", in a wait that the target requested"),
        "{told}"
    );
    // Tests of pushback permit these waits.
    let outcome = both(Then::Throttles, &["vu_time_throttled"]);
    assert_eq!(outcome.verdict, Verdict::Unjudged);
    assert!(share(&outcome.summary, "vu_time_throttled", "closed") > 0.1);
    let text = text(&outcome.summary);
    assert!(!text.contains("--allow"), "{text}");
}

#[test]
fn think_time_is_not_lost() {
    let outcome = both(Then::Thinks, &[]);
    assert_eq!(
        outcome.verdict,
        Verdict::Unjudged,
        "{:?}",
        crossed(&outcome)
    );
}

/// The run ends within the responses of all users, which take as long as the responses before.
#[test]
fn slow_responses_that_the_end_cuts_off_are_not_lost() {
    let takes = Then::Takes(millis(1500));
    let mut planned = Target::config("s", takes, users(3, millis(4200)));
    planned.graceful_stop = Duration::ZERO;
    let lax = [("iterations_finished", "rate>=0.5")];
    let outcome = run(vec![planned], &lax).start().wait();
    assert_eq!(outcome.summary.scenarios[0].interrupted, 3);
    assert_eq!(outcome.verdict, Verdict::Passed, "{:?}", crossed(&outcome));
    assert_eq!(share(&outcome.summary, "vu_time_lost", "s"), 0.0);
}

//! Ends of a run: time, a goal, a threshold, a stop, an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_load::snapshot::Phase;
use lucarne_load::{
    ExecutorConfig, Failure, Iteration, Metric, Note, PrepareError, Recorder, Scenario,
    ScenarioConfig, Verdict, VirtualUser,
};

use crate::waiting::{Waiting, constant, count, millis, run};

#[test]
fn what_hangs_is_cut_off_and_told() {
    let mut planned = ScenarioConfig::new(
        "s",
        constant(20.0, millis(200)),
        Waiting::scenario(|_| Duration::from_secs(3600)),
    );
    planned.graceful_stop = millis(200);
    let outcome = run(vec![planned], &[]).start().wait();
    let scenario = &outcome.summary.scenarios[0];
    assert_eq!(
        (scenario.started, scenario.completed, scenario.interrupted),
        (4, 0, 4)
    );
    let errors = &outcome.summary.errors;
    let of = |kind: &str| {
        errors
            .iter()
            .find(|error| error.kind == kind)
            .unwrap()
            .count
    };
    assert_eq!((of("interrupted"), of("unanswered")), (4, 4));
    // Iterations without an end, and their requests, are included.
    for metric in ["iteration_duration", "http_req_duration"] {
        let metric = outcome.summary.total(metric).unwrap();
        assert_eq!(metric.samples(), 4);
        assert!(metric.trend().unwrap().min() >= millis(200));
    }
}

/// Every twentieth request has no response: more than the threshold permits.
#[test]
fn requests_without_answer_when_the_run_ends_have_failed() {
    let number = AtomicU64::new(0);
    let number = Arc::new(number);
    let mut planned = ScenarioConfig::new(
        "s",
        constant(200.0, millis(500)),
        Waiting::scenario(move |_| match number.fetch_add(1, Ordering::Relaxed) % 20 {
            0 => Duration::from_secs(3600),
            _ => Duration::ZERO,
        }),
    );
    planned.graceful_stop = millis(100);
    let outcome = run(vec![planned], &[("http_req_failed", "rate<0.01")])
        .start()
        .wait();
    assert_eq!(outcome.verdict, Verdict::Crossed);
    let summary = &outcome.summary;
    assert_eq!(count(summary, "http_reqs"), 100);
    assert_eq!(count(summary, "http_req_duration"), 100);
    let Some(Metric::Rate { good, total }) = summary.total("http_req_failed") else {
        panic!("no requests");
    };
    assert_eq!((good, total), (5, 100));
    assert!(
        summary
            .statuses
            .iter()
            .any(|it| (it.code, it.count) == (0, 5))
    );
}

/// Waits for its target, or pauses, in some of its iterations; sends no request.
#[derive(Clone, Copy)]
struct Patient {
    waits: fn(u64) -> bool,
    pauses: fn(u64) -> bool,
}

#[async_trait]
impl Scenario for Patient {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(*self)
    }

    fn purpose(&self) -> &'static str {
        "a certificate"
    }
}

#[async_trait]
impl VirtualUser for Patient {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        if (self.waits)(iteration.number()) {
            std::future::pending::<()>().await;
        }
        if (self.pauses)(iteration.number()) {
            iteration.pause(Duration::from_secs(3600)).await;
        }
    }

    fn cut_off(&mut self, iteration: &mut Iteration) {
        iteration.check(iteration.base(), "certified", Err("none"));
    }
}

/// Runs ten iterations. Returns the verdict, the numbers of finished and of all iterations, and the
/// number of failed checks.
fn patiently(patient: Patient, thresholds: &[(&str, &str)]) -> (Verdict, (u64, u64), u64) {
    let mut planned = ScenarioConfig::new("s", constant(50.0, millis(200)), Arc::new(patient));
    planned.graceful_stop = millis(100);
    let outcome = run(vec![planned], thresholds).start().wait();
    let finished = match outcome.summary.total("iterations_finished") {
        Some(Metric::Rate { good, total }) => (good, total),
        _ => (0, 0),
    };
    let failed = outcome.summary.checks.iter().map(|check| check.fails).sum();
    (outcome.verdict, finished, failed)
}

#[test]
fn an_iteration_that_waits_for_the_target_at_the_end_has_failed() {
    let waits = |number: u64| number == 3;
    let one = Patient {
        waits,
        pauses: |_| false,
    };
    assert_eq!(patiently(one, &[]), (Verdict::Crossed, (9, 10), 1));
    // A threshold on this metric replaces the default.
    let lax = [("iterations_finished", "rate>=0.9")];
    assert_eq!(patiently(one, &lax), (Verdict::Passed, (9, 10), 1));
    // Without a single finished iteration, the run fails in any case.
    let all = Patient {
        waits: |_| true,
        ..one
    };
    let lax = [("iterations_finished", "rate>=0")];
    assert_eq!(patiently(all, &lax), (Verdict::Crossed, (0, 10), 10));
}

#[test]
fn an_iteration_that_pauses_at_the_end_has_not_failed() {
    let pauses = |number: u64| number % 2 == 1;
    let some = Patient {
        waits: |_| false,
        pauses,
    };
    assert_eq!(patiently(some, &[]), (Verdict::Unjudged, (5, 5), 0));
    let all = Patient {
        pauses: |_| true,
        ..some
    };
    assert_eq!(patiently(all, &[]), (Verdict::Crossed, (0, 0), 0));
}

/// Reaches its goal after the iteration of this number.
struct Enough(u64, Arc<tokio::sync::Notify>);

#[async_trait]
impl Scenario for Enough {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(Enough(self.0, self.1.clone()))
    }

    async fn reached(&self) -> Result<(), Failure> {
        self.1.notified().await;
        Ok(())
    }
}

#[async_trait]
impl VirtualUser for Enough {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        if iteration.number() == self.0 {
            self.1.notify_one();
        }
    }
}

#[test]
fn a_goal_ends_the_run_and_is_no_interruption() {
    let enough = Enough(10, Arc::default());
    let planned = ScenarioConfig::new(
        "s",
        constant(50.0, Duration::from_secs(600)),
        Arc::new(enough),
    );
    let outcome = run(vec![planned], &[("iterations", "count>=11")])
        .start()
        .wait();
    assert_eq!(
        outcome.verdict,
        Verdict::Passed,
        "{:?}",
        outcome.summary.thresholds
    );
    assert!(outcome.summary.scenarios[0].achieved > 0.9);
}

/// Cannot offer its load, which the user finds at the end of its only iteration.
#[derive(Clone)]
struct Unable(tokio::sync::watch::Sender<bool>);

#[async_trait]
impl Scenario for Unable {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(self.clone())
    }

    async fn reached(&self) -> Result<(), Failure> {
        let mut failed = self.0.subscribe();
        failed.wait_for(|failed| *failed).await.unwrap();
        Err(Failure::new("login", "refused"))
    }
}

#[async_trait]
impl VirtualUser for Unable {
    async fn iterate(&mut self, _: &mut Iteration) {
        self.0.send_replace(true);
    }
}

#[test]
fn a_failure_in_the_last_iteration_is_reported() {
    let executor = ExecutorConfig::ConstantVus {
        vus: 1,
        duration: Duration::from_secs(600),
        iterations: Some(1),
    };
    let unable = Unable(tokio::sync::watch::Sender::new(false));
    let planned = ScenarioConfig::new("s", executor, Arc::new(unable));
    let outcome = run(vec![planned], &[]).start().wait();
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert_eq!(outcome.error.as_deref(), Some("login: refused"));
}

/// Reaches its goal at once. The audit reports its start, and never ends.
struct AuditedForever(tokio::sync::Semaphore);

#[async_trait]
impl Scenario for AuditedForever {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(Enough(u64::MAX, Arc::default()))
    }

    async fn reached(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(3600)
    }

    async fn finish(&self, _: Recorder) -> Vec<Note> {
        self.0.add_permits(1);
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_stop_after_the_goal_is_an_interruption() {
    let audited = Arc::new(AuditedForever(tokio::sync::Semaphore::new(0)));
    let executor = constant(50.0, Duration::from_secs(600));
    let planned = ScenarioConfig::new("s", executor, audited.clone());
    let running = run(vec![planned], &[]).start();
    audited.0.acquire().await.unwrap().forget();
    running.stop();
    assert_eq!(running.wait().verdict, Verdict::Interrupted);
}

#[test]
fn a_threshold_can_end_the_run() {
    let planned = ScenarioConfig::new(
        "s",
        constant(50.0, Duration::from_secs(600)),
        Waiting::scenario(|_| millis(5)),
    );
    let mut run = run(vec![planned], &[("http_req_duration", "max<1")]);
    run.thresholds.0[0].abort_on_fail = true;
    run.thresholds.0[0].delay_abort_eval = millis(1500);
    let outcome = run.start().wait();
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert!(outcome.summary.thresholds[0].aborted);
    assert!(
        (1.5..300.0).contains(&outcome.summary.duration),
        "{}",
        outcome.summary.duration
    );
    // Arrivals after the end do not count as planned.
    assert!(outcome.summary.scenarios[0].achieved > 0.9);
}

#[test]
fn it_stops_when_told() {
    let planned = ScenarioConfig::new(
        "s",
        constant(50.0, Duration::from_secs(600)),
        Waiting::scenario(|_| Duration::from_secs(3600)),
    );
    let running = run(vec![planned], &[]).start();
    let deadline = Instant::now() + Duration::from_secs(60);
    while running.snapshot().phase != Phase::Running {
        assert!(Instant::now() < deadline, "the run does not begin");
        // Polled, with a deadline: no verdict depends on the pace.
        std::thread::sleep(millis(10));
    }
    running.stop();
    // Long enough for a run that would end at once. A later end, on a busy machine, is not
    // detected.
    std::thread::sleep(millis(100));
    assert!(!running.is_over(), "iterations have their gracefulStop");
    running.stop();
    let outcome = running.wait();
    assert_eq!(
        (outcome.verdict, outcome.verdict.exit_code()),
        (Verdict::Interrupted, 105)
    );
    assert!(outcome.summary.scenarios[0].interrupted > 0);
}

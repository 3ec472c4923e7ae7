//! The engine, with scenarios that only wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_load::arrival::{Open, Rate, Stage};
use lucarne_load::threshold::{Threshold, Thresholds};
use lucarne_load::{
    Arrivals, Exchange, Failure, Iteration, Metric, Note, Outcome, Planned, PrepareError, Recorder,
    Run, Scenario, Stop, Summary, Tags, User, Verdict,
};

/// Each iteration makes one "request" that takes what `delay` says of the time
/// since the scenario was made.
struct Waiting<F> {
    since: Instant,
    delay: F,
}

struct Waiter<F> {
    since: Instant,
    delay: F,
    tags: Tags,
}

impl<F: Fn(Duration) -> Duration + Clone + Send + Sync + 'static> Waiting<F> {
    fn scenario(delay: F) -> Arc<dyn Scenario> {
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

    fn user(&self, _: u64, recorder: &Recorder) -> Box<dyn User> {
        let tags = recorder.tags(&[("op", "wait")]);
        Box::new(Waiter {
            since: self.since,
            delay: self.delay.clone(),
            tags,
        })
    }
}

#[async_trait]
impl<F: Fn(Duration) -> Duration + Send + Sync> User for Waiter<F> {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let started = Instant::now();
        let delay = (self.delay)(started - self.since);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        iteration.request(self.tags, &answered(started));
        iteration.check(self.tags, "waited", Ok(()));
    }
}

fn answered(started: Instant) -> Exchange {
    Exchange {
        started,
        finished: Instant::now(),
        connect: None,
        tls: None,
        sending: None,
        first_byte: None,
        body: None,
        status: 200,
        protocol: "none",
        bytes_in: 10,
        bytes_out: 20,
        outcome: Ok(()),
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn constant(per_second: f64, duration: Duration) -> Arrivals {
    let (rate, open) = (Rate::per_second(per_second), Open::default());
    Arrivals::ConstantRate {
        rate,
        duration,
        open,
    }
}

fn run(scenarios: Vec<Planned>, thresholds: &[(&str, &str)]) -> Run {
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

fn one(arrivals: Arrivals, scenario: Arc<dyn Scenario>) -> Outcome {
    run(vec![Planned::new("s", arrivals, scenario)], &[])
        .start()
        .wait()
}

fn count(summary: &Summary, metric: &str) -> u64 {
    summary.total(metric).map_or(0, |metric| metric.samples())
}

#[test]
fn every_arrival_begins_once_and_not_before_it_is_due() {
    for workers in [1, 3] {
        let planned = Planned::new(
            "s",
            constant(400.0, millis(1500)),
            Waiting::scenario(|_| millis(2)),
        );
        let outcome = Run {
            workers,
            ..run(vec![planned], &[])
        }
        .start()
        .wait();
        let scenario = &outcome.summary.scenarios[0];
        assert_eq!(
            (scenario.asked, scenario.started, scenario.completed),
            (600, 600, 600)
        );
        assert_eq!((scenario.dropped, scenario.interrupted), (0, 0));
        assert_eq!(
            outcome.verdict,
            Verdict::Passed,
            "{:?}",
            outcome.summary.thresholds
        );
        assert_eq!(count(&outcome.summary, "http_reqs"), 600);
        // The last one is due at 1.4975 s and takes 2 ms.
        assert!(scenario.duration >= 1.499, "{}", scenario.duration);
        let shortest = outcome.summary.total("http_req_duration").unwrap();
        assert!(shortest.trend().unwrap().min() >= millis(2));
        assert_eq!(outcome.summary.environment.threads as usize, workers);
    }
}

/// Everything that comes in during a stall of half a second waits for its end: of
/// 2 s at 200/s a quarter is slow, evenly between 0 and 500 ms. A load generator
/// that waits for the stalled request would report a single slow one.
#[test]
fn a_stall_is_seen_in_full() {
    let scenario = Waiting::scenario(
        |since| match (millis(1000)..millis(1500)).contains(&since) {
            true => millis(1500) - since,
            false => Duration::ZERO,
        },
    );
    // One user must do: arrivals during the stall cannot even begin.
    let open = Open {
        max_users: 1,
        ..Open::default()
    };
    let rate = Rate::per_second(200.0);
    let arrivals = Arrivals::ConstantRate {
        rate,
        duration: millis(2000),
        open,
    };
    let outcome = one(arrivals, scenario);
    let summary = &outcome.summary;
    assert_eq!(
        (summary.scenarios[0].started, summary.scenarios[0].dropped),
        (400, 0)
    );
    assert_eq!(summary.scenarios[0].users_max, 1);
    for metric in ["http_req_duration", "iteration_duration"] {
        let metric = summary.total(metric).unwrap();
        let trend = metric.trend().unwrap();
        assert!(trend.percentile(50.0) < millis(100), "{trend:?}");
        // A quarter of all waited 250 ms on average.
        assert!(trend.percentile(95.0) > millis(300), "{trend:?}");
        assert!(trend.max() > millis(400), "{trend:?}");
        let slow = trend.count() - trend.count_up_to(millis(100));
        assert!((60..=160).contains(&slow), "{slow} slow ones");
    }
    let timeline = &summary.timeline.points;
    assert!(
        timeline.len() >= 2
            && timeline
                .iter()
                .any(|point| point.scenarios[0].max > 400_000)
    );
}

#[test]
fn what_cannot_begin_in_time_is_dropped_and_fails_the_run() {
    let open = Open {
        max_users: 2,
        max_start_delay: millis(100),
        ..Open::default()
    };
    let rate = Rate::per_second(200.0);
    let arrivals = Arrivals::ConstantRate {
        rate,
        duration: millis(1000),
        open,
    };
    let outcome = one(arrivals, Waiting::scenario(|_| millis(50)));
    let scenario = &outcome.summary.scenarios[0];
    assert_eq!(scenario.asked, 200);
    assert_eq!(scenario.started + scenario.dropped, 200);
    assert!(
        scenario.started <= 50 && scenario.started > 10,
        "{scenario:?}"
    );
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert_eq!(outcome.verdict.exit_code(), 99);
    let crossed: Vec<_> = outcome
        .summary
        .thresholds
        .iter()
        .filter(|t| !t.passed)
        .collect();
    assert_eq!(
        (crossed.len(), crossed[0].metric.as_str()),
        (1, "achieved_rate{scenario:s}")
    );
    assert_eq!(crossed[0].observed, Some(scenario.started as f64 / 200.0));
    assert_eq!(
        count(&outcome.summary, "dropped_iterations"),
        scenario.dropped
    );
}

#[test]
fn ramps_offer_what_they_should() {
    let stages = vec![
        Stage {
            duration: millis(500),
            target: 200.0,
        },
        Stage {
            duration: millis(500),
            target: 0.0,
        },
    ];
    let start = Rate::per_second(0.0);
    let arrivals = Arrivals::RampingRate {
        start,
        stages,
        open: Open::default(),
    };
    let outcome = one(arrivals, Waiting::scenario(|_| Duration::ZERO));
    assert_eq!(outcome.summary.scenarios[0].asked, 100);
    assert_eq!(outcome.verdict, Verdict::Passed);
}

#[test]
fn users_iterate_one_after_the_other() {
    let arrivals = Arrivals::ConstantUsers {
        users: 4,
        duration: millis(500),
        iterations: None,
    };
    let outcome = one(arrivals, Waiting::scenario(|_| millis(10)));
    let scenario = &outcome.summary.scenarios[0];
    assert_eq!((scenario.users_max, scenario.dropped), (4, 0));
    assert!(
        scenario.started <= 4 * 51 && scenario.started >= 8,
        "{scenario:?}"
    );
    assert_eq!(scenario.started, scenario.completed);
}

#[test]
fn users_come_and_go_with_the_ramp() {
    let stages = vec![
        Stage {
            duration: millis(400),
            target: 20.0,
        },
        Stage {
            duration: millis(400),
            target: 1.0,
        },
    ];
    let arrivals = Arrivals::RampingUsers {
        start: 1,
        stages,
        iterations: None,
    };
    let planned = Planned::new("s", arrivals, Waiting::scenario(|_| millis(5)));
    let outcome = Run {
        workers: 2,
        ..run(vec![planned], &[])
    }
    .start()
    .wait();
    let most = outcome.summary.scenarios[0].users_max;
    assert!((5..=21).contains(&most), "{most}");
}

#[test]
fn a_goal_ends_the_run() {
    let goals = [
        Arrivals::ConstantUsers {
            users: 3,
            duration: Duration::MAX,
            iterations: Some(50),
        },
        Arrivals::ConstantRate {
            rate: Rate::per_second(500.0),
            duration: Duration::MAX,
            open: Open {
                iterations: Some(50),
                max_users: 3,
                ..Open::default()
            },
        },
    ];
    for arrivals in goals {
        let planned = Planned::new("s", arrivals, Waiting::scenario(|_| millis(5)));
        let outcome = Run {
            workers: 2,
            ..run(vec![planned], &[])
        }
        .start()
        .wait();
        let scenario = &outcome.summary.scenarios[0];
        assert_eq!((scenario.asked, scenario.completed), (50, 50));
        assert_eq!(outcome.verdict, Verdict::Passed);
    }
}

#[test]
fn scenarios_start_when_they_should_and_keep_their_tags() {
    let mut late = Planned::new(
        "late",
        constant(50.0, millis(200)),
        Waiting::scenario(|_| Duration::ZERO),
    );
    late.start = millis(500);
    late.tags = vec![("stage".into(), "second".into())];
    let early = Planned::new(
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

#[test]
fn what_hangs_is_cut_off_and_told() {
    let mut planned = Planned::new(
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
    let error = &outcome.summary.errors[0];
    assert_eq!((error.kind.as_str(), error.count), ("interrupted", 4));
    // What never came back is not left out of the durations.
    let metric = outcome.summary.total("iteration_duration").unwrap();
    assert!(metric.trend().unwrap().min() >= millis(200));
}

#[test]
fn thresholds_without_samples_fail() {
    let planned = Planned::new(
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
fn a_threshold_can_end_the_run() {
    let planned = Planned::new(
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
    // What was not due any more was not asked for.
    assert!(outcome.summary.scenarios[0].achieved > 0.9);
}

#[test]
fn it_stops_when_told() {
    let planned = Planned::new(
        "s",
        constant(50.0, Duration::from_secs(600)),
        Waiting::scenario(|_| Duration::from_secs(3600)),
    );
    let running = run(vec![planned], &[]).start();
    std::thread::sleep(millis(300));
    running.stop();
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

#[test]
fn keys_change_the_load() {
    let planned = Planned::new(
        "s",
        constant(50.0, Duration::from_secs(600)),
        Waiting::scenario(|_| Duration::ZERO),
    );
    let users = Arrivals::ConstantUsers {
        users: 2,
        duration: Duration::from_secs(600),
        iterations: None,
    };
    let users = Planned::new("u", users, Waiting::scenario(|_| millis(5)));
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
        std::thread::sleep(millis(50));
        seen = running.snapshot();
    }
    assert_eq!(seen.scenarios[0].asked.round(), 500.0);
    assert_eq!(controls.list()[0].asked.round(), 500.0);
    running.stop();
    running.wait();
}

struct Refusing(PrepareError);

#[async_trait]
impl Scenario for Refusing {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Err(self.0.clone())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn User> {
        unreachable!("it was not prepared")
    }
}

#[test]
fn what_cannot_be_prepared_does_not_begin() {
    let cases = [
        (
            PrepareError::Configuration("no such key".into()),
            Verdict::Configuration,
            104,
        ),
        (
            PrepareError::Unreachable("connection refused".into()),
            Verdict::Unreachable,
            110,
        ),
    ];
    for (error, verdict, code) in cases {
        let expected = format!("scenario \"s\": {error}");
        let outcome = one(constant(1.0, millis(100)), Arc::new(Refusing(error)));
        assert_eq!(
            (outcome.verdict, outcome.verdict.exit_code()),
            (verdict, code)
        );
        assert_eq!(outcome.error, Some(expected));
    }
}

/// Fails in every way that there is.
struct Failing(AtomicU64);

struct Failer(Tags);

#[async_trait]
impl Scenario for Failing {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, recorder: &Recorder) -> Box<dyn User> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::new(Failer(recorder.base()))
    }

    async fn background(&self, recorder: Recorder, stop: Stop) {
        stop.cancelled().await;
        recorder.check(recorder.base(), "background", Ok(()));
    }

    async fn finish(&self, recorder: Recorder) -> Vec<Note> {
        recorder.check(recorder.base(), "finish", Err("one is missing".into()));
        vec![Note {
            title: "Audit".into(),
            lines: vec!["done".into()],
        }]
    }
}

#[async_trait]
impl User for Failer {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let failure = Failure::new(
            "reset",
            format!("connection {} was reset", iteration.number()),
        );
        let exchange = Exchange {
            status: 0,
            outcome: Err(failure),
            ..answered(Instant::now())
        };
        iteration.request(self.0, &exchange);
        match iteration.number() % 4 {
            0 => iteration.fail(Failure::new("odd", "it is not odd")),
            1 => panic!("a user panics"),
            _ => {}
        }
    }
}

#[test]
fn failures_are_counted_by_kind_with_their_first_details() {
    let outcome = one(
        constant(200.0, millis(500)),
        Arc::new(Failing(AtomicU64::new(0))),
    );
    let summary = &outcome.summary;
    assert_eq!(
        outcome.verdict,
        Verdict::Unreachable,
        "nothing was answered"
    );
    let error = |kind: &str| {
        summary
            .errors
            .iter()
            .find(|error| error.kind == kind)
            .unwrap()
    };
    assert_eq!(
        (
            error("reset").count,
            error("odd").count,
            error("panic").count
        ),
        (100, 25, 25)
    );
    assert_eq!(error("reset").details.len(), 10);
    assert!(error("reset").details[0].contains("was reset"));
    let finish = summary
        .checks
        .iter()
        .find(|check| check.name == "finish")
        .unwrap();
    assert_eq!(
        (finish.fails, finish.details[0].as_str()),
        (1, "one is missing")
    );
    assert!(
        summary
            .checks
            .iter()
            .any(|check| check.name == "background" && check.passes == 1)
    );
    assert_eq!(summary.notes[0].title, "Audit");
    let Some(Metric::Rate { good, total }) = summary.total("http_req_failed") else {
        panic!("no requests");
    };
    assert_eq!((good, total), (100, 100));
}

#[test]
fn a_summary_can_be_written_read_and_merged_without_loss() {
    let outcome = one(
        constant(200.0, millis(1200)),
        Waiting::scenario(|_| millis(3)),
    );
    let summary = outcome.summary;
    let text = serde_json::to_string(&summary).unwrap();
    let read: Summary = serde_json::from_str(&text).unwrap();
    let series = |summary: &Summary| serde_json::to_string(&summary.series).unwrap();
    assert_eq!(series(&read), series(&summary));
    let merged = Summary::merge(vec![read.clone(), read]).unwrap();
    assert_eq!(merged.scenarios[0].started, 480);
    assert_eq!(count(&merged, "http_reqs"), 480);
    let durations = |summary: &Summary| {
        let metric = summary.total("http_req_duration").unwrap();
        metric.trend().unwrap().buckets().collect::<Vec<_>>()
    };
    let (single, double) = (durations(&summary), durations(&merged));
    assert!(
        single
            .iter()
            .zip(&double)
            .all(|(one, two)| one.0 == two.0 && 2 * one.1 == two.1)
    );
    assert_eq!(merged.thresholds[0].samples, 480);
    assert_eq!(merged.verdict, Verdict::Passed);
    assert_eq!(merged.timeline.points[0].scenarios[0].asked, 400.0);
    assert!(Summary::merge(Vec::new()).is_err());
    let newer = text.replacen("lucarne-load/1", "lucarne-load/9", 1);
    let refused = serde_json::from_str::<Summary>(&newer)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("lucarne-load/9"), "{refused}");
}

//! What becomes of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_load::snapshot::Phase;
use lucarne_load::{
    Arrivals, Exchange, Failure, Iteration, Metric, Note, Planned, PrepareError, Recorder,
    Scenario, Stop, Summary, Tags, User, Verdict,
};
use serde_json::Value;

use crate::waiting::{Waiting, answered, constant, count, millis, one, run};

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
    // Polled: what is waited for is a state of the run.
    while running.snapshot().phase != Phase::Running {
        std::thread::sleep(millis(10));
    }
    running.stop();
    // Long enough for a run that would end at once to end.
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
        // Polled, with a deadline.
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

fn durations(summary: &Summary) -> Vec<(Duration, u64)> {
    let metric = summary.total("http_req_duration").unwrap();
    metric.trend().unwrap().buckets().collect()
}

/// JSON without the text of histograms.
fn without_counts(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.retain(|name, _| name != "histogram");
            members
                .values_mut()
                .for_each(|member| *member = without_counts(member.take()));
        }
        Value::Array(elements) => elements
            .iter_mut()
            .for_each(|element| *element = without_counts(element.take())),
        _ => {}
    }
    value
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
    // Counts are compared below: the text of the same ones also tells how long a
    // duration the histogram has room for, which depends on how it grew.
    let series = |summary: &Summary| without_counts(serde_json::to_value(&summary.series).unwrap());
    assert_eq!(series(&read), series(&summary));
    assert_eq!(durations(&read), durations(&summary));
    let merged = Summary::merge(vec![read.clone(), read]).unwrap();
    assert_eq!(merged.scenarios[0].started, 480);
    assert_eq!(count(&merged, "http_reqs"), 480);
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

#[test]
fn nothing_to_run_is_a_mistake() {
    let nothing = run(Vec::new(), &[]).start().wait();
    assert_eq!(nothing.verdict, Verdict::Configuration);
    let twice = || {
        Planned::new(
            "s",
            constant(1.0, millis(100)),
            Waiting::scenario(|_| millis(1)),
        )
    };
    let outcome = run(vec![twice(), twice()], &[]).start().wait();
    assert_eq!(
        outcome.error.as_deref(),
        Some("there are two scenarios \"s\"")
    );
    let endless = one(
        constant(f64::INFINITY, millis(100)),
        Waiting::scenario(|_| millis(1)),
    );
    assert_eq!(endless.verdict, Verdict::Configuration);
}

/// Passes alone, fails together: what is judged is the whole.
#[test]
fn thresholds_are_judged_anew_over_all() {
    let part = |keys: &[(&str, &str)]| {
        let planned = Planned::new(
            "s",
            constant(50.0, millis(200)),
            Waiting::scenario(|_| millis(1)),
        );
        run(vec![planned], keys).start().wait().summary
    };
    let most = [("http_reqs", "count<=10")];
    let merged = Summary::merge(vec![part(&most), part(&most)]).unwrap();
    assert_eq!(merged.verdict, Verdict::Crossed);
    assert_eq!(
        (merged.thresholds[0].observed, merged.thresholds[0].passed),
        (Some(20.0), false)
    );
    let least = [("http_reqs{op:wait}", "count>=20")];
    let (one, two) = (part(&least), part(&least));
    assert_eq!(one.verdict, Verdict::Crossed);
    let merged = Summary::merge(vec![one, two]).unwrap();
    assert_eq!(merged.verdict, Verdict::Passed, "{:?}", merged.thresholds);
}

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
    let errors = &outcome.summary.errors;
    let of = |kind: &str| {
        errors
            .iter()
            .find(|error| error.kind == kind)
            .unwrap()
            .count
    };
    assert_eq!((of("interrupted"), of("unanswered")), (4, 4));
    // What never came back is not left out: iterations, and the requests in them.
    for metric in ["iteration_duration", "http_req_duration"] {
        let metric = outcome.summary.total(metric).unwrap();
        assert_eq!(metric.samples(), 4);
        assert!(metric.trend().unwrap().min() >= millis(200));
    }
}

/// One request in twenty is never answered: more than the threshold allows.
#[test]
fn requests_without_answer_when_the_run_ends_have_failed() {
    let number = AtomicU64::new(0);
    let number = Arc::new(number);
    let mut planned = Planned::new(
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

#[test]
fn metrics_are_those_of_k6s_handle_summary() {
    let planned = |name: &str| {
        let (arrivals, scenario) = (
            constant(50.0, millis(200)),
            Waiting::scenario(|_| millis(3)),
        );
        Planned::new(name, arrivals, scenario)
    };
    let thresholds = [
        ("http_req_duration{scenario:a}", "p(95)<60000"),
        ("http_reqs{op:wait}", "count>1000"),
    ];
    let outcome = run(vec![planned("a"), planned("b")], &thresholds)
        .start()
        .wait();
    let data = serde_json::to_value(&outcome.summary).unwrap();
    let metric = |name: &str| &data["metrics"][name];
    assert_eq!(metric("http_reqs")["values"]["count"], 20.0);
    assert_eq!(metric("http_reqs{scenario:b}")["values"]["count"], 10.0);
    assert_eq!(metric("http_req_failed")["values"]["rate"], 0.0);
    assert_eq!(metric("http_req_failed")["values"]["fails"], 20.0);
    assert_eq!(metric("checks{scenario:a}")["values"]["passes"], 10.0);
    let trend = metric("http_req_duration{scenario:a}");
    assert_eq!(
        (&trend["type"], &trend["contains"]),
        (&"trend".into(), &"time".into())
    );
    for name in ["avg", "min", "med", "max", "p(90)", "p(95)", "p(99)"] {
        assert!(
            trend["values"][name].as_f64() >= Some(3.0),
            "{name}: {trend}"
        );
    }
    assert_eq!(trend["thresholds"]["p(95)<60000"]["ok"], true);
    let judged = metric("http_reqs{op:wait}");
    assert_eq!(judged["thresholds"]["count>1000"]["ok"], false);
    assert_eq!(metric("data_sent")["contains"], "data");
    assert!(metric("vus")["values"]["value"].is_number());
}

/// Occupies the only worker, as too much load for this machine would.
struct Hog;

#[async_trait]
impl Scenario for Hog {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn User> {
        Box::new(Hog)
    }
}

#[async_trait]
impl User for Hog {
    async fn iterate(&mut self, _: &mut Iteration) {
        // The fault: a worker that does something else.
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
    // A target that is too slow for the users there are: late, and not by the generator.
    let open = lucarne_load::arrival::Open {
        max_users: 1,
        ..Default::default()
    };
    let arrivals = crate::waiting::constant_with(100.0, millis(1000), open);
    let target = one(arrivals, Waiting::scenario(|_| millis(50)));
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

/// Has had enough after the iteration of this number.
struct Enough(u64, Arc<tokio::sync::Notify>);

#[async_trait]
impl Scenario for Enough {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn User> {
        Box::new(Enough(self.0, self.1.clone()))
    }

    async fn reached(&self) {
        self.1.notified().await;
    }
}

#[async_trait]
impl User for Enough {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        if iteration.number() == self.0 {
            self.1.notify_one();
        }
    }
}

#[test]
fn a_goal_ends_the_run_and_is_no_interruption() {
    let enough = Enough(10, Arc::default());
    let planned = Planned::new(
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
        let expected = error.to_string();
        let outcome = one(constant(1.0, millis(100)), Arc::new(Refusing(error)));
        assert_eq!(
            (outcome.verdict, outcome.verdict.exit_code()),
            (verdict, code)
        );
        assert_eq!(outcome.error, Some(expected));
        // Where there are several, it is said which.
        let refusing = || Arc::new(Refusing(PrepareError::Configuration("no".into())));
        let planned = |name| Planned::new(name, constant(1.0, millis(100)), refusing());
        let outcome = run(vec![planned("a"), planned("b")], &[]).start().wait();
        let error = outcome.error.unwrap();
        assert!(
            error.starts_with("scenario \"") && error.ends_with("\": no"),
            "{error}"
        );
    }
}

#[test]
fn what_is_wrong_with_the_target_before_the_run_is_a_failed_check() {
    let error = PrepareError::Faulty {
        check: "checkpoint_signature",
        detail: "it does not verify".into(),
    };
    let planned = Planned::new("s", constant(1.0, millis(100)), Arc::new(Refusing(error)));
    let outcome = run(vec![planned], &[("checks", "rate==1")]).start().wait();
    assert_eq!(
        (outcome.verdict, outcome.verdict.exit_code()),
        (Verdict::Crossed, 99)
    );
    let summary = &outcome.summary;
    assert_eq!(summary.checks[0].name, "checkpoint_signature");
    assert_eq!((summary.checks[0].passes, summary.checks[0].fails), (0, 1));
    assert_eq!(summary.errors[0].kind, "checkpoint_signature");
    assert!(!summary.thresholds[0].passed);
    assert_eq!(summary.thresholds[0].observed, Some(0.0));
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
    assert!(summary.notes.iter().any(|note| note.title == "Audit"));
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
    assert_eq!(merged.verdict, Verdict::Unjudged);
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

//! Contents of the summary, which can be written, read and merged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_load::report::baseline::compare;
use lucarne_load::summary::LastingFailure;
use lucarne_load::{
    Exchange, ExecutorConfig, Failure, Iteration, Metric, Note, PrepareError, Recorder, Scenario,
    ScenarioConfig, Stop, Summary, Tags, Verdict, VirtualUser,
};
use serde_json::Value;

use crate::waiting::{Waiting, answered, constant, count, millis, one, run};

#[test]
fn metrics_are_those_of_k6s_handle_summary() {
    let planned = |name: &str| {
        let (executor, scenario) = (
            constant(50.0, millis(200)),
            Waiting::scenario(|_| millis(3)),
        );
        ScenarioConfig::new(name, executor, scenario)
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

/// Fails in every possible way.
struct Failing(AtomicU64);

struct Failer(Tags);

#[async_trait]
impl Scenario for Failing {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::new(Failer(recorder.base()))
    }

    async fn background(&self, recorder: Recorder, stop: Stop) {
        stop.cancelled().await;
        recorder.passed(recorder.base(), "background");
    }

    async fn finish(&self, recorder: Recorder) -> Vec<Note> {
        recorder.check(recorder.base(), "finish", Err("one is missing"));
        vec![Note {
            title: "Audit".into(),
            lines: vec!["done".into()],
        }]
    }
}

#[async_trait]
impl VirtualUser for Failer {
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

/// Receives responses without `close_notify` only.
struct Cut;

#[async_trait]
impl Scenario for Cut {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(CutUser(recorder.base()))
    }
}

struct CutUser(Tags);

#[async_trait]
impl VirtualUser for CutUser {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let exchange = Exchange {
            unannounced_end: true,
            ..answered(Instant::now())
        };
        iteration.request(self.0, &exchange);
    }
}

#[test]
fn ends_without_close_notify_are_a_warning() {
    let outcome = one(constant(100.0, millis(100)), Arc::new(Cut));
    assert!(outcome.summary.errors.is_empty());
    // No threshold judges these ends, and no built-in threshold is crossed.
    assert_eq!(outcome.verdict, Verdict::Unjudged);
    let titles: Vec<&str> = outcome
        .summary
        .notes
        .iter()
        .map(|note| note.title.as_str())
        .collect();
    assert!(
        titles.contains(&"Warning: 10 responses ended without close_notify"),
        "{titles:?}"
    );
    assert_eq!(count(&outcome.summary, "http_res_without_close_notify"), 10);
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

/// Returns JSON without the text of histograms.
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
    // Counts are compared below. The text of equal histograms can differ, because it contains the
    // capacity of the histogram, which depends on the order of the recorded values.
    let series = |summary: &Summary| without_counts(serde_json::to_value(&summary.series).unwrap());
    assert_eq!(series(&read), series(&summary));
    assert_eq!(durations(&read), durations(&summary));
    let merged = Summary::merge(vec![read.clone(), read.clone()]).unwrap();
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
    assert_eq!(read.check(), Ok(()));
    assert_eq!(merged.check(), Ok(()));
    // Counts that are too large stay at the limit.
    let mut large = read.clone();
    large.scenarios[0].asked = u64::MAX;
    let merged = Summary::merge(vec![large, read]).unwrap();
    assert_eq!(merged.scenarios[0].asked, u64::MAX);
    assert!(Summary::merge(Vec::new()).is_err());
    let mut without_interval = summary.clone();
    without_interval.timeline.interval = 0.0;
    Summary::merge(vec![without_interval, summary.clone()]).unwrap_err();
    let newer = text.replacen("lucarne-load/1", "lucarne-load/9", 1);
    let refused = serde_json::from_str::<Summary>(&newer)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("lucarne-load/9"), "{refused}");
}

/// Each part passes alone. The merged result fails, because thresholds apply to all parts together.
#[test]
fn thresholds_are_judged_anew_over_all() {
    let part = |keys: &[(&str, &str)]| {
        let planned = ScenarioConfig::new(
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

/// Each part of the operation is too small to be judged. Together they have no success.
#[test]
fn parts_of_a_merged_run_are_judged_together() {
    let part = |requests| {
        let executor = ExecutorConfig::ConstantVus {
            vus: 1,
            duration: Duration::from_secs(60),
            iterations: Some(requests),
        };
        let scenario = Arc::new(Failing(AtomicU64::new(0)));
        let failing = ScenarioConfig {
            tags: vec![("connector".into(), "nginx".into())],
            ..ScenarioConfig::new("failing", executor, scenario)
        };
        let others = Waiting::scenario(|_| millis(1));
        let others = ScenarioConfig::new("others", constant(50.0, millis(200)), others);
        let keys = [("http_req_failed", "rate<0.9"), ("checks", "rate>=0")];
        let outcome = run(vec![failing, others], &keys).start().wait();
        let text = serde_json::to_string(&outcome.summary).unwrap();
        serde_json::from_str::<Summary>(&text).unwrap()
    };
    let crossed = |summary: &Summary| {
        let results = summary.thresholds.iter().filter(|it| it.part);
        let results = results.map(|it| (it.metric.clone(), it.expression.clone(), it.samples));
        results.collect::<Vec<_>>()
    };
    let failing = "http_req_failed{connector:nginx,scenario:failing}".to_owned();
    let (small, large) = (part(6), part(12));
    assert!(crossed(&small).is_empty());
    assert_eq!(crossed(&large), [(failing.clone(), "rate<1".into(), 12)]);
    let merged = Summary::merge(vec![small.clone(), small]).unwrap();
    assert_eq!(crossed(&merged), [(failing.clone(), "rate<1".into(), 12)]);
    assert_eq!(merged.verdict, Verdict::Crossed);
    let merged = Summary::merge(vec![large.clone(), large]).unwrap();
    assert_eq!(crossed(&merged), [(failing, "rate<1".into(), 24)]);
}

/// The merged figures show neither the failed work after the load of a part, nor a part that could
/// not begin.
#[test]
fn a_failed_part_stays_failed() {
    let part = || {
        let planned = ScenarioConfig::new(
            "s",
            constant(50.0, millis(200)),
            Waiting::scenario(|_| millis(1)),
        );
        let passes = [("http_reqs", "count>=1")];
        run(vec![planned], &passes).start().wait().summary
    };
    let merged = Summary::merge(vec![part(), part()]).unwrap();
    assert_eq!(merged.verdict, Verdict::Passed, "{:?}", merged.thresholds);
    let mut cut_off = part();
    cut_off.verdict = Verdict::Crossed;
    let merged = Summary::merge(vec![part(), cut_off]).unwrap();
    assert_eq!(merged.verdict, Verdict::Crossed);
    // A part that crossed a threshold, and was also worse than its baseline: the threshold passes
    // for the merged figures, the comparison does not.
    let mut worse = part();
    worse.verdict = Verdict::Crossed;
    for threshold in &mut worse.thresholds {
        threshold.passed = false;
    }
    let merged = Summary::merge(vec![part(), worse.clone()]).unwrap();
    assert_eq!(merged.verdict, Verdict::Passed, "{:?}", merged.thresholds);
    let mut missing = part();
    missing.series.clear();
    assert_eq!(compare(&part(), &part(), 1000.0).note(), None);
    // A title of a scenario's note is not a failure.
    let mut noted = worse.clone();
    let comparison = compare(&part(), &missing, 1.1);
    noted.notes.extend(comparison.note());
    let merged = Summary::merge(vec![part(), noted.clone()]).unwrap();
    assert_eq!(merged.verdict, Verdict::Passed);
    // Summaries of earlier versions have only the title.
    noted.lasting_failures = None;
    let merged = Summary::merge(vec![part(), noted]).unwrap();
    assert_eq!(merged.verdict, Verdict::Crossed);
    comparison.record(&mut worse);
    let merged = Summary::merge(vec![part(), worse]).unwrap();
    assert_eq!(merged.verdict, Verdict::Crossed);
    // The failure also stays in a merge of the merged run.
    let failures = Some(vec![LastingFailure::WorseThanBaseline]);
    assert_eq!(merged.lasting_failures, failures);
    let again = Summary::merge(vec![part(), merged]).unwrap();
    assert_eq!(again.verdict, Verdict::Crossed);
    let mut idle = part();
    idle.verdict = Verdict::Unreachable;
    idle.series.clear();
    idle.scenarios[0].started = 0;
    let merged = Summary::merge(vec![idle, part()]).unwrap();
    assert_eq!(merged.verdict, Verdict::Unreachable);
    // A part without a response counts in the merged figures only, and hides no interruption.
    let (mut interrupted, mut silent) = (part(), part());
    interrupted.verdict = Verdict::Interrupted;
    silent.verdict = Verdict::Unreachable;
    let merged = Summary::merge(vec![part(), silent.clone()]).unwrap();
    assert_eq!(merged.verdict, Verdict::Passed);
    let merged = Summary::merge(vec![part(), interrupted, silent]).unwrap();
    assert_eq!(merged.verdict, Verdict::Interrupted);
}

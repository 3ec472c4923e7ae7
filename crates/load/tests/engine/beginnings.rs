//! Runs that cannot begin.

use std::sync::Arc;

use async_trait::async_trait;
use lucarne_load::{
    PrepareError, Recorder, Scenario, ScenarioConfig, Summary, Verdict, VirtualUser,
};

use crate::waiting::{Waiting, constant, millis, one, run};

struct Refusing(PrepareError);

#[async_trait]
impl Scenario for Refusing {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Err(self.0.clone())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
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
        // With several scenarios, the error names the scenario that failed.
        let refusing = || Arc::new(Refusing(PrepareError::Configuration("no".into())));
        let planned = |name| ScenarioConfig::new(name, constant(1.0, millis(100)), refusing());
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
    let planned = ScenarioConfig::new("s", constant(1.0, millis(100)), Arc::new(Refusing(error)));
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

/// The threshold is crossed in the part without samples, and passes in the merged run.
#[test]
fn a_part_with_a_failed_check_before_the_run_stays_failed() {
    let part = |scenario| {
        let planned = ScenarioConfig::new("s", constant(50.0, millis(200)), scenario);
        let least = [("http_reqs", "count>=1")];
        run(vec![planned], &least).start().wait().summary
    };
    let faulty = part(Arc::new(Refusing(PrepareError::Faulty {
        check: "checkpoint_signature",
        detail: "it does not verify".into(),
    })));
    let begun = part(Waiting::scenario(|_| millis(1)));
    for parts in [[&faulty, &begun], [&begun, &faulty]] {
        let merged = Summary::merge(parts.map(Summary::clone).into()).unwrap();
        let thresholds = &merged.thresholds;
        assert!(thresholds.iter().all(|it| it.passed), "{thresholds:?}");
        assert_eq!(merged.verdict, Verdict::Crossed);
        assert_eq!(merged.started, begun.started);
    }
}

#[test]
fn nothing_to_run_is_a_mistake() {
    let nothing = run(Vec::new(), &[]).start().wait();
    assert_eq!(nothing.verdict, Verdict::Configuration);
    let twice = || {
        ScenarioConfig::new(
            "s",
            constant(1.0, millis(100)),
            Waiting::scenario(|_| millis(1)),
        )
    };
    let outcome = run(vec![twice(), twice()], &[]).start().wait();
    assert_eq!(
        outcome.error.as_deref(),
        Some("two scenarios have the name \"s\": rename one of them")
    );
    let endless = one(
        constant(f64::INFINITY, millis(100)),
        Waiting::scenario(|_| millis(1)),
    );
    assert_eq!(endless.verdict, Verdict::Configuration);
}

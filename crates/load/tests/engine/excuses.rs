//! Checks whose failures do not count.

use std::sync::Arc;

use async_trait::async_trait;
use lucarne_load::excuse::Excuse;
use lucarne_load::report::text;
use lucarne_load::{
    Iteration, Outcome, PrepareError, Recorder, Scenario, ScenarioConfig, Verdict, VirtualUser,
};

use crate::waiting::{constant, millis, run};

/// Fails every check except `good`; `nicety` is a warning.
struct Checking;

#[async_trait]
impl Scenario for Checking {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(Checking)
    }

    fn warnings(&self) -> &'static [&'static str] {
        &["nicety"]
    }
}

#[async_trait]
impl VirtualUser for Checking {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let tags = iteration.base();
        iteration.passed(tags, "good");
        // These tags have no other samples.
        let alone = iteration.tags(&[("op", "alone")]);
        for name in ["nicety", "one", "other"] {
            iteration.check(alone, name, Err("wrong"));
        }
    }
}

fn judged(allow: &[&str], thresholds: &[(&str, &str)]) -> (Outcome, Vec<String>) {
    let planned = ScenarioConfig::new("s", constant(50.0, millis(100)), Arc::new(Checking));
    let mut run = run(vec![planned], thresholds);
    run.allow = allow.iter().map(|name| (*name).to_owned()).collect();
    let outcome = run.start().wait();
    let crossed = outcome.summary.thresholds.iter().filter(|it| !it.passed);
    let crossed = crossed.map(|it| it.metric.clone()).collect();
    (outcome, crossed)
}

const ALL: (&str, &str) = ("checks", "rate==1");

#[test]
fn one_check_is_excused_and_the_others_are_not() {
    let (_, crossed) = judged(&["one"], &[ALL]);
    assert_eq!(crossed, ["checks"], "`other` still counts");
    let (outcome, crossed) = judged(&["one", "other"], &[ALL]);
    assert_eq!((outcome.verdict, crossed.len()), (Verdict::Passed, 0));
    // The thresholds on these checks must pass.
    let own = [
        ("checks{check:one}", "rate>=0"),
        ("checks{check:other}", "rate>=0.5"),
    ];
    let (_, crossed) = judged(&[], &[ALL, own[0], own[1]]);
    assert_eq!(crossed, ["checks{check:other}"]);
    // A threshold can apply to a warning.
    let demand = ("checks{check:nicety}", "rate==1");
    let (_, crossed) = judged(&["one", "other"], &[ALL, demand]);
    assert_eq!(crossed, ["checks{check:nicety}"]);
}

#[test]
fn the_report_says_what_was_excused() {
    let (outcome, _) = judged(&["one", "other", "missing"], &[ALL]);
    let excuse = |name: &str| {
        let mut checks = outcome.summary.checks.iter();
        checks.find(|check| check.name == name).unwrap().excused
    };
    assert_eq!(excuse("good"), None);
    assert_eq!(excuse("one"), Some(Excuse::Allowed));
    assert_eq!(excuse("nicety"), Some(Excuse::Warning));
    let text = text(&outcome.summary);
    for line in [
        "! nicety (a warning, because no specification requires it)",
        "! one (allowed to fail by --allow)",
        "one failed 5 of 5 times: allowed to fail by --allow",
        "no check has the name \"missing\"",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

//! Phase after the load: its limit, and its end by a stop.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_load::snapshot::Phase;
use lucarne_load::{
    Iteration, Note, PrepareError, Recorder, Scenario, ScenarioConfig, Stop, Summary, Verdict,
    VirtualUser,
};

use crate::waiting::{constant, millis, run};

/// Does nothing, and never ends.
#[derive(Clone, Copy)]
struct Endless {
    grace: Duration,
    /// Whether the background task never ends.
    beside: bool,
}

#[async_trait]
impl Scenario for Endless {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(*self)
    }

    fn grace(&self) -> Duration {
        self.grace
    }

    async fn background(&self, _: Recorder, _: Stop) {
        if self.beside {
            std::future::pending::<()>().await;
        }
    }

    async fn finish(&self, _: Recorder) -> Vec<Note> {
        std::future::pending().await
    }
}

#[async_trait]
impl VirtualUser for Endless {
    async fn iterate(&mut self, _: &mut Iteration) {}
}

fn planned(scenario: Endless) -> ScenarioConfig {
    ScenarioConfig::new("s", constant(50.0, millis(100)), Arc::new(scenario))
}

#[test]
fn what_follows_the_load_is_cut_off_after_its_grace() {
    for beside in [false, true] {
        let grace = millis(200);
        let endless = Endless { grace, beside };
        let outcome = run(vec![planned(endless)], &[("iterations", "count==5")]);
        let outcome = outcome.start().wait();
        assert_eq!(outcome.verdict, Verdict::Crossed);
        let note = outcome.summary.notes.last().unwrap();
        assert_eq!(
            note.lines,
            ["the work after the load was cut off after 200ms"]
        );
    }
}

#[test]
fn a_stop_after_the_load_does_not_wait_for_what_follows() {
    let grace = Duration::from_secs(3600);
    let endless = Endless {
        grace,
        beside: false,
    };
    let running = run(vec![planned(endless)], &[]).start();
    // Polled: no event reports this state, and no verdict depends on the pace.
    while running.snapshot().phase != Phase::Finishing {
        std::thread::sleep(millis(10));
    }
    running.stop();
    assert_eq!(running.wait().verdict, Verdict::Interrupted);
}

/// Passes, except that its audit panics.
struct Panicking;

#[async_trait]
impl Scenario for Panicking {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        let grace = Duration::ZERO;
        Box::new(Endless {
            grace,
            beside: false,
        })
    }

    async fn finish(&self, _: Recorder) -> Vec<Note> {
        panic!("the audit panics");
    }
}

fn panicking(threshold: &str) -> Summary {
    let planned = ScenarioConfig::new("s", constant(50.0, millis(100)), Arc::new(Panicking));
    let outcome = run(vec![planned], &[("iterations", threshold)]);
    outcome.start().wait().summary
}

#[test]
fn an_audit_that_panics_has_failed() {
    assert_eq!(panicking("count==5").verdict, Verdict::Crossed);
}

/// The threshold is crossed in each part, and passes in the merged run.
#[test]
fn a_part_whose_audit_panics_stays_failed() {
    let part = || panicking("count>=6");
    let merged = Summary::merge(vec![part(), part()]).unwrap();
    let thresholds = &merged.thresholds;
    assert!(thresholds.iter().all(|it| it.passed), "{thresholds:?}");
    assert_eq!(merged.verdict, Verdict::Crossed);
}

//! Start times of iterations, and the start of their measurement.

use std::time::Duration;

use lucarne_load::executor::{ArrivalRateOptions, Rate, Stage};
use lucarne_load::{ExecutorConfig, Run, ScenarioConfig, Verdict};

use crate::waiting::{Waiting, constant, constant_with, count, millis, one, run};

#[test]
fn every_arrival_begins_once_and_not_before_it_is_due() {
    for workers in [1, 3] {
        let planned = ScenarioConfig::new(
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
            Verdict::Unjudged,
            "{:?}",
            outcome.summary.thresholds
        );
        assert_eq!(count(&outcome.summary, "http_reqs"), 600);
        // The last iteration is due at 1.4975 s and takes 2 ms.
        assert!(scenario.duration >= 1.499, "{}", scenario.duration);
        let shortest = outcome.summary.total("http_req_duration").unwrap();
        assert!(shortest.trend().unwrap().min() >= millis(2));
        assert_eq!(outcome.summary.environment.threads as usize, workers);
    }
}

/// All arrivals during a stall of half a second wait for its end: of 2 s at 200/s a quarter is
/// slow, evenly between 0 and 500 ms. A load generator that waits for the stalled request would
/// report a single slow one.
#[test]
fn a_stall_is_seen_in_full() {
    let scenario = Waiting::scenario(
        |since| match (millis(1000)..millis(1500)).contains(&since) {
            true => millis(1500) - since,
            false => Duration::ZERO,
        },
    );
    // There is one user only, so arrivals during the stall cannot even begin.
    let options = ArrivalRateOptions {
        max_vus: 1,
        ..ArrivalRateOptions::default()
    };
    let outcome = one(constant_with(200.0, millis(2000), options), scenario);
    let summary = &outcome.summary;
    assert_eq!(
        (summary.scenarios[0].started, summary.scenarios[0].dropped),
        (400, 0)
    );
    assert_eq!(summary.scenarios[0].users_max, 1);
    for metric in ["http_req_duration", "iteration_duration"] {
        let metric = summary.total(metric).unwrap();
        let trend = metric.trend().unwrap();
        assert!(trend.percentile(50.0) < millis(250), "{trend:?}");
        // A quarter of all arrivals waited 250 ms on average.
        assert!(trend.percentile(95.0) > millis(300), "{trend:?}");
        assert!(trend.max() > millis(400), "{trend:?}");
        let slow = trend.count() - trend.count_up_to(millis(100));
        assert!((60..=350).contains(&slow), "{slow} slow ones");
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
    let options = ArrivalRateOptions {
        max_vus: 2,
        max_start_delay: millis(100),
        ..ArrivalRateOptions::default()
    };
    let executor = constant_with(200.0, millis(1000), options);
    let outcome = one(executor, Waiting::scenario(|_| millis(50)));
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
    let executor = ExecutorConfig::RampingArrivalRate {
        start,
        stages,
        options: ArrivalRateOptions::default(),
    };
    let outcome = one(executor, Waiting::scenario(|_| Duration::ZERO));
    assert_eq!(outcome.summary.scenarios[0].asked, 100);
    assert_eq!(outcome.verdict, Verdict::Unjudged);
}

#[test]
fn users_iterate_one_after_the_other() {
    let executor = ExecutorConfig::ConstantVus {
        vus: 4,
        duration: millis(500),
        iterations: None,
    };
    let outcome = one(executor, Waiting::scenario(|_| millis(10)));
    let scenario = &outcome.summary.scenarios[0];
    assert_eq!((scenario.users_max, scenario.dropped), (4, 0));
    let most = 4.0 * (scenario.duration / 0.010 + 1.0);
    assert!(
        (8.0..=most).contains(&(scenario.started as f64)),
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
    let executor = ExecutorConfig::RampingVus {
        start: 1,
        stages,
        iterations: None,
    };
    let planned = ScenarioConfig::new("s", executor, Waiting::scenario(|_| millis(5)));
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
        ExecutorConfig::ConstantVus {
            vus: 3,
            duration: Duration::MAX,
            iterations: Some(50),
        },
        constant_with(
            500.0,
            Duration::MAX,
            ArrivalRateOptions {
                iterations: Some(50),
                max_vus: 3,
                ..ArrivalRateOptions::default()
            },
        ),
    ];
    for executor in goals {
        let planned = ScenarioConfig::new("s", executor, Waiting::scenario(|_| millis(5)));
        let outcome = Run {
            workers: 2,
            ..run(vec![planned], &[])
        }
        .start()
        .wait();
        let scenario = &outcome.summary.scenarios[0];
        assert_eq!((scenario.asked, scenario.completed), (50, 50));
        assert_eq!(outcome.verdict, Verdict::Unjudged);
    }
}

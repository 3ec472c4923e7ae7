//! Start times of iterations, and the start of their measurement.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lucarne_load::executor::{ArrivalRateOptions, Arrivals, Rate, Stage};
use lucarne_load::snapshot::Phase;
use lucarne_load::{
    ExecutorConfig, Iteration, PrepareError, Recorder, Run, Running, Scenario, ScenarioConfig,
    Verdict, VirtualUser,
};
use tokio::sync::watch;

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

/// One arrival is due every 5 ms. The target stalls for 500 ms at one of them, so the next hundred
/// arrivals wait: each is measured from the time at which it was due. A load generator that measures
/// from the time of sending reports a single slow arrival. All bounds are lower bounds: a busy
/// machine only makes arrivals slower.
#[test]
fn a_stall_is_seen_in_full() {
    const STALL: Duration = Duration::from_millis(500);
    let begun = Arc::new(AtomicU64::new(0));
    let scenario = Waiting::scenario(move |_| match begun.fetch_add(1, Relaxed) {
        200 => STALL,
        _ => Duration::ZERO,
    });
    // With a single user, arrivals during the stall cannot begin.
    let options = ArrivalRateOptions {
        max_vus: 1,
        max_start_delay: Duration::MAX,
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
        assert_eq!(trend.count(), 400);
        assert!(trend.max() >= STALL, "{trend:?}");
        for waited in [100, 250, 400] {
            // The arrivals that are due at least this long before the stall ends.
            let least = (500 - waited) / 5;
            // Histograms are exact to a hundredth.
            let slow = trend.count() - trend.count_up_to(millis(waited * 98 / 100));
            assert!(slow >= least, "{slow} of {least} waited {waited} ms");
        }
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
    // Two users begin at most one iteration each in 50 ms, until 100 ms after the last arrival.
    assert!((1..=50).contains(&scenario.started), "{scenario:?}");
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
        (4.0..=most).contains(&(scenario.started as f64)),
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
    assert!((2..=21).contains(&most), "{most}");
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

#[test]
fn random_arrivals_are_the_same_for_any_number_of_threads() {
    let started = |workers, seed| {
        let options = ArrivalRateOptions {
            arrivals: Arrivals::Poisson,
            ..ArrivalRateOptions::default()
        };
        let executor = ExecutorConfig::ConstantArrivalRate {
            rate: Rate::per_second(200.0),
            duration: millis(500),
            options,
        };
        let mut planned = ScenarioConfig::new("s", executor, Waiting::scenario(|_| millis(0)));
        planned.seed = seed;
        let mut run = run(vec![planned], &[]);
        run.workers = workers;
        let outcome = run.start().wait();
        assert_eq!(
            outcome.verdict.exit_code(),
            0,
            "{:?}",
            outcome.summary.thresholds
        );
        outcome.summary.scenarios[0].started
    };
    let one = started(1, 7);
    assert_eq!((started(3, 7), started(1, 7)), (one, one));
    // The standard deviation is 10.
    assert!((50..150).contains(&one), "{one}");
    assert!((8..12).any(|seed| started(1, seed) != one));
}

/// Due times of the arrivals by number.
type Due = BTreeMap<u64, Instant>;

/// A scenario that records its arrivals.
#[derive(Clone, Default)]
struct Recording(Arc<Mutex<Due>>);

#[async_trait]
impl Scenario for Recording {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl VirtualUser for Recording {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let mut due = self.0.lock().unwrap();
        let before = due.insert(iteration.number(), iteration.intended());
        assert_eq!(before, None, "arrival {} came twice", iteration.number());
    }
}

/// Runs a part with two threads, and returns its arrivals and its largest number of users.
fn arrivals_of(part: &str, executor: &ExecutorConfig) -> (Due, u64) {
    let scenario = Recording::default();
    let planned = ScenarioConfig::new("s", executor.clone(), Arc::new(scenario.clone()));
    let outcome = Run {
        workers: 2,
        part: part.parse().unwrap(),
        ..run(vec![planned], &[])
    };
    let outcome = outcome.start().wait();
    let summary = &outcome.summary.scenarios[0];
    assert_eq!(summary.asked, summary.started, "{summary:?}");
    let due = scenario.0.lock().unwrap().clone();
    assert_eq!(due.len() as u64, summary.started);
    (due, summary.users_max)
}

#[test]
fn parts_together_have_the_arrivals_of_one_run_at_the_same_instants() {
    for arrivals in [Arrivals::Even, Arrivals::Poisson] {
        let options = ArrivalRateOptions {
            arrivals,
            max_start_delay: Duration::MAX,
            ..ArrivalRateOptions::default()
        };
        let executor = ExecutorConfig::RampingArrivalRate {
            start: Rate::per_second(100.0),
            stages: vec![Stage {
                duration: millis(500),
                target: 300.0,
            }],
            options,
        };
        let (whole, _) = arrivals_of("1/1", &executor);
        let parts = ["1/3", "2/3", "3/3"].map(|part| arrivals_of(part, &executor).0);
        for part in &parts {
            let (first, begin) = part.first_key_value().unwrap();
            for (number, due) in part {
                assert_eq!(*due - *begin, whole[number] - whole[first], "{number}");
            }
        }
        let numbers = parts.iter().flat_map(BTreeMap::keys).copied();
        let numbers: std::collections::BTreeSet<u64> = numbers.collect();
        assert!(numbers.iter().eq(whole.keys()));
        assert_eq!(parts.iter().map(BTreeMap::len).sum::<usize>(), whole.len());
    }
}

#[test]
fn parts_together_have_the_users_and_iterations_of_one_run() {
    let executor = ExecutorConfig::ConstantVus {
        vus: 4,
        duration: Duration::MAX,
        iterations: Some(50),
    };
    let parts = ["1/3", "2/3", "3/3"].map(|part| arrivals_of(part, &executor));
    assert_eq!(parts.each_ref().map(|(due, _)| due.len()), [17, 17, 16]);
    let numbers = parts.iter().flat_map(|(due, _)| due.keys());
    assert!(
        numbers
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .copied()
            .eq(0..50)
    );
    // A user whose thread starts late has nothing left to do.
    let most = parts.iter().zip([2, 1, 1]);
    assert!(
        most.into_iter()
            .all(|((_, users), most)| (1..=most).contains(users))
    );
}

#[test]
fn a_run_waits_for_its_start() {
    let scenario = Recording::default();
    let planned = ScenarioConfig::new("s", constant(100.0, millis(100)), Arc::new(scenario));
    let (start, known) = watch::channel(None);
    let waiting = Run {
        start_at: Some(known),
        ..run(vec![planned], &[])
    };
    let waiting = waiting.start();
    let mut snapshots = waiting.snapshots();
    while snapshots.borrow_and_update().phase != Phase::Waiting {
        std::thread::yield_now();
    }
    let at = SystemTime::now() + millis(1000);
    start.send_replace(Some(at));
    let outcome = waiting.wait();
    let since = at.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    assert_eq!(outcome.summary.started, since);
    assert_eq!(outcome.summary.scenarios[0].started, 10);
}

#[test]
fn a_start_that_has_passed_and_a_stop_while_waiting_end_the_run() {
    let planned = || {
        ScenarioConfig::new(
            "s",
            constant(100.0, millis(100)),
            Arc::new(Recording::default()),
        )
    };
    let late = Run {
        start_at: Some(watch::channel(Some(UNIX_EPOCH)).1),
        ..run(vec![planned()], &[])
    };
    let late = late.start().wait();
    assert_eq!(late.verdict, Verdict::Configuration);
    assert!(late.error.unwrap().starts_with("--start-at: "));
    let (start, known) = watch::channel(None);
    let ordered = Run {
        start_at: Some(known),
        ..run(vec![planned()], &[])
    };
    let ordered = ordered.start();
    let mut snapshots = ordered.snapshots();
    while snapshots.borrow_and_update().phase != Phase::Waiting {
        std::thread::yield_now();
    }
    start.send_replace(Some(UNIX_EPOCH));
    assert_eq!(ordered.wait().summary.scenarios[0].started, 10);
    let far = SystemTime::now() + Duration::from_secs(3600);
    for (stop, verdict) in [
        (Running::stop as fn(&Running), Verdict::Interrupted),
        (Running::abort as fn(&Running), Verdict::Crossed),
    ] {
        let stopped = Run {
            start_at: Some(watch::channel(Some(far)).1),
            ..run(vec![planned()], &[])
        };
        let stopped = stopped.start();
        stop(&stopped);
        assert_eq!(stopped.wait().verdict, verdict);
    }
}

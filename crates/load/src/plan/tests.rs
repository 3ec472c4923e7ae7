use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_settings::{Report, typed};
use serde::Deserialize;

use super::{Kind, Plan};
use crate::executor::{ArrivalRateOptions, Arrivals, ExecutorConfig, Rate, Stage};
use crate::{Iteration, OwnMetrics, PrepareError, Recorder, Scenario, VirtualUser};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Options {
    log_url: String,
    dup_chance: f64,
}

struct Nothing;

#[async_trait]
impl Scenario for Nothing {
    async fn prepare(&self) -> Result<(), PrepareError> {
        Ok(())
    }

    fn metrics(&self) -> Option<OwnMetrics> {
        Some(&[("ct_accepted", "rate")])
    }

    fn user(&self, _: u64, _: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(Nothing)
    }
}

#[async_trait]
impl VirtualUser for Nothing {
    async fn iterate(&mut self, _: &mut Iteration) {}
}

fn kinds() -> Vec<Kind> {
    vec![Kind::new("ct-write", |node, path, report| {
        let known = &["logUrl", "dupChance"];
        let options: Options = typed::read(node, path, known, report)?;
        Some(Box::new(move |_| match options.log_url.as_str() {
            "" => Err(PrepareError::Configuration("`logUrl` is missing".into())),
            _ => Ok(Arc::new(Nothing) as Arc<dyn Scenario>),
        }))
    })]
}

/// Returns the plan with its errors and warnings.
fn read(yaml: &str) -> (Option<Plan>, Vec<String>) {
    let mut report = Report::on(Some("p".as_ref()));
    let lookup = |name: &str| (name == "RATE").then(|| "750".to_owned());
    let plan = Plan::parse(yaml, &kinds(), &lookup, &mut report);
    let warnings = report.warning_lines();
    let warnings = warnings.iter().map(|line| format!("warning: {line}"));
    let said = report.problem_lines().into_iter().chain(warnings);
    (plan, said.collect())
}

/// Returns a plan with one scenario `w` with `keys`.
fn with(keys: &str) -> String {
    let indented: String = keys.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "scenarios:\n  w:\n    scenario: ct-write\n    options: {{ logUrl: http://l }}\n{indented}"
    )
}

#[track_caller]
fn executor(keys: &str) -> ExecutorConfig {
    let (plan, said) = read(&with(keys));
    assert_eq!(said, Vec::<String>::new());
    plan.unwrap().scenarios.remove(0).executor
}

#[track_caller]
fn problems(yaml: &str, expected: &[&str]) {
    let (plan, said) = read(yaml);
    assert_eq!(said, expected);
    assert!(plan.is_none());
}

#[test]
fn arrivals_are_even_or_random() {
    let rate = "executor: constant-arrival-rate\nrate: 5\nduration: 60s\n";
    let arrivals = |keys: &str| executor(&format!("{rate}{keys}"));
    assert_eq!(arrivals(""), arrivals("arrivals: even"));
    let random = arrivals("arrivals: poisson");
    assert_ne!(arrivals(""), random);
    assert_eq!(random.to_string(), "5/s for 60s, at random");
    problems(
        &with(&format!("{rate}arrivals: often")),
        &["p:8: scenarios.w.arrivals: `often` must be `even` or `poisson`"],
    );
}

#[test]
fn a_whole_plan() {
    let (plan, said) = read(
        "
name: A plan
description: all of it
threads: 2
seed: 7
tags: { team: pki, tier: none }
scenarios:
  write:
    scenario: ct-write
    executor: constant-arrival-rate
    rate: ${RATE:-500}
    timeUnit: 1m
    duration: 1m30s
    startTime: 5s
    gracefulStop: 0
    preAllocatedVUs: 5
    maxVUs: 50
    minAchieved: 0.9
    maxStartDelay: 2s
    tags: { tier: gold }
    options:
      logUrl: ${LOG:-http://localhost:6962/}
      dupChance: 0.1
thresholds:
  http_req_duration{scenario:write}: [\"p(95)<500\", avg<100]
  checks: rate==1
  http_req_failed:
    - { threshold: rate<0.01, abortOnFail: true, delayAbortEval: 10s }
",
    );
    assert_eq!(said, Vec::<String>::new());
    let plan = plan.unwrap();
    assert_eq!(
        (plan.name.as_str(), plan.threads, plan.seed),
        ("A plan", Some(2), Some(7))
    );
    let write = &plan.scenarios[0];
    assert_eq!(
        (write.start, write.graceful_stop),
        (Duration::from_secs(5), Duration::ZERO)
    );
    let options = ArrivalRateOptions {
        pre_allocated_vus: 5,
        max_vus: 50,
        iterations: None,
        max_start_delay: Duration::from_secs(2),
        min_achieved: 0.9,
        arrivals: Arrivals::Even,
    };
    let rate = Rate {
        count: 750.0,
        per: Duration::from_secs(60),
    };
    let duration = Duration::from_secs(90);
    assert_eq!(
        write.executor,
        ExecutorConfig::ConstantArrivalRate {
            rate,
            duration,
            options
        }
    );
    let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(write.tags, [tag("tier", "gold"), tag("team", "pki")]);
    let thresholds = &plan.thresholds.0;
    assert_eq!(thresholds.len(), 4);
    assert_eq!(thresholds[0].key, "http_req_duration{scenario:write}");
    assert_eq!(thresholds[1].expression, "avg<100");
    assert!(thresholds[3].abort_on_fail);
    assert_eq!(thresholds[3].delay_abort_eval, Duration::from_secs(10));
    assert_eq!(plan.into_run(7).ok().unwrap().scenarios.len(), 1);
}

#[test]
fn every_executor_of_k6_that_there_is() {
    let second = Duration::from_secs(1);
    let stages = vec![
        Stage {
            duration: 30 * second,
            target: 100.0,
        },
        Stage {
            duration: Duration::ZERO,
            target: 200.0,
        },
    ];
    let list = "stages: [{ duration: 30s, target: 100 }, { duration: 0, target: 200 }]\n";
    assert_eq!(
        executor(&format!(
            "executor: ramping-arrival-rate\nstartRate: 10\n{list}"
        )),
        ExecutorConfig::RampingArrivalRate {
            start: Rate::per_second(10.0),
            stages: stages.clone(),
            options: ArrivalRateOptions::default(),
        }
    );
    assert_eq!(
        executor("executor: constant-vus\nvus: 20\nduration: 5m\niterations: 1000"),
        ExecutorConfig::ConstantVus {
            vus: 20,
            duration: 300 * second,
            iterations: Some(1000),
        }
    );
    assert_eq!(
        executor(&format!("executor: ramping-vus\nstartVUs: 0\n{list}")),
        ExecutorConfig::RampingVus {
            start: 0,
            stages,
            iterations: None
        }
    );
    // A goal replaces the duration.
    assert_eq!(
        executor("executor: constant-arrival-rate\nrate: 50\niterations: 500"),
        ExecutorConfig::ConstantArrivalRate {
            rate: Rate::per_second(50.0),
            duration: 10 * second,
            options: ArrivalRateOptions {
                iterations: Some(500),
                ..ArrivalRateOptions::default()
            },
        }
    );
}

#[test]
fn every_typo_is_told_at_once_and_with_its_line() {
    problems(
        "\
nam: A plan
threads: many
scenarios:
  write:
    scenario: ct-wirte
    executor: constant-arival-rate
    duraton: 60s
  again:
    scenario: ct-write
    executor: constant-arrival-rate
    rate: fast
    duration: 60
    gracefulStop: 5sec
    options:
      logURL: http://l
      dupChance: often
thresholds:
  http_req_duration{scenario:wirte}: p(95)<500
",
        &[
            "p:1: nam: no such key; did you mean `name`?",
            "p:2: threads: `many` is not a whole number of threads",
            "p:5: scenarios.write.scenario: `ct-wirte` is not a known scenario; did you mean `ct-write`?",
            "p:6: scenarios.write.executor: `constant-arival-rate` is not a known executor; did you mean \
             `constant-arrival-rate`?",
            "p:7: scenarios.write.duraton: no such key; did you mean `duration`?",
            "p:11: scenarios.again.rate: `fast` is not a number",
            "p:12: scenarios.again.duration: `60` has no unit: write 60s or 60ms",
            "p:13: scenarios.again.gracefulStop: `5sec` has the unit `sec`; expected h, m, s, ms, \
             us or ns",
            "p:15: scenarios.again.options.logURL: no such key; did you mean `logUrl`?",
            "p:16: scenarios.again.options.dupChance: `often` is not a number",
        ],
    );
}

#[test]
fn what_is_missing_is_told_with_an_example() {
    problems(
        "",
        &["p: scenarios: is missing: a map from names to scenarios"],
    );
    problems(
        "name: n\nscenarios: {}\n",
        &["p:2: scenarios: must have at least one scenario, but the map is empty"],
    );
    problems(
        "scenarios:\n  w:\n    executor: constant-arrival-rate\n",
        &[
            "p:3: scenarios.w.duration: is missing; for example `duration: 60s`",
            "p:3: scenarios.w.rate: is missing; for example `rate: 500`",
            "p:3: scenarios.w.scenario: is missing; for example `scenario: ct-write`",
        ],
    );
    problems(
        "scenarios:\n  w:\n    scenario: ct-write\n    executor: constant-vus\n    duration: 1s\n",
        &["p:2: scenarios.w.options: `logUrl` is missing"],
    );
    problems(
        &with("executor: ramping-vus"),
        &["p:3: scenarios.w.stages: is missing; for example \
           `stages: [{ duration: 30s, target: 500 }]`"],
    );
}

#[test]
fn keys_of_another_executor_and_of_k6_are_explained() {
    problems(
        &with("executor: constant-vus\nrate: 5\nduration: 1s\nexec: write"),
        &[
            "p:6: scenarios.w.rate: does nothing with `constant-vus`, which takes vus, duration, \
             iterations",
            "p:8: scenarios.w.exec: is a function of a k6 script; here `scenario` names the \
             work, `options` its details",
        ],
    );
    problems(
        &with("executor: shared-iterations"),
        &[
            "p:5: scenarios.w.executor: `shared-iterations` is not supported: write \
             `constant-vus` with `iterations`",
        ],
    );
}

#[test]
fn the_environment_is_text_and_must_be_there() {
    let (plan, said) = read(&with(
        "executor: constant-arrival-rate\nrate: ${RATE}\nduration: 1s",
    ));
    assert!(plan.is_some(), "{said:?}");
    let (plan, said) = read(&with(
        "executor: constant-arrival-rate\nrate: ${NONE}\nduration: 1s",
    ));
    assert!(plan.is_none());
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("p:6: the environment has no NONE"),
        "{said:?}"
    );
}

#[test]
fn thresholds_name_scenarios_that_exist() {
    let fine = with("executor: constant-vus\nduration: 1s");
    problems(
        &format!("{fine}thresholds:\n  http_reqs{{scenario:wirte}}: count>1\n"),
        &[
            "p:8: thresholds.http_reqs{scenario:wirte}: there is no scenario `wirte`; expected \
             one of w",
        ],
    );
    let (plan, said) = read(&format!("{fine}thresholds:\n  ct_accepted: rate>0.9\n"));
    assert!(plan.is_some(), "{said:?}");
    let (plan, said) = read(&format!("{fine}thresholds:\n  http_req_durations: avg<1\n"));
    assert!(plan.is_none());
    assert!(
        said[0].starts_with(
            "p:8: thresholds.http_req_durations: \"http_req_durations\" is not a metric of this run; \
             did you mean `http_req_duration`? The metrics are achieved_rate, "
        ),
        "{said:?}"
    );
    problems(
        &format!("{fine}thresholds:\n  ct_accepted: p(95)<500\n"),
        &["p:8: thresholds.ct_accepted: ct_accepted is a rate: it has rate"],
    );
    problems(
        &format!("{fine}thresholds: p(95)<500\n"),
        &["p:7: thresholds: must be a map from metrics to expressions, but is a single value"],
    );
}

#[test]
fn names_can_stand_in_a_threshold() {
    problems(
        "scenarios:\n  a b:\n    scenario: ct-write\n    options: { logUrl: x }\n    \
         executor: constant-vus\n    duration: 1s\n    tags: { scenario: x, \"y z\": 1, ok: \"\" }\n",
        &[
            "p:2: scenarios.a b: is not a name of letters, digits, `_`, `-` and `.`",
            "p:7: scenarios.a b.tags.ok: must have a value, without commas and braces",
            "p:7: scenarios.a b.tags.scenario: is reserved for the scenario's name; use \
             another tag",
            "p:7: scenarios.a b.tags.y z: is not a name of letters, digits, `_`, `-` and `.`",
        ],
    );
}

#[test]
fn what_is_not_yaml_is_told_where() {
    let (plan, said) = read("scenarios:\n  w: [\n");
    assert!(plan.is_none());
    assert!(said[0].contains("is not YAML"), "{said:?}");
}

#[test]
fn rates_can_be_worked_out() {
    let plan = |keys: &str| read(&with(keys)).0.unwrap().scenarios.remove(0).executor;
    let rate = |executor: &ExecutorConfig| match executor {
        ExecutorConfig::ConstantArrivalRate { rate, .. } => rate.as_per_second(),
        other => panic!("{other:?}"),
    };
    let fleet = "executor: constant-arrival-rate\nduration: 10m\nrate: ";
    let renewals = plan(&format!("{fleet}50000 / (47d * 2/3)\n"));
    assert!((rate(&renewals) - 0.018_469).abs() < 1e-6, "{renewals:?}");
    let heartbeats = plan(&format!("{fleet}50000 / 10 / 30s\n"));
    assert!((rate(&heartbeats) - 166.667).abs() < 1e-3);
    let numbers = plan(&format!("{fleet}2 * 50\ntimeUnit: 1m\n"));
    assert!((rate(&numbers) - 100.0 / 60.0).abs() < 1e-9);
    for (keys, expected) in [
        ("5000 / 30s\ntimeUnit: 1m\n", "leave out `timeUnit`"),
        ("47d\n", "`47d` is a time; expected a rate"),
        ("5 / \n", "is incomplete: expected a number at its end"),
        ("0 / 1s\n", "must be above 0"),
    ] {
        let (none, said) = read(&with(&format!("{fleet}{keys}")));
        assert!(none.is_none() && said[0].contains(expected), "{said:?}");
    }
    let ramp = plan(
        "executor: ramping-arrival-rate\nstartRate: 60 / 1m\n\
         stages: [{ duration: 10s, target: 3600 / 1h }]\n",
    );
    match ramp {
        ExecutorConfig::RampingArrivalRate { start, stages, .. } => {
            assert_eq!((start.as_per_second(), stages[0].target), (1.0, 1.0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plan_is_made_quick() {
    let yaml = "scenarios:\n  a:\n    scenario: ct-write\n    executor: constant-arrival-rate\n    \
                rate: 50\n    duration: 5m\n    options: { logUrl: x }\n  \
                b:\n    scenario: ct-write\n    executor: constant-arrival-rate\n    \
                rate: 1\n    timeUnit: 1m\n    duration: 290s\n    startTime: 10s\n    \
                options: { logUrl: x }\n  \
                c:\n    scenario: ct-write\n    executor: ramping-vus\n    \
                stages: [{ duration: 60s, target: 5 }, { duration: 90s, target: 5 }]\n    \
                options: { logUrl: x }\n\
                thresholds:\n  http_reqs: [\"count>3000\", \"count<99999\"]\n  \
                http_req_duration: p(95)<500\n";
    let mut plan = read(yaml).0.unwrap();
    let said = plan.quicken(Duration::from_secs(20));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("scenario b: raised to"), "{said:?}");
    let ends = plan
        .scenarios
        .iter()
        .map(|s| s.start + s.executor.duration());
    let ends: Vec<f64> = ends.map(|end| end.as_secs_f64()).collect();
    assert!(
        (ends[0] - 20.0).abs() < 1e-6 && (ends[1] - 20.0).abs() < 1e-6,
        "{ends:?}"
    );
    assert!((ends[2] - 10.0).abs() < 1e-6, "{ends:?}");
    match &plan.scenarios[0].executor {
        ExecutorConfig::ConstantArrivalRate { rate, .. } => assert_eq!(rate.count, 50.0),
        other => panic!("{other:?}"),
    }
    let expressions: Vec<_> = plan
        .thresholds
        .0
        .iter()
        .map(|t| t.expression.as_str())
        .collect();
    assert_eq!(expressions, ["count>200", "count<99999", "p(95)<500"]);
    // A plan that is short enough is not changed.
    assert!(plan.quicken(Duration::from_secs(30)).is_empty());
    assert_eq!(
        plan.scenarios[0].executor.duration().as_secs_f64().round(),
        20.0
    );
}

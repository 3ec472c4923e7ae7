//! Default thresholds of a run whose plan has none for their metrics.
#![allow(clippy::unwrap_used)]

use lucarne_load::Verdict;

use crate::api::Api;
use crate::rest_tls::{REST, plan as plan_of, run};

/// Returns a plan of these scenarios with their options, one user each, for a tenth of a second.
fn plan(scenarios: &[(&str, &str)], keys: &str, thresholds: &str) -> String {
    let scenario = |(name, options): &(&str, &str)| {
        let options = format!("{REST}{options}");
        let options: String = options
            .lines()
            .map(|line| format!("      {line}\n"))
            .collect();
        format!(
            "  {name}:\n    scenario: rest\n    executor: constant-vus\n    vus: 1\n    \
             duration: 100ms\n{keys}    options:\n{options}"
        )
    };
    let scenarios: String = scenarios.iter().map(scenario).collect();
    format!("scenarios:\n{scenarios}{thresholds}")
}

fn crossed(outcome: &lucarne_load::Outcome) -> Vec<&str> {
    let crossed = outcome.summary.thresholds.iter().filter(|it| !it.passed);
    crossed.map(|it| it.metric.as_str()).collect()
}

#[test]
fn a_plan_demands_what_flags_demand() {
    let api = Api::start();
    let wrong = ("one", "url: /list\nexpect: 201\n");
    let outcome = run(&plan(&[wrong], "", ""), &api);
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert_eq!(crossed(&outcome), ["checks", "http_req_failed"]);
    let outcome = run(&plan(&[("one", "url: /list\n")], "", ""), &api);
    assert_eq!(
        outcome.verdict,
        Verdict::Passed,
        "{:?}",
        outcome.summary.thresholds
    );
    // One of two scenarios has its own threshold.
    let outcome = run(&plan(&[("good", "url: /list\n"), wrong], "", ""), &api);
    assert_eq!(
        crossed(&outcome),
        ["checks{scenario:one}", "http_req_failed{scenario:one}"]
    );
}

#[test]
fn a_plan_may_say_something_else() {
    let api = Api::start();
    let scenarios = [
        ("good", "url: /list\n"),
        ("one", "url: /list\nexpect: 201\n"),
    ];
    for (thresholds, expected) in [
        ("  checks: rate>=0\n  http_req_failed: rate<=1\n", &[][..]),
        (
            "  checks{scenario:one}: rate>=0\n  http_req_failed{scenario:good}: rate<=1\n",
            &["http_req_failed{scenario:one}"],
        ),
        // A threshold on one operation does not cover the others.
        (
            "  checks{op:other}: rate>=0\n  http_req_failed: rate<=1\n",
            &["checks{op:other}", "checks{scenario:one}"],
        ),
    ] {
        let outcome = run(
            &plan(&scenarios, "", &format!("thresholds:\n{thresholds}")),
            &api,
        );
        assert_eq!(crossed(&outcome), expected, "{thresholds}");
    }
}

/// Runs this YAML of scenarios, which the threshold on all requests permits to fail. Returns the
/// crossed thresholds.
fn crossed_with(scenarios: &str, allow: &[&str], api: &Api) -> (Verdict, Vec<String>) {
    let total = "thresholds:\n  checks: rate>=0\n  http_req_failed: rate<0.9\n";
    let yaml = format!("scenarios:\n{scenarios}{total}");
    let mut run = plan_of(&yaml, api).unwrap().into_run(7).unwrap();
    run.allow = allow.iter().map(|name| (*name).to_owned()).collect();
    let outcome = crate::finished(run);
    let crossed = crossed(&outcome).into_iter().map(str::to_owned);
    (outcome.verdict, crossed.collect())
}

const TWELVE: &str = "executor: constant-vus\n    vus: 1\n    duration: 60s\n    iterations: 12\n";

#[test]
fn a_step_that_always_fails_is_named() {
    let api = Api::start();
    let scenarios = format!(
        "  api:\n    scenario: rest\n    {TWELVE}    options:\n      baseUrl: ${{URL}}\n      \
         ca: ${{CA}}\n      headers: {{ Authorization: Bearer secret }}\n      steps:\n        \
         - {{ name: list, url: /list }}\n        - {{ name: create, url: /list, expect: 201 }}\n"
    );
    let (verdict, crossed) = crossed_with(&scenarios, &[], &api);
    assert_eq!(verdict, Verdict::Crossed);
    assert_eq!(crossed, ["http_req_failed{op:create,scenario:api}"]);
    let allowed = crossed_with(&scenarios, &["create: status is 201"], &api);
    assert_eq!(allowed, (Verdict::Passed, Vec::new()));
}

#[test]
fn an_endpoint_whose_handshakes_always_fail_is_named() {
    let api = Api::start();
    let endpoint = |name: &str, fingerprint: &str| {
        format!(
            "  {name}:\n    scenario: tls\n    tags: {{ connector: {name} }}\n    {TWELVE}    \
             options:\n      url: ${{URL}}\n      ca: ${{CA}}\n      fingerprint: \"{fingerprint}\"\n"
        )
    };
    let scenarios = endpoint("good", "${FINGERPRINT}") + &endpoint("other", &"0".repeat(64));
    let (verdict, crossed) = crossed_with(&scenarios, &[], &api);
    assert_eq!(verdict, Verdict::Crossed);
    assert_eq!(crossed, ["http_req_failed{connector:other,scenario:other}"]);
}

/// No iteration finishes, because its think time is longer than the run.
#[test]
fn a_scenario_that_never_finishes_has_not_passed() {
    let api = Api::start();
    let slow = [("one", "url: /list\nthinkTime: 1h\n")];
    let outcome = run(&plan(&slow, "    gracefulStop: 100ms\n", ""), &api);
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert_eq!(crossed(&outcome), ["iterations_finished{scenario:one}"]);
    let told = &outcome.summary.errors[0].details[0];
    assert!(told.ends_with(", in a pause"), "{told}");
    // The verdict stays the same with a lenient threshold.
    let lax = "thresholds:\n  iterations_finished: rate>=0\n";
    let outcome = run(&plan(&slow, "    gracefulStop: 100ms\n", lax), &api);
    assert_eq!(outcome.verdict, Verdict::Crossed);
}

//! `setup`, `userSetup` and `teardown` of the scenario `rest`.

use std::sync::atomic::Ordering::SeqCst;

use lucarne_load::{Metric, Outcome, Verdict};
use lucarne_testkit::block_until;

use crate::api::Api;
use crate::rest_tls::{REST, plan, run};

/// Returns a plan of `GET /things/{{id}}` with these phases. `arrivals` are keys of the executor.
fn phases(arrivals: &str, phases: &str) -> String {
    let options = format!("{REST}steps: [{{ name: show, url: \"/things/{{{{id}}}}\" }}]\n{phases}");
    let options: String = options
        .lines()
        .map(|line| format!("      {line}\n"))
        .collect();
    format!(
        "scenarios:\n  s:\n    scenario: rest\n    executor: constant-vus\n    {arrivals}\n    \
         options:\n{options}"
    )
}

/// Logs in once, and captures the id.
const SETUP: &str = "setup:\n- name: login\n  url: /things\n  json: { name: \"run-{{unique}}\" }\n  \
                     capture: { id: /id }\n";
const TEARDOWN: &str = "teardown: [{ name: logout, url: \"/things/{{id}}?logout\" }]\n";

fn samples(outcome: &Outcome, metric: &str, phase: Option<&str>) -> u64 {
    let tags: Vec<_> = phase.map(|phase| ("phase", phase)).into_iter().collect();
    let metric = outcome.summary.select(metric, &tags);
    metric.map_or(0, |metric| metric.samples())
}

/// Returns the requested paths.
fn paths(api: &Api) -> Vec<String> {
    api.seen.paths.lock().clone()
}

#[test]
fn one_login_serves_the_whole_load() {
    let api = Api::start();
    let user = "userSetup:\n- name: register\n  url: /things\n  json: { name: \"{{user}} of \
                {{id}}\" }\n  remember: { own: /id }\n";
    let arrivals = "vus: 4\n    duration: 60s\n    iterations: 5247";
    let outcome = run(&phases(arrivals, &format!("{SETUP}{user}{TEARDOWN}")), &api);
    assert_eq!(outcome.verdict, Verdict::Passed, "{:?}", outcome.error);
    let names = api.seen.names.lock().clone();
    let logins = names.iter().filter(|name| name.starts_with("run-"));
    assert_eq!((logins.count(), names.len()), (1, 5), "{names:?}");
    let paths = paths(&api);
    let shown = paths.iter().filter(|path| path.starts_with("/things/"));
    // One login, so one id. The last request is the logout.
    assert_eq!(shown.clone().count(), 5247 + 1);
    assert!(shown.clone().all(|path| *path == paths[paths.len() - 1]));
    for metric in ["http_req_duration", "http_reqs", "http_req_failed"] {
        assert_eq!(samples(&outcome, metric, None), 5247, "{metric}");
        assert_eq!(samples(&outcome, metric, Some("setup")), 0, "{metric}");
    }
    let of = |phase| samples(&outcome, "phase_req_duration", Some(phase));
    assert_eq!((of("setup"), of("userSetup"), of("teardown")), (1, 4, 1));
    assert_eq!(
        samples(&outcome, "checks", None),
        5247,
        "only those of the load"
    );
}

#[test]
fn a_failed_setup_ends_the_run_before_the_load() {
    let api = Api::start();
    let setup = SETUP.replace("url: /things", "url: /nowhere");
    let arrivals = "vus: 2\n    duration: 60s";
    let plan = plan(&phases(arrivals, &format!("{setup}{TEARDOWN}")), &api);
    let outcome = plan.unwrap().into_run(7).unwrap().start().wait();
    assert_eq!(outcome.verdict.exit_code(), 99);
    assert_eq!(
        outcome.error.as_deref(),
        Some("setup: login: expected status 2xx, found 404: {\"error\": \"none\"}")
    );
    assert_eq!(
        paths(&api),
        ["/nowhere"],
        "no load, and nothing to tear down"
    );
}

#[test]
fn a_failed_user_setup_ends_the_run() {
    let api = Api::start();
    let user = "userSetup: [{ name: register, url: /nowhere }]\n";
    let arrivals = "vus: 2\n    duration: 1h";
    let plan = phases(arrivals, &format!("{SETUP}{user}{TEARDOWN}"));
    let outcome = run(&plan, &api);
    assert_eq!(outcome.verdict.exit_code(), 99);
    assert_eq!(
        outcome.error.as_deref(),
        Some("userSetup: register: expected status 2xx, found 404: {\"error\": \"none\"}")
    );
    let paths = paths(&api);
    let attempts = paths.iter().filter(|path| *path == "/nowhere").count();
    assert!(
        (1..=2).contains(&attempts),
        "each user tries once: {paths:?}"
    );
    assert_eq!(samples(&outcome, "http_reqs", None), 0);
    assert_eq!(samples(&outcome, "phase_req_duration", Some("teardown")), 1);
}

#[test]
fn teardown_follows_a_stop_and_an_abort() {
    let forever = "vus: 2\n    duration: 1h";
    // A stop by the user, and a second one, which cuts off running iterations.
    for stops in [1, 2] {
        let api = Api::start();
        let plan = plan(&phases(forever, &format!("{SETUP}{TEARDOWN}")), &api);
        let running = plan.unwrap().into_run(7).unwrap().start();
        block_until("a request of the load", || {
            api.seen.requests.load(SeqCst) > 1
        });
        (0..stops).for_each(|_| running.stop());
        let outcome = running.wait();
        assert_eq!(outcome.verdict, Verdict::Interrupted);
        assert_eq!(samples(&outcome, "phase_req_duration", Some("teardown")), 1);
    }
    let api = Api::start();
    let abort = "thresholds:\n  http_reqs: [{ threshold: count<1, abortOnFail: true }]\n";
    let plan = phases(forever, &format!("{SETUP}{TEARDOWN}"));
    let outcome = run(&format!("{plan}{abort}"), &api);
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert_eq!(samples(&outcome, "phase_req_duration", Some("teardown")), 1);
}

#[test]
fn a_failed_teardown_fails_the_run() {
    let api = Api::start();
    let teardown = "teardown: [{ name: logout, url: /nowhere }]\n";
    let arrivals = "vus: 1\n    duration: 60s\n    iterations: 3";
    let outcome = run(&phases(arrivals, &format!("{SETUP}{teardown}")), &api);
    assert_eq!(outcome.verdict, Verdict::Crossed);
    let notes = &outcome.summary.notes;
    let note = notes.iter().find(|note| note.title == "Teardown failed");
    assert_eq!(
        note.unwrap().lines,
        ["teardown: logout: expected status 2xx, found 404: {\"error\": \"none\"}"]
    );
    let failed = outcome
        .summary
        .select("phase_req_failed", &[("phase", "teardown")]);
    assert!(matches!(failed, Some(Metric::Rate { good: 1, total: 1 })));
}

//! HTTP of browsers in the scenario `rest`: redirects, cookies, concurrent requests, conditions,
//! and the figures that a plan defines.

use std::sync::atomic::Ordering::SeqCst;

use lucarne_load::{Metric, Outcome, Verdict};

use crate::api::Api;
use crate::rest_tls::{REST, plan, run};

/// Returns a plan with this number of iterations by one user, and these options.
fn times(count: u64, options: &str, thresholds: &str) -> String {
    let options = format!("{REST}{options}");
    let options: String = options
        .lines()
        .map(|line| format!("      {line}\n"))
        .collect();
    format!(
        "scenarios:\n  s:\n    scenario: rest\n    executor: constant-vus\n    duration: 60s\n    \
         iterations: {count}\n    options:\n{options}thresholds:\n  http_req_failed: rate<0.6\n\
         {thresholds}"
    )
}

fn paths(api: &Api) -> Vec<String> {
    api.seen.paths.lock().clone()
}

#[track_caller]
fn passed(outcome: &Outcome) {
    let summary = &outcome.summary;
    let (errors, thresholds) = (&summary.errors, &summary.thresholds);
    assert_eq!(
        outcome.verdict,
        Verdict::Passed,
        "{errors:#?} {thresholds:#?}"
    );
}

fn samples(outcome: &Outcome, metric: &str, tags: &[(&str, &str)]) -> u64 {
    let metric = outcome.summary.select(metric, tags);
    metric.map_or(0, |metric| metric.samples())
}

#[test]
fn redirects_are_followed_up_to_a_limit() {
    let api = Api::start();
    let options = "redirects: 3\nsteps: [{ url: /redirect/3, checks: [{ json: /end }] }]\n";
    let outcome = run(&times(1, options, ""), &api);
    passed(&outcome);
    let expected = ["/redirect/3", "/redirect/2", "/redirect/1", "/redirect/0"];
    assert_eq!(paths(&api), expected);
    assert_eq!(
        samples(&outcome, "http_reqs", &[]),
        4,
        "each response counts"
    );
    assert_eq!(samples(&outcome, "http_reqs", &[("status", "302")]), 3);
    let options = "redirects: 3\nsteps: [{ name: far, url: /redirect/4 }]\n";
    let outcome = run(&times(1, options, ""), &api);
    assert_eq!(
        outcome.summary.errors[0].details,
        ["far: expected status 2xx, found 302"]
    );
    let options = "redirects: 3\nsteps: [{ url: /redirect/4, redirects: 0, expect: 302 }]\n";
    passed(&run(&times(1, options, ""), &api));
}

#[test]
fn a_redirect_to_an_invalid_server_is_one_failed_request() {
    let api = Api::start();
    // TLS has no server name for this host.
    let options = "redirects: 1\nsteps: [{ name: far, url: \"/to?https://me:hush@a..b/\" }]\n";
    let outcome = run(&times(1, options, ""), &api);
    assert_eq!(samples(&outcome, "http_reqs", &[]), 1);
    let details = &outcome.summary.errors[0].details;
    assert!(
        details[0].starts_with("redirect to https://a..b: "),
        "{details:?}"
    );
}

#[test]
fn an_endless_redirect_of_a_target_is_a_failure() {
    let api = Api::start();
    let targets = api.ca.with_file_name("targets");
    std::fs::write(&targets, "GET /redirect/9\n").unwrap();
    let options = format!("redirects: 3\ntargets: {}\n", targets.display());
    let outcome = run(&times(1, &options, ""), &api);
    assert_eq!(
        outcome.summary.errors[0].details,
        ["GET /redirect/9: expected status 2xx or 304, found 302"]
    );
    let expected = format!("{options}expect: 302\n");
    passed(&run(&times(1, &expected, ""), &api));
}

#[test]
fn a_redirect_after_a_form_is_a_get_without_body_and_to_another_server_without_credentials() {
    let (api, other) = (Api::start(), Api::start());
    let location = format!("{}/seen", other.url);
    let steps = format!(
        "redirects: 1\ninsecure: true\nsteps:\n- {{ name: form, url: \"/to?{location}\", json: {{ \
         a: 1 }}, expect: 401 }}\n"
    );
    // The other server refuses the request, because the credentials are missing.
    passed(&run(&times(1, &steps, "  checks: rate==1\n"), &api));
    assert_eq!(paths(&other), ["/seen"]);
    assert_eq!(other.seen.methods.lock().as_slice(), ["GET"]);
}

#[test]
fn cookies_last_as_long_as_the_plan_states() {
    // Each iteration begins with the cookies of `setup` and `userSetup`.
    for phase in ["setup", "userSetup"] {
        let steps = format!(
            "{phase}: [{{ url: /cookie }}]\nsteps: [{{ url: /whoami, checks: [{{ json: \
                         /cookie, equals: \"{{{{wanted}}}}\" }}] }}]\n"
        );
        for (cookies, wanted) in [
            ("user", "session=1"),
            ("iteration", "session=1"),
            ("none", ""),
        ] {
            let api = Api::start();
            let options = format!("cookies: {cookies}\nvars: {{ wanted: \"{wanted}\" }}\n{steps}");
            passed(&run(&times(3, &options, "  checks: rate==1\n"), &api));
        }
    }
    let api = Api::start();
    let within = "cookies: iteration\nsteps:\n- { name: before, url: /whoami, checks: [{ json: \
                  /cookie, equals: \"\" }] }\n- url: /cookie\n- { name: after, url: /whoami, checks: \
                  [{ json: /cookie, equals: session=1 }] }\n";
    passed(&run(&times(3, within, "  checks: rate==1\n"), &api));
}

#[test]
fn unique_values_of_a_new_user_and_of_its_first_iteration_differ() {
    let api = Api::start();
    let request = "[{ url: /things, json: { name: \"{{unique}}\" } }]";
    let options = format!("userSetup: {request}\nsteps: {request}\n");
    passed(&run(&times(2, &options, ""), &api));
    assert_eq!(api.seen.names.lock().len(), 3);
}

#[test]
fn concurrent_requests_share_one_connection() {
    let api = Api::start();
    // The server responds when three requests have arrived.
    let options = "http: 2\nsteps:\n- parallel:\n  - { name: a, url: /meet/a }\n  - { name: b, \
                   url: /meet/b, capture: { id: /id } }\n  - { name: c, url: /meet/c }\n- { url: \
                   \"/things/{{id}}\" }\n";
    let outcome = run(&times(4, options, "  checks: rate==1\n"), &api);
    passed(&outcome);
    // One connection, in addition to the connection that checks the reachability.
    assert_eq!(api.seen.connections.load(SeqCst), 2);
    assert_eq!(samples(&outcome, "http_reqs", &[]), 16);
    assert_eq!(samples(&outcome, "http_req_connecting", &[("op", "a")]), 1);
    assert_eq!(samples(&outcome, "http_req_connecting", &[]), 1);
}

#[test]
fn steps_depend_on_captured_values() {
    let api = Api::start();
    let options = "steps:\n- url: /list\n  capture:\n    total: /total\n    next: { place: /next, \
                   optional: true }\n    id: { place: \"/data/*/id\", pick: random }\n- { url: \
                   /things/1, if: total == 2 }\n- { url: /things/2, if: total != 2 }\n- { url: \
                   \"/things/3?{{next}}\", if: next }\n- { url: \"/things/4{{id}}\" }\n";
    let outcome = run(&times(40, options, "  checks: rate==1\n"), &api);
    passed(&outcome);
    let count = |path: &str| paths(&api).iter().filter(|it| *it == path).count();
    assert_eq!(
        (count("/things/1"), count("/things/2"), count("/things/3")),
        (40, 0, 0)
    );
    let (one, two) = (count("/things/41"), count("/things/42"));
    assert!(one > 5 && two > 5 && one + two == 40, "{one} {two}");
}

#[test]
fn a_plan_has_counters_and_rates_of_its_own() {
    let api = Api::start();
    let options = "steps:\n- url: /list\n  counters: { lists: {}, empty: { json: /total, equals: 0 \
                   } }\n  rates: { cached: { header: etag, contains: \"7\" } }\n";
    let thresholds = "  lists: count==10\n  empty: count==0\n  cached: rate==1\n";
    let outcome = run(&times(10, options, thresholds), &api);
    passed(&outcome);
    let lists = outcome.summary.select("lists", &[]);
    assert!(
        matches!(lists, Some(Metric::Counter { count: 10 })),
        "{lists:?}"
    );
    let crossed = run(&times(9, options, thresholds), &api);
    assert_eq!(crossed.verdict, Verdict::Crossed);
    // Responses with an unexpected status count as well.
    let unexpected = options.replace("url: /list", "url: /list\n  expect: 404");
    let thresholds = "  lists: count==9\n  cached: rate==1\n  checks: rate>=0\n";
    let yaml = times(9, &unexpected, thresholds).replace("rate<0.6", "rate==1");
    passed(&run(&yaml, &api));
    for (options, thresholds, expected) in [
        (
            options,
            "  list: count==10\n",
            "\"list\" is not a metric of this run; did you mean `lists`?",
        ),
        (
            "steps: [{ url: /list, counters: { http_reqs: {} } }]\n",
            "",
            "steps[0].counters.http_reqs: is a built-in metric: use another name",
        ),
        (
            "steps: [{ url: /list, rates: { some: {} } }]\n",
            "",
            "steps[0].rates.some: must name one place",
        ),
        (
            "steps: [{ url: /list, rates: { it: { body: true } }, counters: { it: {} } }]\n",
            "",
            "counters: `it` is a counter and a rate: use different names",
        ),
    ] {
        let said = plan(&times(1, options, thresholds), &api).unwrap_err();
        assert!(said.iter().any(|line| line.contains(expected)), "{said:?}");
    }
}

#[test]
fn tags_of_k6_are_added_by_choice() {
    let api = Api::start();
    let options = "systemTags: [name, expected_response]\nsteps:\n- { name: good, url: /list }\n- \
                   { name: bad, url: /nowhere }\n";
    let thresholds = "  http_req_duration{expected_response:true}: p(95)<60s\n  checks: rate<1\n";
    let outcome = run(&times(5, options, thresholds), &api);
    passed(&outcome);
    let count = |tags: &[(&str, &str)]| samples(&outcome, "http_reqs", tags);
    assert_eq!(count(&[("name", "good"), ("expected_response", "true")]), 5);
    assert_eq!(count(&[("name", "bad"), ("expected_response", "false")]), 5);
    assert_eq!(count(&[("expected_response", "true")]), 5);
    let outcome = run(
        &times(5, &options[options.find("steps").unwrap()..], ""),
        &api,
    );
    assert_eq!(samples(&outcome, "http_reqs", &[("name", "good")]), 0);
}

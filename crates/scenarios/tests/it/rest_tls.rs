//! The scenarios rest and tls with a small API over TLS, including mistakes that were found in load
//! tests of certificate services.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::api::Api;
use lucarne_load::plan::Plan;
use lucarne_load::report;
use lucarne_load::{Metric, Outcome, Summary, Verdict};
use lucarne_settings::Report;
use lucarne_testkit::block_until;

/// Returns the plan, or its errors.
pub(crate) fn plan(yaml: &str, api: &Api) -> Result<Plan, Vec<String>> {
    let lookup = |name: &str| match name {
        "URL" => Some(api.url.clone()),
        "CA" => Some(api.ca.display().to_string()),
        "FINGERPRINT" => {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &api.certificate);
            Some(hex::encode(digest))
        }
        _ => None,
    };
    let mut report = Report::on(None);
    let plan = Plan::parse(yaml, &lucarne_scenarios::scenarios(), &lookup, &mut report);
    plan.ok_or_else(|| report.problem_lines())
}

pub(crate) fn run(yaml: &str, api: &Api) -> Outcome {
    let plan = plan(yaml, api).unwrap_or_else(|said| panic!("{said:#?}"));
    crate::finished(plan.into_run(7).unwrap())
}

/// Returns a plan of one scenario with these lines of `options`.
fn scenario(kind: &str, arrivals: &str, options: &str, thresholds: &str) -> String {
    let options: String = options
        .lines()
        .map(|line| format!("      {line}\n"))
        .collect();
    format!(
        "scenarios:\n  s:\n    scenario: {kind}\n    tags: {{ connector: nginx }}\n    {arrivals}\n    \
         options:\n{options}thresholds:\n  checks: rate==1\n  http_req_failed: rate==0\n{thresholds}"
    )
}

/// Returns an executor for this number of sequential iterations.
fn times(count: u64) -> String {
    format!("executor: constant-vus\n    vus: 1\n    duration: 60s\n    iterations: {count}")
}

pub(crate) const REST: &str =
    "baseUrl: ${URL}\nca: ${CA}\nheaders: { Authorization: Bearer secret }\n";

fn rest(count: u64, options: &str) -> String {
    scenario("rest", &times(count), &format!("{REST}{options}"), "")
}

/// Returns a plan of three requests for `/list` with thresholds.
fn lists(thresholds: &str) -> String {
    let options = format!("{REST}url: /list\n");
    scenario("rest", &times(3), &options, thresholds)
}

fn tls(count: u64, options: &str) -> String {
    scenario(
        "tls",
        &times(count),
        &format!("url: ${{URL}}\n{options}"),
        "",
    )
}

fn count(summary: &Summary, metric: &str, tags: &[(&str, &str)]) -> u64 {
    summary
        .select(metric, tags)
        .map_or(0, |metric| metric.samples())
}

/// Returns the checks that failed at least once.
fn failed(outcome: &Outcome) -> Vec<&str> {
    let checks = outcome.summary.checks.iter();
    let mut failed: Vec<_> = checks
        .filter(|check| check.fails > 0)
        .map(|check| check.name.as_str())
        .collect();
    failed.sort();
    failed
}

fn errors(outcome: &Outcome) -> Vec<&str> {
    outcome
        .summary
        .errors
        .iter()
        .map(|error| error.kind.as_str())
        .collect()
}

#[track_caller]
fn passed(outcome: &Outcome) {
    let summary = &outcome.summary;
    assert_eq!(
        outcome.verdict,
        Verdict::Passed,
        "{:?} {:#?} {:#?} {:#?}",
        outcome.error,
        summary.errors,
        summary.checks,
        summary.thresholds
    );
}

#[test]
fn values_go_from_answer_to_request() {
    let api = Api::start();
    let outcome = run(
        &rest(
            20,
            "vars: { name: \"n-{{unique}}.example.test\" }\nsteps:\n- name: make\n  url: /things\n  \
             json: { name: \"{{name}}\", sans: [\"{{name}}\"], count: \"{{user | raw}}\" }\n  \
             expect: 201\n  capture: { id: /id, there: \"header:location\" }\n  checks:\n  \
             - { json: /name, equals: \"{{name}}\" }\n  - { json: /sans, type: array, length: 1 }\n\
             - name: show\n  url: /things/{{id}}\n  checks: [{ json: /id, equals: \"{{id}}\" }]\n\
             - name: follow\n  url: \"{{there | raw}}\"\n  remember: { last: /id }\n\
             - name: agent\n  url: /agents/{{counter(to=3, width=3)}}\n  expect: [400, 404]\n",
        ),
        &api,
    );
    passed(&outcome);
    assert_eq!(
        api.seen.names.lock().len(),
        20,
        "every name was another one"
    );
    // One connection, in addition to the connection that checks the reachability.
    assert_eq!(api.seen.connections.load(SeqCst), 2);
    assert_eq!(
        count(&outcome.summary, "http_req_duration", &[("op", "show")]),
        20
    );
    let paths = api.seen.paths.lock();
    let agents = paths.iter().filter(|path| *path == "/agents/003").count();
    assert_eq!(agents, 5, "every fourth of twenty");
}

#[test]
fn answers_are_decompressed_before_they_are_looked_at() {
    let api = Api::start();
    let packed = |coding: &str| {
        let check = "checks: [{ json: /data, type: array, length: 3 }]";
        run(&rest(3, &format!("url: /packed/{coding}\n{check}\n")), &api)
    };
    passed(&packed("gzip"));
    passed(&packed("zstd"));
    for wrong in ["br", "deflate"] {
        let outcome = packed(wrong);
        assert_eq!(outcome.verdict, Verdict::Crossed);
        assert_eq!(errors(&outcome), ["content"], "{wrong}");
    }
}

/// A body that no check needs is not kept, so `maxBody` does not apply.
#[test]
fn only_bodies_that_something_needs_have_a_limit() {
    let api = Api::start();
    let limited = |options: &str| run(&rest(3, &format!("maxBody: 10\n{options}\n")), &api);
    let outcome = limited("url: /list");
    passed(&outcome);
    let received = outcome.summary.total("body_received").unwrap();
    assert!(received.samples() > 3 * 10, "{received:?}");
    passed(&limited(
        "url: /list\nchecks: [{ header: etag, exists: true }]",
    ));
    for needed in [
        "url: /list\nchecks: [{ json: /data, type: array }]",
        "url: /html\nchecks: [{ body: true, contains: well }]",
        "steps: [{ url: /list, capture: { id: /data/0/id } }]",
        "url: /packed/gzip",
    ] {
        let outcome = limited(needed);
        assert_eq!(outcome.verdict, Verdict::Crossed, "{needed}");
        assert_eq!(errors(&outcome), ["max_body"], "{needed}");
        let detail = &outcome.summary.errors[0].details[0];
        assert!(
            detail.ends_with("raise `--max-body` (`maxBody` in a plan)"),
            "{detail}"
        );
    }
}

#[test]
fn the_name_of_a_check_is_as_it_was_written() {
    let api = Api::start();
    let options = "vars: { name: \"n-{{unique}}\" }\nurl: /things\nmethod: POST\n\
                   json: { name: \"{{name}}\" }\nexpect: 201\n\
                   checks: [{ json: /name, equals: \"{{name}}\" }]\n";
    let name = "POST /things: /name is {{name}}";
    let key = format!("  'checks{{check:{name}}}': rate==1\n");
    let plan = scenario("rest", &times(3), &format!("{REST}{options}"), &key);
    let outcome = run(&plan, &api);
    let names: Vec<_> = outcome.summary.checks.iter().map(|it| &it.name).collect();
    assert!(names.iter().any(|it| *it == name), "{names:?}");
    passed(&outcome);
}

#[test]
fn one_of_several_by_weight_and_a_connection_of_its_own() {
    let api = Api::start();
    let outcome = run(
        &rest(
            200,
            "connections: request\nhttp: 2\nrequests:\n- { name: often, weight: 9, url: /list }\n\
             - { name: seldom, url: \"/things/{{last}}\" }\n- { name: make, url: /things, json: { name: x }, remember: { last: /id } }\n",
        ),
        &api,
    );
    passed(&outcome);
    let of = |op| count(&outcome.summary, "http_req_duration", &[("op", op)]);
    assert!(of("often") > 120 && of("seldom") > 0 && of("make") > 0);
    assert_eq!(of("often") + of("seldom") + of("make"), 200);
    assert_eq!(api.seen.full.load(SeqCst), 201);
    assert_eq!(outcome.summary.protocols[0].name, "HTTP/2");
}

#[test]
fn a_missing_token_is_a_status_that_was_not_expected() {
    let api = Api::start();
    let options = "url: ${URL}/list\nca: ${CA}\nexpect: 200\n";
    let outcome = run(&scenario("rest", &times(3), options, ""), &api);
    assert_eq!(outcome.verdict, Verdict::Crossed);
    assert_eq!(errors(&outcome), ["status"]);
    assert!(outcome.summary.errors[0].details[0].contains("expected status 200, found 401"));
}

#[test]
fn what_nobody_knows_is_said_before_anything_is_sent() {
    let api = Api::start();
    for (options, expected) in [
        (
            "steps:\n- { url: \"/x/{{idd}}\", capture: { id: /id } }\n",
            "`{{idd}}` is not a known value",
        ),
        (
            "steps:\n- { url: /a }\n- { url: /a }\n",
            "is the name of another request",
        ),
        (
            "steps: [{ url: /a }]\nrequests: [{ url: /b }]\n",
            "there are both",
        ),
        (
            "requests: [{ url: /a, capture: { id: /id } }]\n",
            "use `remember`",
        ),
        (
            "url: \"https://{{user}}.example/\"\n",
            "a template in its host",
        ),
        (
            "steps: [{ url: /a, checks: [{ equals: x }] }]\n",
            "must name one place",
        ),
        ("url: /a\nmethod: G T\n", "is not an HTTP method"),
        (
            "steps: [{ url: /a, exepct: 200 }]\n",
            "did you mean `expect`?",
        ),
        ("url: /a\ncert: x.pem\n", "needs `--key`"),
    ] {
        let said = plan(&rest(1, options), &api).unwrap_err().join("\n");
        assert!(said.contains(expected), "{options}: {said}");
    }
    assert_eq!(api.seen.connections.load(SeqCst), 0);
}

#[test]
fn a_certificate_is_looked_at_in_every_way() {
    let api = Api::start();
    let good = "ca: ${CA}\npath: /list\nheaders: { Authorization: Bearer secret }\nexpect: 200\n\
                expiryMargin: 1h\nfingerprint: ${FINGERPRINT}\nminScts: 2\n";
    passed(&run(&tls(3, good), &api));
    let zeros = format!("ca: ${{CA}}\nfingerprint: \"{}\"\n", "00".repeat(32));
    for (options, check) in [
        ("", "certificate_chain"),
        ("ca: ${CA}\nserverName: other.example\n", "certificate_name"),
        ("ca: ${CA}\nexpiryMargin: 36500d\n", "certificate_expiry"),
        (zeros.as_str(), "certificate_fingerprint"),
        ("ca: ${CA}\nminScts: 3\n", "certificate_scts"),
        ("ca: ${CA}\npath: /list\n", "status"),
    ] {
        let outcome = run(&tls(2, options), &api);
        assert_eq!(outcome.verdict, Verdict::Crossed, "{options}");
        assert_eq!(failed(&outcome), [check], "{options}");
        let kind = if check == "status" {
            "status"
        } else {
            "certificate"
        };
        assert_eq!(errors(&outcome), [kind], "{options}");
    }
    passed(&run(&tls(2, "insecure: true\n"), &api));
}

#[test]
fn versions_suites_and_groups_are_chosen() {
    let api = Api::start();
    let options = "insecure: true\ntlsVersions: 1.2\n\
                   cipherSuites: TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\ngroups: secp256r1\n";
    let outcome = run(&tls(3, options), &api);
    passed(&outcome);
    let lines = &outcome.summary.notes[0].lines;
    let expected = "3 full: TLSv1.2, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, secp256r1";
    assert_eq!(lines, &[expected]);
    let outcome = run(&tls(1, "groups: x25591\n"), &api);
    assert_eq!(outcome.verdict, Verdict::Configuration);
    assert!(outcome.error.unwrap().contains("did you mean `X25519`?"));
}

#[test]
fn defect_1_every_handshake_that_is_counted_is_one() {
    let api = Api::start();
    let outcome = run(&tls(40, "ca: ${CA}\n"), &api);
    passed(&outcome);
    // A handshake has no status, not even the status of a missing response.
    assert!(outcome.summary.statuses.is_empty());
    // One connection checked the reachability. A server finishes a handshake after its client.
    block_until("41 handshakes", || api.seen.full.load(SeqCst) >= 41);
    assert_eq!(api.seen.full.load(SeqCst), 41);
    let of = |metric| count(&outcome.summary, metric, &[("handshake", "full")]);
    assert_eq!(
        (of("http_req_tls_handshaking"), of("http_req_connecting")),
        (40, 40)
    );
    // The total includes its parts.
    let mean = |metric| match outcome.summary.total(metric) {
        Some(Metric::Trend(durations)) => durations.mean(),
        other => panic!("{other:?}"),
    };
    let parts = mean("http_req_connecting") + mean("http_req_tls_handshaking");
    assert!(mean("http_req_duration") >= parts);

    let options =
        "ca: ${CA}\nresume: true\npath: /list\nheaders: { Authorization: Bearer secret }\n";
    let outcome = run(&tls(40, options), &api);
    passed(&outcome);
    let of = |kind| {
        count(
            &outcome.summary,
            "http_req_tls_handshaking",
            &[("handshake", kind)],
        )
    };
    assert_eq!(
        (of("full"), of("resumed")),
        (1, 39),
        "a user's first one is full"
    );
    assert_eq!(api.seen.resumed.load(SeqCst), 39);
}

#[test]
fn defect_2_and_7_each_scenario_and_connector_has_its_own_figures() {
    let api = Api::start();
    let one = |name: &str, path: &str, count: u64| {
        format!(
            "  {name}:\n    scenario: tls\n    tags: {{ connector: {name} }}\n    {}\n    options:\n      \
             url: ${{URL}}\n      ca: ${{CA}}\n      path: {path}\n      \
             headers: {{ Authorization: Bearer secret }}\n",
            times(count)
        )
    };
    let yaml = format!(
        "scenarios:\n{}{}",
        one("nginx", "/list", 20),
        one("haproxy", "/slow/40", 5)
    ) + "  idle:\n    scenario: tls\n    tags: { connector: f5 }\n    executor: constant-vus\n    \
         duration: 60s\n    iterations: 4\n    options: { url: \"${URL}\", ca: \"${CA}\", path: /gone }\n";
    let outcome = run(&yaml, &api);
    let json = serde_json::to_value(&outcome.summary).unwrap();
    let tier = |name: &str, key: &str| json["connector_tier"][name][key].as_f64();
    for (name, iterations, errors) in [
        ("nginx", 20.0, 0.0),
        ("haproxy", 5.0, 0.0),
        ("f5", 4.0, 1.0),
    ] {
        for key in ["p50", "p95", "p99", "max", "avg"] {
            assert!(tier(name, key).unwrap() > 0.0, "{name} {key}");
        }
        assert_eq!(tier(name, "iterations"), Some(iterations));
        assert_eq!(tier(name, "error_rate"), Some(errors), "{name}");
    }
    assert!(tier("haproxy", "p50").unwrap() >= 40.0);
    assert!(tier("nginx", "p50") < tier("haproxy", "p50"));
    let median = |name: &str| match outcome
        .summary
        .select("http_req_duration", &[("scenario", name)])
    {
        Some(Metric::Trend(durations)) => durations.percentile(50.0).as_nanos() as f64 / 1e6,
        other => panic!("{other:?}"),
    };
    assert_eq!(tier("nginx", "p50"), Some(median("nginx")));
    let text = report::text(&outcome.summary);
    for name in ["nginx", "haproxy", "idle"] {
        assert!(text.contains(name), "{text}");
    }
    // The merged value is computed again.
    let both = Summary::merge(vec![outcome.summary.clone(), outcome.summary.clone()]).unwrap();
    assert_eq!(both.connector_tier["nginx"].iterations, 40);
}

#[test]
fn defect_3_the_summary_says_of_thresholds_what_is_true() {
    let api = Api::start();
    let thresholds = "  http_reqs: [\"count>=3\", \"count>3\"]\n";
    let outcome = run(&lists(thresholds), &api);
    assert_eq!(outcome.verdict, Verdict::Crossed);
    let json = serde_json::to_string(&outcome.summary).unwrap();
    let read: Summary = serde_json::from_str(&json).unwrap();
    let said: Vec<_> = (read.thresholds.iter())
        .map(|it| (it.expression.as_str(), it.passed))
        .collect();
    assert_eq!(
        said,
        [
            ("rate==1", true),
            ("rate==0", true),
            ("count>=3", true),
            ("count>3", false),
            // Thresholds by default.
            ("rate<0.01", true),
            ("rate>=0.99", true),
            ("rate<=0.01", true),
            ("rate<=0.1", true),
            ("rate==0", true)
        ]
    );
    assert_eq!(read.verdict, Verdict::Crossed);
}

#[test]
fn defect_4_what_is_expected_passes_and_html_for_everything_does_not() {
    let api = Api::start();
    passed(&run(
        &rest(5, "url: /nothing/aaaa.bbbb\nexpect: [400, 404]\n"),
        &api,
    ));
    let outcome = run(&rest(5, "url: /list\nexpect: [400, 404]\n"), &api);
    assert_eq!(
        (outcome.verdict, errors(&outcome)),
        (Verdict::Crossed, vec!["status"])
    );

    let checks = "checks: [{ json: /data, type: array }]\n";
    passed(&run(&rest(5, &format!("url: /list\n{checks}")), &api));
    let outcome = run(&rest(5, &format!("url: /html\n{checks}")), &api);
    assert_eq!(
        (outcome.verdict, errors(&outcome)),
        (Verdict::Crossed, vec!["content"])
    );
    assert_eq!(failed(&outcome), ["GET /html: /data is an array"]);
    assert!(outcome.summary.errors[0].details[0].contains("is not JSON"));
    let of_type = "checks: [{ header: content-type, contains: json }]\n";
    let outcome = run(&rest(5, &format!("url: /html\n{of_type}")), &api);
    assert_eq!(failed(&outcome), ["GET /html: content-type contains json"]);
}

#[test]
fn defect_5_a_threshold_over_no_samples_fails() {
    let api = Api::start();
    let thresholds = "  http_req_duration{op:other}: p(95)<60s\n";
    let outcome = run(&lists(thresholds), &api);
    assert_eq!(outcome.verdict, Verdict::Crossed);
    let mut crossed = outcome.summary.thresholds.iter().filter(|it| !it.passed);
    let crossed = crossed.next().unwrap();
    assert_eq!(
        (crossed.passed, crossed.reason.as_deref()),
        (false, Some("no samples"))
    );
}

#[test]
fn defect_6_load_that_was_not_offered_is_noticed() {
    let api = Api::start();
    let arrivals = "executor: constant-arrival-rate\n    rate: 100\n    duration: 1s\n    maxVUs: 1\n    \
                    maxStartDelay: 100ms";
    let plan = scenario("rest", arrivals, &format!("{REST}url: /slow/200\n"), "");
    let outcome = run(&plan, &api);
    // All responses were right, but the run fails.
    assert_eq!(
        (outcome.verdict, errors(&outcome)),
        (Verdict::Crossed, vec![])
    );
    let scenario = &outcome.summary.scenarios[0];
    assert_eq!(scenario.asked, 100);
    assert!(
        scenario.dropped > 50 && scenario.achieved < 0.5,
        "{scenario:?}"
    );
    let crossed: Vec<_> = (outcome.summary.thresholds.iter())
        .filter(|threshold| !threshold.passed)
        .map(|threshold| threshold.metric.as_str())
        .collect();
    assert_eq!(crossed, ["achieved_rate{scenario:s}"]);
}

#[test]
fn jitter_is_no_latency() {
    let api = Api::start();
    let began = Instant::now();
    let outcome = run(&tls(10, "ca: ${CA}\njitter: 200ms\n"), &api);
    let took = began.elapsed();
    passed(&outcome);
    match outcome.summary.total("http_req_duration") {
        // The user waits ten times, for 100 ms on average. These waits are not part of the
        // durations.
        Some(Metric::Trend(durations)) => {
            let all = durations.sum();
            assert!(
                all + Duration::from_millis(500) <= took,
                "{all:?} of {took:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

//! Metrics of a run in progress, and the search for the highest rate.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use lucarne_testkit::{Client, Launch, Signal, check_exposition, temp_dir};
use serde_json::Value as Json;

use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, eventually, lucarne, run};

/// Starts a server that responds to every request, until the process ends. Returns its URL.
pub(crate) fn target() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut request = [0; 4096];
                // A request arrives in one piece here, and the client closes the connection.
                while matches!(stream.read(&mut request), Ok(1..)) {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

#[test]
fn metrics_are_served_during_the_run() {
    let here = temp_dir();
    let mut load = Launch::new(LUCARNE)
        .args([
            "load",
            "rest",
            "--url",
            &target(),
            "--duration=1h",
            "--no-ui",
        ])
        .args(["--rate=50", "--metrics=127.0.0.1:0"])
        .args(["--threshold=http_req_duration: p(95)<60s"])
        .directory(here.path())
        .spawn()
        .unwrap();
    let address = || {
        let said = load.output();
        let (_, rest) = said.split_once("metrics: ")?;
        Some(rest.split_once("/metrics")?.0.to_owned())
    };
    let page = run(async {
        eventually("the address is known", async || address().is_some()).await;
        let client = Client::new(address().unwrap());
        let page = async || client.get("/metrics").await.unwrap().text();
        eventually("there are samples", async || {
            page().await.contains("lucarne_load_http_reqs_total{")
        })
        .await;
        page().await
    });
    check_exposition(&page).unwrap();
    for part in [
        "lucarne_load_http_req_duration_seconds_bucket{op=\"GET /\",scenario=\"rest\",le=\"",
        "lucarne_load_threshold_crossed{threshold=\"http_req_duration: p(95)<60s\"} 0",
        "lucarne_load_series_dropped 0",
    ] {
        assert_has(&page, part);
    }
    load.signal(Signal::TERM).unwrap();
    assert!(load.wait(EVENT_TIMEOUT * 2).unwrap().code().is_some());
}

#[test]
fn a_wrong_address_of_metrics_is_refused() {
    let here = temp_dir();
    let load = |address: &str| {
        let metrics = format!("--metrics={address}");
        lucarne(
            here.path(),
            &["load", "rest", "--url=http://127.0.0.1:9/", &metrics],
        )
    };
    let (code, said) = load("localhost");
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "--metrics: `localhost` has no port; write host:port");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = load(&address);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, &format!("--metrics: cannot listen on {address}: "));
}

#[test]
fn a_build_without_otlp_refuses_the_flag() {
    if cfg!(feature = "otlp") {
        return;
    }
    let here = temp_dir();
    let otlp = "--otlp=http://127.0.0.1:4318";
    let (code, said) = lucarne(
        here.path(),
        &["load", "rest", "--url=http://127.0.0.1:9/", otlp],
    );
    assert_eq!(code, 104, "{said}");
    assert_has(
        &said,
        "--otlp: `http://127.0.0.1:4318` is not supported by this build of lucarne",
    );
}

/// Searches with a plan of two requests in proportion 3 to 1, and these flags.
fn find(executor: &str, flags: &[&str]) -> (i32, String, Option<Json>) {
    find_with(executor, &target(), "", flags)
}

/// Searches with further keys of the plan, and a target of requests.
fn find_with(executor: &str, url: &str, more: &str, flags: &[&str]) -> (i32, String, Option<Json>) {
    let here = temp_dir();
    let scenario = |name: &str, rate: u32| {
        let executor = executor.replace("RATE", &rate.to_string());
        format!(
            "  {name}:\n    scenario: rest\n    {executor}\n    options: {{ url: \"{url}\" }}\n"
        )
    };
    let plan = format!("scenarios:\n{}{}{more}", scenario("a", 3), scenario("b", 1));
    fs::write(here.path().join("plan.yaml"), plan).unwrap();
    let fixed = [
        "load",
        "find",
        "plan.yaml",
        "--step-duration=400ms",
        "--pause=0s",
    ];
    let (code, said) = lucarne(
        here.path(),
        &[&fixed[..], &["--output=curve.json"], flags].concat(),
    );
    let curve = fs::read(here.path().join("curve.json")).ok();
    let curve = curve.map(|curve| serde_json::from_slice(&curve).unwrap());
    (code, said, curve)
}

const BY_RATE: &str = "executor: constant-arrival-rate\n    rate: RATE\n    duration: 60s";
const FAST: &str = "--objective=http_req_duration: p(50)<60s";

#[test]
fn a_search_ends_at_its_highest_rate() {
    let (code, said, curve) = find(BY_RATE, &[FAST, "--from=20", "--to=50", "--threads=2"]);
    let curve = curve.unwrap();
    let rates = curve["steps"].as_array().unwrap().iter();
    let rates: Vec<f64> = rates.map(|step| step["rate"].as_f64().unwrap()).collect();
    // A machine under load can be late, and the search then ends there.
    if code == 99 {
        assert_has(&said, "the load generator was the limit");
        let steps = curve["steps"].as_array().unwrap().iter();
        assert!(
            steps
                .rev()
                .take(3)
                .any(|step| step["result"] == "generator"),
            "{curve}"
        );
        return;
    }
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "highest rate: at least 50/s, the value of --to");
    assert_eq!(
        (&curve["rate"], &curve["atLeast"]),
        (&50.0.into(), &true.into())
    );
    assert_eq!(rates.first(), Some(&20.0));
    assert_eq!(rates.last(), Some(&50.0));
}

#[test]
fn an_objective_that_no_rate_meets_has_no_result() {
    let never = "--objective=http_req_duration: p(50)<0.0001";
    let (code, said, curve) = find(BY_RATE, &[never, "--from=20", "--to=50"]);
    assert_eq!(code, 99, "{said}");
    assert_has(&said, "no result: ");
    assert!(curve.unwrap()["rate"].is_null());
}

#[test]
fn counts_of_the_plan_are_for_its_whole_duration() {
    // The plan has 240 requests, and a step has 8.
    let counts = "thresholds: { http_reqs: count>=200 }\n";
    let flags = [FAST, "--from=20", "--to=20", "--threads=2"];
    let (code, said, curve) = find_with(BY_RATE, &target(), counts, &flags);
    for step in curve.unwrap()["steps"].as_array().unwrap() {
        let is_met = step["crossed"].is_null() || step["result"] == "generator";
        assert!(is_met, "{code} {said}");
    }
}

#[test]
fn a_result_on_standard_output_is_only_json() {
    let here = temp_dir();
    let plan = format!(
        "scenarios:\n  s:\n    scenario: rest\n    {}\n    options: {{ url: \"{}\" }}\n",
        BY_RATE.replace("RATE", "1"),
        target()
    );
    fs::write(here.path().join("plan.yaml"), plan).unwrap();
    let output = Launch::new(LUCARNE)
        .args(["load", "find", "plan.yaml", FAST, "--from=20", "--to=20"])
        .args(["--step-duration=400ms", "--pause=0s", "--output=-"])
        .directory(here.path())
        .run()
        .unwrap();
    let curve: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!curve["steps"].as_array().unwrap().is_empty());
    assert_has(&String::from_utf8_lossy(&output.stderr), "20/s");
}

#[test]
fn wrong_searches_are_refused() {
    let closed = "executor: constant-vus\n    vus: RATE\n    duration: 60s";
    for (executor, flags, expected) in [
        (
            BY_RATE,
            [FAST, "--from=50", "--to=20"],
            "--from: 50/s is above --to, 20/s",
        ),
        (
            BY_RATE,
            [
                "--objective=http_req_duraton: p(99)<5",
                "--from=20",
                "--to=50",
            ],
            "--objective: threshold \"http_req_duraton: p(99)<5\": \"http_req_duraton\" is not a \
             metric of this run; did you mean `http_req_duration`?",
        ),
        (
            closed,
            [FAST, "--from=20", "--to=50"],
            "scenarios.a: `find` changes rates; use `constant-arrival-rate`",
        ),
    ] {
        let (code, said, _) = find(executor, &flags);
        assert_eq!(code, 104, "{said}");
        assert_has(&said, expected);
    }
}

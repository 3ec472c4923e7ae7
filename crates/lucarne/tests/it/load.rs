//! `lucarne load` from end to end: a real log, a plan, every report, and the messages about errors.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use crate::common::load_test::{
    LoadTest, authorities, base64_key, ct_write, load, log_for_load, rows,
};
use crate::common::{EVENT_TIMEOUT, SMALL, assert_has, eventually, lucarne, ready, run};
use lucarne_testkit::{Launch, LogUnderTest, Server, SmallDisk, free_port, temp_dir};
use serde_json::Value;

/// A threshold that even a busy machine meets.
const GENEROUS: &str = "http_req_duration: p(99)<20000";

fn running(settings: &str) -> (LogUnderTest, Server) {
    let log = log_for_load(settings);
    let server = log.start().unwrap();
    run(ready(&log));
    (log, server)
}

/// Returns a plan of a few seconds that writes and reads.
fn plan(log: &LogUnderTest) -> String {
    format!(
        "name: a few seconds
scenarios:
  write:
    scenario: ct-write
    executor: constant-arrival-rate
    rate: 40
    duration: 4s
    tags: {{ part: one }}
    options:
      logUrl: {url}
      origin: {origin}
      logPublicKey: {key}
      roots: {roots}
      precerts: 0.5
  read:
    scenario: ct-read
    executor: constant-vus
    vus: 2
    startTime: 1s
    duration: 3s
    options:
      logUrl: {url}
      origin: {origin}
      logPublicKey: {key}
thresholds:
  'http_req_duration{{scenario:write}}': ['p(99)<20000']
  checks: ['rate>0.999']
  'http_reqs{{part:one}}': ['count>100']
",
        url = log.url(),
        origin = log.origin(),
        key = base64_key(log),
        roots = authorities().display(),
    )
}

/// Runs a plan, with more flags, in a new directory.
fn run_plan(text: &str, more: &[&str]) -> LoadTest {
    let directory = temp_dir();
    fs::write(directory.path().join("plan.yaml"), text).unwrap();
    let args = [&["run", "plan.yaml"], more].concat();
    LoadTest::run(directory, &args)
}

/// Runs a write load of a few seconds, configured by flags.
fn write(log: &LogUnderTest, more: &[&str]) -> LoadTest {
    let (url, origin, key) = (log.url(), log.origin(), base64_key(log));
    let flags = [&["--rate=30", "--duration=3s"], more].concat();
    ct_write(&url, &origin, &key, &flags)
}

/// Returns a counter, summed over all series of a scenario.
fn counter(summary: &Value, metric: &str, scenario: &str) -> u64 {
    let series = rows(summary, "series").into_iter();
    let of = series.filter(|series| tag(series, "scenario") == Some(scenario));
    of.filter_map(|series| series["metrics"][metric]["count"].as_u64())
        .sum()
}

/// Returns the value of a tag. Tags are a map or pairs.
fn tag<'a>(row: &'a Value, name: &str) -> Option<&'a str> {
    if let Some(pairs) = row["tags"].as_array() {
        let pair = pairs.iter().find(|pair| pair[0] == name)?;
        return pair[1].as_str();
    }
    row["tags"][name].as_str()
}

#[test]
fn a_plan_runs_and_everything_is_reported() {
    let (log, mut server) = running("period: 50");
    let text = plan(&log);
    let test = run_plan(&text, &["--html", "report.html", "--tag", "run=first"]);
    assert_eq!(test.code, 0, "{}", test.said);
    assert_eq!(test.findings(), [].into(), "{}", test.said);
    assert_eq!(test.crossed(), [].into());

    let summary = test.summary();
    assert_eq!(summary["schema"], "lucarne-load/1");
    assert_eq!(summary["name"], "a few seconds");
    assert_eq!(summary["verdict"], "passed");
    let scenarios = rows(&summary, "scenarios");
    assert_eq!(scenarios[0]["name"], "write");
    // All of the 160 configured iterations were completed.
    assert_eq!(scenarios[0]["asked"].as_u64(), Some(160));
    assert_eq!(scenarios[0]["completed"].as_u64(), Some(160));
    assert_eq!(counter(&summary, "http_reqs", "write"), 160);
    assert!(counter(&summary, "http_reqs", "read") > 10);
    // Every kind of verification took place.
    for check in [
        "sct_signature",
        "checkpoint_signature",
        "issuer_hash",
        "entry_hash",
    ] {
        let passes: u64 = rows(&summary, "checks")
            .iter()
            .filter(|row| row["name"] == check)
            .map(|row| row["passes"].as_u64().unwrap())
            .sum();
        assert!(passes > 0, "{check} was never checked:\n{}", test.said);
    }
    // The reader compares the times of entries with the checkpoint, although the plan submits them
    // in another scenario.
    let compared = rows(&summary, "checks").into_iter().any(|row| {
        row["name"] == "checkpoint_timestamp"
            && tag(&row, "scenario") == Some("read")
            && row["passes"].as_u64() > Some(0)
    });
    assert!(compared, "{}", test.said);
    // The text report has these words.
    for words in ["http_req_duration", "write", "read", "p(95)"] {
        assert_has(&test.said, words);
    }
    let html = test.file("report.html");
    for words in ["<html", "<script", "a few seconds", "p(99)"] {
        assert!(html.contains(words), "no {words} in report.html");
    }
    assert!(
        !html.contains("src=\"http") && !html.contains("href=\"http"),
        "not self-contained"
    );

    // The audit of the log has the same result.
    let report = run(async { log.audit().unwrap().run().await.unwrap() });
    report.assert_clean();
    let new = scenarios[0]["completed"].as_u64().unwrap();
    assert!(report.size <= new && report.size > new / 2, "{report}");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn the_reports_that_people_know() {
    let (log, _server) = running("period: 50");
    let test = write(&log, &["--report", "vegeta"]);
    assert_eq!(test.code, 0, "{}", test.said);
    for line in [
        "Requests      [total, rate, throughput]",
        "Duration      [total, attack, wait]",
        "Latencies     [min, mean, 50, 90, 95, 99, max]",
        "Bytes In      [total, mean]",
        "Bytes Out     [total, mean]",
        "Success       [ratio]",
        "Status Codes  [code:count]",
        "Error Set:",
    ] {
        assert_has(&test.said, line);
    }
    assert_has(&test.said, "200:90");
    let test = write(&log, &["--report", "k6", "--threshold", GENEROUS]);
    assert_eq!(test.code, 0, "{}", test.said);
    for words in [
        "http_req_duration",
        "p(99)<20000",
        "iterations",
        "dropped_iterations",
    ] {
        assert_has(&test.said, words);
    }
}

/// A goal of leaves ends the run, and the CA is given by files, as in the CT hammer.
#[test]
fn a_goal_of_leaves_by_a_given_authority_ends_the_run() {
    let (log, _server) = running("period: 50");
    let directory = temp_dir();
    let issuer = &crate::common::pki().p256;
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let pkcs8 = issuer.key().to_pkcs8().unwrap();
    let key = lucarne_mint::pem::encode("TEST PRIVATE KEY", &pkcs8);
    let (cert, key) = (
        file("ca.pem", issuer.certificate_pem()),
        file("ca.key", key),
    );
    let (url, origin, public) = (log.url(), log.origin(), base64_key(&log));
    let ct = |goal: &str, runtime: &str| {
        let args = [
            "ct",
            "--log_url",
            &url,
            "--origin",
            &origin,
            "--log_public_key",
            &public,
            "--intermediate_ca_cert_path",
            &cert,
            "--intermediate_ca_key_path",
            &key,
            "--bearer_token=hush",
            "--max_write_ops=100",
            "--num_readers_random=1",
            "--num_readers_full=0",
            "--min-achieved=0",
        ];
        load(
            &[
                &args[..],
                &["--leaf_write_goal", goal, "--max_runtime", runtime],
            ]
            .concat(),
        )
    };
    let test = ct("40", "10m");
    assert_eq!(test.code, 0, "{}", test.said);
    assert_has(
        &test.said,
        "40 entries promised: 40 proven, 0 late, 0 missing",
    );
    assert_eq!(run(size(&log)), 40);
    assert!(!test.file("summary.json").contains("hush"));
    // A goal out of reach: the run ends by its duration.
    let test = ct("1000000", "2s");
    assert_eq!(test.code, 99, "{}", test.said);
    assert_eq!(test.findings(), ["leaf_write_goal".to_owned()].into());
}

#[test]
fn a_crossed_threshold_and_one_without_samples_fail() {
    let (log, _server) = running("period: 50");
    let crossed = "http_req_duration: p(50)<0.001";
    let empty = "http_req_duration{op:none}: p(95)<60000";
    let test = write(&log, &["--threshold", crossed, "--threshold", empty]);
    assert_eq!(test.code, 99, "{}", test.said);
    assert_eq!(test.findings(), [].into());
    let expected = [
        "http_req_duration: p(50)<0.001".to_owned(),
        "http_req_duration{op:none}: p(95)<60000".to_owned(),
    ];
    assert_eq!(test.crossed(), expected.into());
}

#[test]
fn two_runs_are_merged_exactly() {
    let (log, _server) = running("period: 50");
    let [one, two] = [write(&log, &[]), write(&log, &["--issuers", "rsa"])];
    assert_eq!((one.code, two.code), (0, 0), "{}{}", one.said, two.said);
    let paths = [&one, &two].map(|test| test.path().join("summary.json"));
    let [first, second] = paths.each_ref().map(|path| path.to_str().unwrap());
    let directory = temp_dir();
    let (code, said) = lucarne(
        directory.path(),
        &["load", "merge", first, second, "-o", "sum.json"],
    );
    assert_eq!(code, 0, "{said}");
    let merged = read(directory.path(), "sum.json");
    let [a, b] = [&one, &two].map(LoadTest::summary);
    for metric in ["http_reqs", "iterations", "data_sent", "data_received"] {
        let sum = counter(&a, metric, "ct-write") + counter(&b, metric, "ct-write");
        assert!(sum > 0, "{metric}");
        assert_eq!(counter(&merged, metric, "ct-write"), sum, "{metric}");
    }
    // Histograms are added bucket by bucket, so percentiles stay exact.
    let histograms = |text: &Value| {
        let summary: lucarne_load::Summary = serde_json::from_value(text.clone()).unwrap();
        let metric = summary.total("http_req_duration").unwrap();
        metric.trend().unwrap().clone()
    };
    let (mut sum, merged_one) = (histograms(&a), histograms(&merged));
    sum.merge(&histograms(&b));
    assert_eq!(sum.count(), merged_one.count());
    assert_eq!(
        (sum.sum(), sum.min(), sum.max()),
        (merged_one.sum(), merged_one.min(), merged_one.max())
    );
    let buckets = |one: &lucarne_load::Histogram| one.buckets().collect::<Vec<_>>();
    assert_eq!(buckets(&sum), buckets(&merged_one));
    // The order of merging has no influence.
    let (code, said) = lucarne(
        directory.path(),
        &["load", "merge", second, first, "-o", "mus.json"],
    );
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        buckets(&histograms(&read(directory.path(), "mus.json"))),
        buckets(&sum)
    );
}

fn read(directory: &Path, name: &str) -> Value {
    let text = fs::read_to_string(directory.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_baseline_tells_regressions() {
    let (log, _server) = running("period: 50");
    let before = write(&log, &[]);
    assert_eq!(before.code, 0, "{}", before.said);
    let summary = before.path().join("summary.json");
    let baseline = ["--baseline", summary.to_str().unwrap()];
    let lenient = write(
        &log,
        &[&baseline[..], &["--max-regression", "1000"]].concat(),
    );
    assert_eq!(lenient.code, 0, "{}", lenient.said);
    // Every response is seconds late: more than the delay of a busy machine.
    let slow = log_for_load("period: 5000");
    let _slow_server = slow.start().unwrap();
    run(ready(&slow));
    let strict = write(
        &slow,
        &[&baseline[..], &["--max-regression", "1.1"]].concat(),
    );
    assert_eq!(strict.code, 99, "{}", strict.said);
    assert_has(&strict.said, "http_req_duration");
}

#[test]
fn a_killed_and_restarted_log_is_survived_and_the_outage_told() {
    let (log, mut server) = running("period: 50");
    let roots = authorities().display().to_string();
    let directory = temp_dir();
    let mut test = Launch::new(crate::common::LUCARNE)
        .args([
            "load",
            "ct-write",
            "--log-url",
            &log.url(),
            "--origin",
            &log.origin(),
        ])
        .args(["--log-public-key", &base64_key(&log), "--roots", &roots])
        .args(["--rate=30", "--duration=8s", "--expect-restarts", "--no-ui"])
        .args(["--summary", "summary.json"])
        .directory(directory.path())
        .spawn()
        .unwrap();
    run(eventually("there are entries", async || {
        size(&log).await > 60
    }));
    server.kill().unwrap();
    // The outage that must be detected and reported lasts at least this long.
    std::thread::sleep(Duration::from_millis(1200));
    let _again = log.start().unwrap();
    let status = test.wait(Duration::from_secs(90)).unwrap();
    assert_eq!(status.code(), Some(0), "{}", test.output());
    let summary = read(directory.path(), "summary.json");
    let outages = rows(&summary, "series")
        .iter()
        .filter_map(|series| series["metrics"].get("ct_outage").cloned())
        .count();
    assert!(outages > 0, "no outage in the summary:\n{}", test.output());
    assert_has(&test.output().to_lowercase(), "outage");
    run(async { log.audit().unwrap().run().await.unwrap() }).assert_clean();
}

#[test]
fn without_expect_restarts_an_outage_fails_the_run() {
    let (log, mut server) = running("period: 50");
    let url = log.url();
    let (origin, key) = (log.origin(), base64_key(&log));
    let killer = std::thread::spawn(move || {
        // Only one or two entries are submitted before the run begins.
        run(eventually("the run has begun", async || {
            size(&log).await > 10
        }));
        server.kill().unwrap();
    });
    let flags = ["--rate=30", "--duration=3s", "--mmd=1s"];
    let test = ct_write(&url, &origin, &key, &flags);
    killer.join().unwrap();
    assert_eq!(test.code, 99, "{}", test.said);
    assert!(
        test.findings().contains("connect_refused"),
        "{:?}",
        test.findings()
    );
}

async fn size(log: &LogUnderTest) -> u64 {
    let Ok(answer) = log.client().get("checkpoint").await else {
        return 0;
    };
    let text = answer.text();
    text.lines()
        .nth(1)
        .and_then(|size| size.parse().ok())
        .unwrap_or(0)
}

/// Checks that the test ended with this code, without a panic, and printed these words.
#[track_caller]
fn refused(test: &LoadTest, code: i32, words: &[&str]) {
    assert_eq!(test.code, code, "{}", test.said);
    for words in words {
        assert_has(&test.said, words);
    }
    assert!(!test.said.contains("panicked"), "{}", test.said);
}

#[test]
fn a_wrong_key_and_a_wrong_origin_are_refused() {
    let (log, _server) = running("period: 50");
    let other = log_for_load("");
    let briefly = ["--rate=10", "--duration=2s"];
    let ct = |origin: &str, key: &str| ct_write(&log.url(), origin, key, &briefly);
    let (key, origin) = (base64_key(&log), log.origin());
    refused(&ct(&origin, &base64_key(&other)), 104, &["key", &log.url()]);
    refused(
        &ct("log.example/other", &key),
        104,
        &["log.example/other", &origin],
    );
    refused(&ct(&origin, "bm8ga2V5"), 104, &["key", &log.url()]);
    refused(&ct(&origin, "no/such/file.pem"), 104, &["no/such/file.pem"]);
}

#[test]
fn a_target_that_is_no_log_is_refused() {
    let (log, _server) = running("period: 50");
    let roots = authorities().display().to_string();
    let key = base64_key(&log);
    // The server exists, but the path is not a log.
    let url = format!("http://{}/nothing", log.address());
    let by_url = |url: &str, more: &[&str]| {
        let all = [
            "ct-write",
            "--log-url",
            url,
            "--roots",
            &roots,
            "--rate=10",
            "--duration=2s",
        ];
        load(&[&all[..], more].concat())
    };
    refused(&by_url(&url, &[]), 104, &[&url]);
    refused(
        &by_url(&url, &["--origin", "a.example/b", "--log-public-key", &key]),
        104,
        &[&url],
    );
    // A web server is not a log.
    let page = web_server();
    refused(
        &by_url(
            &page,
            &["--origin", "a.example/b", "--log-public-key", &key],
        ),
        104,
        &[&page],
    );
    // The text is not a URL.
    refused(
        &by_url("log.example", &[]),
        104,
        &["log.example", "is not the URL of a server"],
    );
}

/// Starts a server that responds with `<html>` to every request, until the process ends.
fn web_server() -> String {
    use std::io::{Read, Write};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                    let page = "<html>It works!</html>";
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ";
                    let _ = write!(stream, "{head}{}\r\n\r\n{page}", page.len());
                }
            });
        }
    });
    url
}

#[test]
fn an_unreachable_host_is_said() {
    let key = base64_key(&log_for_load(""));
    let briefly = ["--rate=10", "--duration=2s"];
    let at = |url: &str| ct_write(url, "a.example/b", &key, &briefly);
    let nobody = format!("http://127.0.0.1:{}/log", free_port());
    refused(&at(&nobody), 110, &[&nobody, "refused"]);
    let nowhere = "http://no-such-host.invalid/log";
    refused(&at(nowhere), 110, &["no-such-host.invalid"]);
}

#[test]
fn a_plan_with_mistakes_is_refused_before_anything_is_sent() {
    let (log, _server) = running("period: 50");
    let good = plan(&log);
    for (from, to, words) in [
        (
            "executor: constant-vus",
            "executor: constant-vuss",
            &["constant-vuss", "constant-vus"][..],
        ),
        ("precerts: 0.5", "precert: 0.5", &["precert", "precerts"]),
        ("precerts: 0.5", "precerts: 5", &["precerts", "5"]),
        (
            "startTime: 1s",
            "startTime: 1 fortnight",
            &["startTime", "fortnight"],
        ),
        ("rate: 40", "rate: fast", &["rate", "fast"]),
        ("p(99)<20000", "p(99)<<20000", &["p(99)<<20000"]),
        (
            "scenario: ct-read",
            "scenario: ct-reed",
            &["ct-reed", "ct-read"],
        ),
        ("thresholds:", "treshholds:", &["treshholds", "thresholds"]),
        ("vus: 2", "vus: 2\n    vus: 3", &["vus"]),
    ] {
        assert_has(&good, from);
        let bad = good.replacen(from, to, 1);
        let line = bad
            .lines()
            .position(|line| line.contains(to.lines().last().unwrap()))
            .unwrap()
            + 1;
        let test = run_plan(&bad, &[]);
        refused(&test, 104, words);
        assert_has(&test.said, &format!("plan.yaml:{line}"));
        // `check` reports the same problems without running the plan.
        let (code, said) = lucarne(test.path(), &["load", "check", "plan.yaml"]);
        assert_eq!(code, 104, "{said}");
        words.iter().for_each(|words| assert_has(&said, words));
    }
    assert_eq!(run(size(&log)), 0, "nothing was to be submitted");
    let directory = temp_dir();
    fs::write(directory.path().join("plan.yaml"), &good).unwrap();
    let (code, said) = lucarne(directory.path(), &["load", "check", "plan.yaml"]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = lucarne(directory.path(), &["load", "check", "absent.yaml"]);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "absent.yaml");
}

#[test]
fn reports_that_cannot_be_written_are_said() {
    let test = "reports_that_cannot_be_written_are_said";
    let Some(disk) = SmallDisk::inside(test, SMALL) else {
        return;
    };
    let (log, _server) = running("period: 50");
    disk.fill();
    let summary = disk.path().join("full.json").display().to_string();
    let html = disk.path().join("full.html").display().to_string();
    for (flag, file) in [("--summary", &summary), ("--html", &html)] {
        let roots = authorities().display().to_string();
        let (url, origin, key) = (log.url(), log.origin(), base64_key(&log));
        let (code, said) = lucarne(
            temp_dir().path(),
            &[
                "load",
                "ct-write",
                "--log-url",
                &url,
                "--origin",
                &origin,
                "--log-public-key",
                &key,
                "--roots",
                &roots,
                "--rate=20",
                "--duration=1s",
                "--no-ui",
                flag,
                file,
            ],
        );
        assert_eq!(code, 111, "{said}");
        assert_has(&said, file);
        assert_has(&said, "space");
        // The measurements are printed in any case.
        assert_has(&said, "http_req_duration");
        let left = fs::metadata(file).map_or(0, |left| left.len());
        assert_eq!(left, 0, "half a file is left at {file}");
    }
    // A missing directory is reported before the run.
    let (code, said) = lucarne(
        temp_dir().path(),
        &["load", "ct-read", "--html", "no/such/directory/report.html"],
    );
    assert_eq!(code, 111, "{said}");
    assert_has(&said, "no/such/directory/report.html");
}

//! `lucarne load` as a command: usage, invalid plans, reports, exit codes.

use std::fs;
use std::path::Path;

use crate::common::load_test::{authorities, log_for_load};
use crate::common::{EVENT_TIMEOUT, LUCARNE, all, assert_has, lucarne, ready, run};
use lucarne_testkit::{Launch, Signal, free_port, temp_dir};

/// Runs `lucarne load` with these arguments, and returns the exit code and the whole output.
fn load(directory: &Path, args: &[&str]) -> (i32, String) {
    lucarne(directory, &[&["load"], args].concat())
}

fn roots() -> String {
    authorities().display().to_string()
}

#[test]
fn help_says_what_there_is() {
    let here = temp_dir();
    let (code, said) = load(here.path(), &["--help"]);
    assert_eq!(code, 0);
    for command in ["run", "check", "merge", "ct-write", "ct-read", "ct", "s3"] {
        assert_has(&said, &format!("\n  {command} "));
    }
    for command in ["run", "merge", "ct-write", "ct-read", "ct", "s3"] {
        let (code, said) = load(here.path(), &[command, "--help"]);
        assert_eq!(code, 0, "{said}");
        assert_has(&said, "99 a threshold was crossed");
        for flag in ["--summary", "--html", "--baseline", "--report"] {
            assert_has(&said, flag);
        }
    }
    let (_, said) = load(here.path(), &["ct-write", "--help"]);
    for flag in [
        "--rate",
        "--vus",
        "--threshold",
        "--log-url",
        "--issuers",
        "--insecure",
    ] {
        assert_has(&said, flag);
    }
    assert_eq!(load(here.path(), &["ct-write", "--rate", "fast"]).0, 2);
    assert_eq!(
        load(here.path(), &["ct-write", "--rate", "5", "--vus", "5"]).0,
        2
    );
    assert_eq!(
        load(here.path(), &["ct-write", "--threshold", "nonsense"]).0,
        2
    );
}

const TYPOS: &str = "\
scenarios:
  write:
    scenario: ct-wirte
    executor: constant-arrival-rate
    rate: 5
    duraton: 1s
  read:
    scenario: ct-read
    executor: constant-vus
    duration: 10
    options:
      logUrl: http://127.0.0.1:1/
      maxChekpointAge: 5s
";

#[test]
fn a_plan_with_typos_is_explained_and_not_run() {
    let here = temp_dir();
    fs::write(here.path().join("plan.yaml"), TYPOS).unwrap();
    let expected = [
        "plan.yaml:3: scenarios.write.scenario: `ct-wirte` is not a known scenario; did you mean `ct-write`?",
        "plan.yaml:6: scenarios.write.duraton: no such key; did you mean `duration`?",
        "plan.yaml:10: scenarios.read.duration: `10` has no unit: write 10s or 10ms",
        "plan.yaml:13: scenarios.read.options.maxChekpointAge: no such key; did you mean \
         `maxCheckpointAge`?",
    ];
    let (code, said) = load(here.path(), &["check", "plan.yaml"]);
    assert_eq!(code, 104, "{said}");
    for line in expected {
        assert_has(&said, &format!("problem: {line}\n"));
    }
    let (code, said) = load(here.path(), &["run", "plan.yaml"]);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, expected[0]);
    assert_has(&said, "nothing was run");
    let (code, said) = load(here.path(), &["check", "none.yaml"]);
    assert_eq!(code, 104);
    assert_has(&said, "none.yaml: cannot be read");
}

#[test]
fn what_a_right_plan_does_is_said() {
    let here = temp_dir();
    let plan = "scenarios:\n  w:\n    scenario: ct-write\n    executor: constant-arrival-rate\n    \
                rate: 500\n    duration: 60s\n    options: { logUrl: http://127.0.0.1:1/ }\n";
    fs::write(here.path().join("plan.yaml"), plan).unwrap();
    let (code, said) = load(here.path(), &["check", "plan.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "scenario w: ct-write, 500/s for 60s");
    assert_has(&said, "no problems, no warnings");
    // Checking a plan writes no file.
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1);
}

#[test]
fn a_target_that_is_not_there_is_110() {
    let here = temp_dir();
    let url = format!("http://127.0.0.1:{}/log/", free_port());
    let args = ["ct-read", "--log-url", &url, "--duration", "1s", "--no-ui"];
    let (code, said) = load(here.path(), &args);
    assert_eq!(code, 110, "{said}");
    assert_has(&said, &url.trim_end_matches('/')[7..]);
    for twice in ["refused", &url, "lucarne:"] {
        let told = said
            .to_lowercase()
            .matches(twice.trim_end_matches('/'))
            .count();
        assert!(told <= 1, "`{twice}` is said {told} times: {said}");
    }
    let (code, said) = load(here.path(), &["ct-read", "--duration", "1s", "--no-ui"]);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "--log-url");
    // A run without load has a summary, too. `ct` accepts the flags of the hammer.
    let files = ["--summary=s.json", "--text=s.txt"];
    let args = [
        "ct",
        "--log_url",
        &url,
        "--slog_level=-4",
        "--show_ui=false",
    ];
    let (code, said) = load(here.path(), &[&args[..], &files].concat());
    assert_eq!(code, 110, "{said}");
    assert!(!said.contains("SCENARIOS"), "{said}");
    let summary = fs::read_to_string(here.path().join("s.json")).unwrap();
    assert_has(&summary, "\"verdict\":\"unreachable\"");
    let text = fs::read_to_string(here.path().join("s.txt")).unwrap();
    assert_has(&text, "target never reached");
    let (code, said) = load(here.path(), &["merge", "s.json"]);
    assert_eq!(code, 110, "{said}");
}

#[test]
fn targets_come_from_standard_input() {
    let here = temp_dir();
    let args = ["rest", "--targets=-", "--duration=1s", "--no-ui"];
    let (code, said) = load(here.path(), &args);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "targets: -: the file has no request");
    let target = format!("GET http://127.0.0.1:{}/\n", free_port());
    fs::write(here.path().join("targets"), &target).unwrap();
    let output = std::process::Command::new(LUCARNE)
        .arg("load")
        .args(args)
        .stdin(fs::File::open(here.path().join("targets")).unwrap())
        .output()
        .unwrap();
    let said = all(&output);
    assert_eq!(output.status.code(), Some(110), "{said}");
    assert_has(&said, "cannot connect to 127.0.0.1:");
}

#[test]
fn wrong_summaries_do_not_add_up() {
    let here = temp_dir();
    fs::write(here.path().join("no.json"), "{\"schema\": 1}").unwrap();
    for (args, expected) in [
        (&["merge", "none.json"][..], "none.json cannot be read"),
        (&["merge", "no.json", "no.json"], "no.json is not a summary"),
        (
            &["merge", "no.json", "--baseline", "b.json"],
            "b.json cannot be read",
        ),
    ] {
        let (code, said) = load(here.path(), args);
        assert_eq!(code, 104, "{said}");
        assert_has(&said, expected);
    }
    assert_eq!(load(here.path(), &["merge"]).0, 2);
}

/// Runs against a real log, checks the files of the run, and processes them further.
#[test]
fn files_of_a_run_and_what_they_are_good_for() {
    let log = log_for_load("period: 20");
    let _server = log.start().unwrap();
    run(ready(&log));
    let here = temp_dir();
    let (url, roots) = (log.url(), roots());
    let write = |more: &[&str]| {
        let args = [
            "ct-write",
            "--log-url",
            &url,
            "--roots",
            &roots,
            "--issuers",
            "p256",
        ];
        let load_for = [
            "--rate",
            "20",
            "--duration",
            "2s",
            "--min-achieved",
            "0",
            "--no-ui",
        ];
        load(here.path(), &[&args, &load_for[..], more].concat())
    };
    let file = |name: &str| here.path().join(name);
    let (code, said) = write(&["--summary", "a.json", "--html", "a.html"]);
    assert_eq!(code, 0, "{said}");
    for word in ["http_req_duration", "iterations", "checks"] {
        assert_has(&said, word);
    }
    let summary = fs::read_to_string(file("a.json")).unwrap();
    assert_has(&summary, "\"lucarne-load/1\"");
    let page = fs::read_to_string(file("a.html")).unwrap();
    assert_has(&page, "</html>");
    assert_has(&page, "load ct-write");

    // A run compared with itself has no regression.
    let (code, said) = load(here.path(), &["merge", "a.json", "--baseline", "a.json"]);
    assert_eq!(code, 0, "{said}");
    // The start of another run differs.
    let other = summary.replacen("\"started\":", "\"started\":1", 1);
    fs::write(file("other.json"), other).unwrap();
    let (code, said) = load(
        here.path(),
        &["merge", "a.json", "other.json", "-o", "both.json"],
    );
    assert_eq!(code, 0, "{said}");
    // The same run must not count twice, neither by its own summary nor by the merged summary.
    for repeated in [["a.json", "a.json"], ["a.json", "both.json"]] {
        let args = [&["merge"][..], &repeated, &["-o", "again.json"]].concat();
        let (code, said) = load(here.path(), &args);
        assert_eq!(code, 104, "{said}");
        assert_has(&said, "has the same run as a.json: name each run once");
        assert!(!file("again.json").exists());
    }
    // A damaged part is named.
    for (key, wrong, expected) in [
        (
            "asked",
            serde_json::json!(u64::MAX),
            "asked of scenario \"ct-write\" is 18446744073709551615",
        ),
        (
            "duration",
            serde_json::json!(-1),
            "scenarios.duration is -1",
        ),
    ] {
        let mut damaged: serde_json::Value = serde_json::from_str(&summary).unwrap();
        damaged["scenarios"][0][key] = wrong;
        fs::write(file("damaged.json"), damaged.to_string()).unwrap();
        let (code, said) = load(here.path(), &["merge", "a.json", "damaged.json"]);
        assert_eq!(code, 104, "{said}");
        assert_has(&said, &format!("damaged.json: {expected}"));
    }
    // A summary of others does not command the terminal, neither by a report nor by an error.
    let evil = summary.replace("ct-write", "ct\\u001b[2J\\u009b2Jwrite");
    fs::write(file("evil.json"), &evil).unwrap();
    let huge = format!("\"asked\":{},\"was\":", u64::MAX);
    fs::write(file("worse.json"), evil.replacen("\"asked\":", &huge, 1)).unwrap();
    for (args, expected) in [
        (&["merge", "evil.json"][..], 0),
        (&["merge", "evil.json", "--summary=-"], 0),
        (&["merge", "evil.json", "--baseline=evil.json"], 0),
        (&["merge", "worse.json"], 104),
    ] {
        let (code, said) = load(here.path(), args);
        assert_eq!(code, expected, "{said}");
        assert_has(&said, r"ct\u001b[2J\u009b2Jwrite");
        assert!(!said.contains(['\u{1b}', '\u{9b}']), "{said:?}");
    }
    assert_has(
        &fs::read_to_string(file("both.json")).unwrap(),
        "\"lucarne-load/1\"",
    );

    // One threshold cannot hold, and another has no such metric.
    let (code, said) = write(&[
        "--threshold",
        "http_req_duration: max<0.001",
        "--report",
        "vegeta",
    ]);
    assert_eq!(code, 99, "{said}");
    for word in ["Requests      [total, rate, throughput]", "Status Codes"] {
        assert_has(&said, word);
    }
    let (code, said) = write(&["--threshold", "http_req_duraton: p(95)<500"]);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "did you mean `http_req_duration`?");
    assert_eq!(write(&["--threshold", "ct_accepted: p(95)<5"]).0, 104);

    // An output that cannot be written is reported before the run, not after hours.
    for (flags, words) in [
        (
            &["--summary", "no/such/place.json"][..],
            "no/such/place.json",
        ),
        (&["--html", "."], ". cannot be written"),
        (
            &["--summary", "b.json", "--text", "b.json"],
            "b.json is given for two outputs",
        ),
    ] {
        let (code, said) = write(flags);
        assert_eq!(code, 111, "{said}");
        assert_has(&said, words);
        assert_has(&said, "nothing was run");
        assert!(!said.contains("http_req_duration"), "{said}");
    }
    // `-q` suppresses the progress lines.
    let (code, said) = write(&["-q"]);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("busy="), "{said}");
    if Path::new("/dev/full").exists() {
        let (code, said) = write(&["--html", "/dev/full"]);
        assert_eq!(code, 111, "{said}");
        assert_has(&said, "/dev/full cannot be written");
    }
}

/// The proxy is the reason even if this machine cannot resolve the host.
#[test]
fn a_target_behind_a_proxy_of_the_environment_is_refused() {
    let here = temp_dir();
    let output = Launch::new(LUCARNE)
        .args(["load", "rest", "--url", "http://host.invalid/"])
        .args(["--rate", "1", "--duration", "1s"])
        .env("http_proxy", "")
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("NO_PROXY", "")
        .env("no_proxy", "")
        .directory(here.path())
        .run()
        .unwrap();
    let said = all(&output);
    assert_eq!(output.status.code(), Some(104), "{said}");
    assert_has(&said, "would be reached through the proxy of HTTP_PROXY");
}

#[test]
fn ctrl_c_reports_what_there_is() {
    let log = log_for_load("period: 20");
    let _server = log.start().unwrap();
    run(ready(&log));
    let here = temp_dir();
    let mut run = Launch::new(LUCARNE)
        .args([
            "load",
            "ct-write",
            "--log-url",
            &log.url(),
            "--roots",
            &roots(),
        ])
        .args([
            "--issuers",
            "p256",
            "--rate",
            "20",
            "--duration",
            "10m",
            "--no-ui",
        ])
        .args(["--summary", "s.json"])
        .directory(here.path())
        .spawn()
        .unwrap();
    // The report needs some requests of a run that would take minutes.
    crate::common::run(crate::common::eventually(
        "requests are answered",
        async || run.output().contains("p50="),
    ));
    run.signal(Signal::INT).unwrap();
    let status = run.wait(EVENT_TIMEOUT * 2).unwrap();
    let said = run.output();
    assert_eq!(status.code(), Some(105), "{said}");
    assert_has(&said, "SIGINT: no new iterations begin");
    assert_has(&said, "http_req_duration");
    assert!(here.path().join("s.json").exists());
}

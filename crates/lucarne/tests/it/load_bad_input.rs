//! Messages and exit codes of `lucarne load` for invalid plans and targets.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

use crate::common::{LUCARNE, assert_has, lucarne, pki};
use lucarne_mint::LeafOptions;
use lucarne_testkit::{Launch, free_port, temp_dir, tls_server};

fn load(directory: &Path, args: &[&str]) -> (i32, String) {
    lucarne(directory, &[&["load"], args].concat())
}

/// Returns a plan of one scenario `s` with these options, for one second at 10/s.
fn plan(kind: &str, options: &str, thresholds: &str) -> String {
    format!(
        "scenarios:\n  s:\n    scenario: {kind}\n    executor: constant-arrival-rate\n    rate: 10\n    \
         duration: 1s\n    options:\n{options}thresholds:\n  http_req_failed: rate<0.01\n{thresholds}"
    )
}

/// Checks and runs a plan. Returns both exit codes and the output of both.
fn check_and_run(yaml: &str) -> (i32, i32, String) {
    let here = temp_dir();
    fs::write(here.path().join("plan.yaml"), yaml).unwrap();
    let (checked, mut said) = load(here.path(), &["check", "plan.yaml"]);
    let (ran, more) = load(here.path(), &["run", "plan.yaml", "--no-ui"]);
    said.push_str(&more);
    (checked, ran, said)
}

/// Starts a server with a certificate of the test authorities, which responds with 200 and `{}` to
/// every request, until the process ends.
fn https() -> String {
    let options = LeafOptions::for_names(["localhost"]).unwrap();
    let leaf = pki().root.issue(&options).unwrap();
    let config = tls_server(&[leaf], &options.key, &[]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let config = config.clone();
            std::thread::spawn(move || {
                let session = rustls::ServerConnection::new(config).unwrap();
                let mut stream = rustls::StreamOwned::new(session, stream.unwrap());
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
fn plans_that_make_no_sense() {
    for (kind, options, expected) in [
        (
            "rest",
            "      vars: { name: \"x-{{unique}}\" }\n      url: http://127.0.0.1:1/{{nmae}}\n",
            "`{{nmae}}` is not a known value; did you mean `{{name}}`?",
        ),
        (
            "rest",
            "      url: http://127.0.0.1:1/\n      headers: { Authorization: \"Bearer ${NO_SUCH_TOKEN}\" }\n",
            "plan.yaml:9: the environment has no NO_SUCH_TOKEN: set NO_SUCH_TOKEN",
        ),
        (
            "rest",
            "      url: http://127.0.0.1:1/\n      exepct: 200\n",
            "scenarios.s.options.exepct: no such key; did you mean `expect`?",
        ),
        (
            "rest",
            "      steps:\n        - { name: a, url: /x }\n",
            "steps[0].url: `/x` has no scheme (https://), and there is no `baseUrl`",
        ),
        (
            "rest",
            "      url: http://127.0.0.1:1/\n      json: '{\"a\": }'\n",
            "is not JSON",
        ),
        (
            "rest",
            "      { url: \"http://127.0.0.1:1/o k\" }\n",
            "plan.yaml:8: scenarios.s.options: url: a URL cannot contain ' ': write %20",
        ),
        (
            "tls",
            "      url: https://127.0.0.1:1/\n      path: /o k\n",
            "path: a URL cannot contain ' ': write %20",
        ),
        (
            "tls",
            "      url: http://127.0.0.1:1/\n",
            "must begin with https://",
        ),
        ("tls", "      path: /\n", "`url` in a plan) is missing"),
    ] {
        let (checked, ran, said) = check_and_run(&plan(kind, options, ""));
        assert_eq!((checked, ran), (104, 104), "{said}");
        assert_has(&said, expected);
        assert_has(&said, "nothing was run");
    }
}

#[test]
fn targets_that_cannot_be_reached() {
    let nobody = format!("https://localhost:{}", free_port());
    let server = https();
    for (kind, url, more, code, expected) in [
        (
            "rest",
            "https://nowhere.invalid/",
            "",
            110,
            "cannot find the address of `nowhere.invalid`",
        ),
        (
            "tls",
            "https://nowhere.invalid/",
            "",
            110,
            "cannot find the address of `nowhere.invalid`",
        ),
        (
            "rest",
            &nobody,
            "",
            110,
            "cannot be reached: cannot connect to",
        ),
        (
            "tls",
            &nobody,
            "",
            110,
            "cannot be reached: cannot connect to",
        ),
        (
            "rest",
            &server,
            "",
            110,
            "an issuer that is not trusted: name its root (--ca)",
        ),
        (
            "rest",
            &server,
            "      ca: none.pem\n",
            104,
            "cannot use the certificates in none.pem",
        ),
        (
            "rest",
            &server,
            "      cipherSuites: TLS_AES_128_GCM_SHA265\n",
            104,
            "did you mean `TLS_AES_128_GCM_SHA256`?",
        ),
        (
            "rest",
            &server,
            "      insecure: true\n",
            0,
            "http_req_duration",
        ),
        ("tls", &server, "", 99, "certificate_chain"),
        (
            "tls",
            &server,
            "      insecure: true\n",
            0,
            "http_req_tls_handshaking",
        ),
    ] {
        let options = format!("      url: {url}\n{more}");
        let (checked, ran, said) = check_and_run(&plan(kind, &options, ""));
        assert_eq!((checked, ran), (0, code), "{kind} {url} {more}: {said}");
        assert_has(&said, expected);
    }
}

#[test]
fn a_threshold_on_a_metric_that_does_not_exist() {
    let options = format!("      url: {}\n      insecure: true\n", https());
    let thresholds = "  http_req_duraton: p(95)<500\n  no_such_thing: count>0\n";
    let (checked, ran, said) = check_and_run(&plan("rest", &options, thresholds));
    assert_eq!((checked, ran), (104, 104), "{said}");
    assert_has(&said, "did you mean `http_req_duration`?");
    assert_has(&said, "\"no_such_thing\" is not a metric of this run");
}

/// Checks and scenarios of flags are refused before the first request, like those of a plan.
#[test]
fn a_name_in_a_flag_that_does_not_exist() {
    let here = temp_dir();
    let url = format!("http://127.0.0.1:{}/", free_port());
    let run = |flag: &str, name: &str| {
        let args = [
            "rest",
            "--url",
            &url,
            "--duration",
            "1s",
            "--no-ui",
            flag,
            name,
        ];
        load(here.path(), &args)
    };
    for (flag, name, expected) in [
        (
            "--threshold",
            "http_reqs{scenario:typo}: count>0",
            "threshold \"http_reqs{scenario:typo}: count>0\": there is no scenario `typo`; expected \
             one of rest",
        ),
        (
            "--allow",
            "nosuch",
            "--allow \"nosuch\": no scenario has this check; the checks are GET /: status is 2xx",
        ),
    ] {
        let (code, said) = run(flag, name);
        assert_eq!(code, 104, "{said}");
        assert_has(&said, expected);
    }
    // Valid names reach the target, which does not exist.
    assert_eq!(run("--allow", "GET /: status is 2xx").0, 110);
    assert_eq!(
        run("--threshold", "http_reqs{scenario:rest}: count>0").0,
        110
    );
}

#[test]
fn one_request_by_flags_and_a_secret_that_is_not_told() {
    let here = temp_dir();
    let url = https();
    let args = [
        "rest",
        "--url",
        &url,
        "--insecure",
        "--rate",
        "20",
        "--duration",
        "1s",
        "--no-ui",
    ];
    let more = [
        "--header",
        "Authorization: Bearer hush",
        "--expect",
        "200,201",
        "--summary",
        "s.json",
    ];
    let (code, said) = load(
        here.path(),
        &[&args[..], &more, &["--text", "s.txt"]].concat(),
    );
    assert_eq!(code, 0, "{said}");
    let summary = fs::read_to_string(here.path().join("s.json")).unwrap();
    assert!(!summary.contains("hush"), "{summary}");
    let text = fs::read_to_string(here.path().join("s.txt")).unwrap();
    assert_has(&text, "http_req_duration");
    let (code, said) = load(here.path(), &[&args[..], &["--expect", "201"]].concat());
    assert_eq!(code, 99, "{said}");
    assert_has(&said, "expected status 201, found 200");
    assert_eq!(
        load(here.path(), &[&args[..], &["--expect", "ok"]].concat()).0,
        2
    );
}

/// `quick` does not shorten runs of less than 20 seconds, and a plan can use the environment of the
/// command.
#[test]
fn quick_runs() {
    let here = temp_dir();
    let yaml = plan("rest", "      url: ${TARGET}\n      insecure: true\n", "");
    fs::write(here.path().join("plan.yaml"), yaml).unwrap();
    let output = Launch::new(LUCARNE)
        .args(["load", "quick", "plan.yaml", "--no-ui"])
        .env("TARGET", https())
        .directory(here.path())
        .run()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        crate::common::all(&output)
    );
    assert_has(&crate::common::all(&output), "10/s for 1s");
}

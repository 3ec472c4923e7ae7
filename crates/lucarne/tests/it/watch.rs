//! `lucarne watch` and `lucarne ca`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{
    EVENT_TIMEOUT, LUCARNE, assert_has, log, lucarne, pki, ready, run, submission,
};
use lucarne_testkit::{Launch, Signal, free_port, temp_dir};
use serde_json::Value;

fn watch(args: &[&str]) -> (i32, String) {
    lucarne(temp_dir().path(), &[&["watch"], args].concat())
}

#[test]
fn one_look_says_size_and_age() {
    let log = log("period: 20");
    let _server = log.start().unwrap();
    run(ready(&log));
    let (code, said) = watch(&[&log.url(), "--once", "--json"]);
    assert_eq!(code, 0, "{said}");
    let line: Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!(line["size"], 0);
    assert!(line["ageMs"].is_u64() && line["growth"].is_null(), "{said}");

    let (code, said) = watch(&[&log.url(), "--once", "--stale-after", "0"]);
    assert!(code == 3 || said.contains(" 0.0 s old"), "{code}: {said}");
    let (code, said) = watch(&[&log.url(), "--once", "--origin", "another.example/log"]);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "origin");
    let another = crate::common::log("");
    let stranger = base64_simd::STANDARD.encode_to_string(another.public_key());
    let (code, said) = watch(&[&log.url(), "--once", "--log-public-key", &stranger]);
    assert_eq!(code, 104, "{said}");
}

#[test]
fn a_log_that_is_away_or_is_none() {
    let url = format!("http://127.0.0.1:{}/log/", free_port());
    let (code, said) = watch(&[&url, "--once"]);
    assert_eq!(code, 110, "{said}");
    let (code, said) = watch(&["ftp://127.0.0.1/", "--once"]);
    assert_eq!(code, 104, "{said}");
    assert_eq!(watch(&[]).0, 2);
}

#[test]
fn growth_is_told_and_staleness_ends_it() {
    let log = log("period: 20");
    let mut server = log.start().unwrap();
    run(ready(&log));
    let mut watching = Launch::new(LUCARNE)
        .args([
            "watch",
            &log.url(),
            "--json",
            "--every",
            "50ms",
            "--stale-after",
            "8s",
        ])
        .spawn()
        .unwrap();
    watching
        .wait_for_output("\"size\":0", EVENT_TIMEOUT)
        .unwrap();
    let client = log.client();
    for _ in 0..3 {
        let body = submission(&pki().root);
        let answer = run(client.post("ct/v1/add-chain", body)).unwrap();
        assert_eq!(answer.status, 200);
    }
    let line = watching
        .wait_for_output("\"size\":3", EVENT_TIMEOUT)
        .unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert!(line["growth"].as_u64() >= Some(1), "{line}");
    server.stop(EVENT_TIMEOUT).unwrap();
    let status = watching.wait(EVENT_TIMEOUT * 2).unwrap();
    assert_eq!(status.code(), Some(3), "{}", watching.output());
    assert_has(&watching.output(), "stale: the newest checkpoint is");
}

#[test]
fn a_signal_ends_it_well() {
    let log = log("period: 20");
    let _server = log.start().unwrap();
    run(ready(&log));
    let mut watching = Launch::new(LUCARNE)
        .args(["watch", &log.url()])
        .spawn()
        .unwrap();
    watching.wait_for_output(" old", EVENT_TIMEOUT).unwrap();
    watching.signal(Signal::INT).unwrap();
    assert_eq!(watching.wait(EVENT_TIMEOUT).unwrap().code(), Some(0));
}

#[test]
fn authorities_are_made_once_and_kept_secret() {
    let here = temp_dir();
    let made = |args: &[&str]| lucarne(here.path(), &[&["ca"], args].concat());
    let (code, said) = made(&["show", "ca"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "lucarne ca new ca");
    let (code, said) = made(&["new", "ca"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "created ca");
    assert_has(&said, "extraroots: ");
    let directory = here.path().join("ca");
    let roots = fs::read_to_string(directory.join("roots.pem")).unwrap();
    assert!(!roots.contains("PRIVATE KEY"));
    for file in fs::read_dir(&directory).unwrap() {
        let path = file.unwrap().path();
        let secret = fs::read_to_string(&path).unwrap().contains("PRIVATE KEY");
        assert!(!secret || mode(&path) == 0o600, "{}", path.display());
    }
    let (code, said) = made(&["new", "ca"]);
    assert_eq!(code, 0);
    assert_has(&said, "kept ca");
    let (code, said) = made(&["show", "ca"]);
    assert_eq!(code, 0);
    assert_has(&said, &roots);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

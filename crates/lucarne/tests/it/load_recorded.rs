//! Plans from recorded sessions and access logs.
#![allow(clippy::unwrap_used)]

use std::fs;

use lucarne_testkit::{Launch, temp_dir};
use serde_json::{Value as Json, json};

use crate::common::{LUCARNE, all, assert_has, lucarne};

/// Runs a command on a file with this content. Returns its exit code, its output, and the plan.
pub(crate) fn written(
    command: &str,
    content: &[u8],
    flags: &[&str],
) -> (i32, String, Option<String>) {
    let here = temp_dir();
    fs::write(here.path().join("recording"), content).unwrap();
    let fixed = ["load", command, "recording", "-o", "plan.yaml"];
    let (code, said) = lucarne(here.path(), &[&fixed, flags].concat());
    let plan = fs::read_to_string(here.path().join("plan.yaml")).ok();
    if plan.is_some() {
        let checked = Launch::new(LUCARNE)
            .args(["load", "check", "plan.yaml"])
            .env("RECORDED_AUTHORIZATION", "Bearer x")
            .env("RECORDED_PASSWORD", "x")
            .env("RECORDED_TOKEN", "x")
            .env("BASE_URL", "http://localhost")
            .directory(here.path())
            .run()
            .unwrap();
        assert_eq!(
            checked.status.code(),
            Some(0),
            "{plan:?}\n{}",
            all(&checked)
        );
    }
    (code, said, plan)
}

fn entry(method: &str, url: &str, started: &str, status: i64) -> Json {
    json!({
        "startedDateTime": started, "time": 100.0,
        "request": { "method": method, "url": url, "headers": [
            { "name": ":authority", "value": "a.test" },
            { "name": "Accept", "value": "text/html" },
            { "name": "Authorization", "value": "Bearer hush" },
            { "name": "Cookie", "value": "hush" },
        ] },
        "response": { "status": status, "headers": [] },
    })
}

fn har(entries: Json) -> Vec<u8> {
    json!({ "log": { "version": "1.2", "entries": entries } })
        .to_string()
        .into_bytes()
}

#[test]
fn a_browser_session_becomes_steps() {
    let at = |second: u32| format!("2026-11-28T15:00:{second:02}.000Z");
    let mut login = entry("POST", "https://a.test/login", &at(4), 302);
    login["request"]["postData"] = json!({
        "mimeType": "application/json", "text": "{\"name\": \"me\", \"password\": \"hush\"}",
    });
    login["response"]["headers"] = json!([{ "name": "Set-Cookie", "value": "s=1" }]);
    let entries = json!([
        entry("GET", "https://a.test/?q=${x}", &at(0), 200),
        entry("GET", "https://cdn.test/x.js", &at(0), 200),
        login,
        entry("GET", "https://a.test/", &at(5), 200),
        entry("GET", "https://a.test/blocked", &at(5), 0),
    ]);
    let (code, said, plan) = written("from-har", &har(entries.clone()), &[]);
    let plan = plan.unwrap();
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "left out 2 requests");
    assert!(
        !plan.contains("hush") && !plan.contains("cdn.test"),
        "{plan}"
    );
    for part in [
        "baseUrl: \"https://a.test\"",
        "cookies: user",
        "- name: \"GET /\"",
        "- name: \"GET / (2)\"",
        "${RECORDED_AUTHORIZATION}",
        "${RECORDED_PASSWORD}",
        "expect: [302]",
        "thinkTime: 3900ms",
    ] {
        assert_has(&plan, part);
    }
    let (_, _, plan) = written("from-har", &har(entries), &["--include", "cdn.test"]);
    assert_has(&plan.unwrap(), "url: \"https://cdn.test/x.js\"");
}

#[test]
fn credentials_of_a_session_stay_out_of_the_plan() {
    let mut form = entry("POST", "https://me:hush@a.test/login", "", 200);
    form["request"]["headers"] = json!([
        { "name": "Referer", "value": "https://a.test/?token=hush" },
        { "name": "Accept", "value": "text/html" },
        { "name": "accept", "value": "text/plain" },
    ]);
    form["request"]["postData"] = json!({
        "mimeType": "application/x-www-form-urlencoded",
        "params": [{ "name": "user", "value": "a b" }, { "name": "password", "value": "hush" }],
    });
    let (code, said, plan) = written("from-har", &har(json!([form])), &[]);
    let plan = plan.unwrap();
    assert_eq!(code, 0, "{said}");
    assert!(!plan.contains("hush"), "{plan}");
    for part in [
        "baseUrl: \"https://a.test\"",
        "\"Accept\": \"text/html, text/plain\"",
        "body: \"user=a+b&password=${RECORDED_PASSWORD}\"",
        "\"Referer\": \"https://a.test/?token=${RECORDED_TOKEN}\"",
    ] {
        assert_has(&plan, part);
    }
}

#[test]
fn files_that_are_no_session_are_refused() {
    let file = har(json!([entry("GET", "file:///etc/passwd", "", 200)]));
    for (content, expected) in [
        (
            b"{\"log\": {\"entries\": \"\xff\"}}".to_vec(),
            "line 1 is not UTF-8 text",
        ),
        (b"{\"log\": {}}".to_vec(), "has no `log.entries`"),
        (b"{}".to_vec(), "has no `log.entries`"),
        (b"<html>".to_vec(), "is not a HAR file: "),
        (
            file,
            "log.entries[0].request.url: `file:///etc/passwd` is not an http or https URL",
        ),
    ] {
        let (code, said, plan) = written("from-har", &content, &[]);
        assert_eq!((code, plan), (104, None), "{said}");
        assert_has(&said, expected);
    }
    // A sparse file takes no space.
    let here = temp_dir();
    let large = fs::File::create(here.path().join("large.har")).unwrap();
    large.set_len(2 << 30).unwrap();
    let (code, said) = lucarne(here.path(), &["load", "from-har", "large.har"]);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "large.har: cannot be read: ");
}

#[test]
fn an_access_log_becomes_weighted_requests() {
    let line = |second: u32, request: &str, status: u16| {
        format!(
            "192.0.2.1 - - [28/Nov/2026:15:00:{second:02} +0000] \"{request}\" {status} 5 \"-\" \
             \"x\"\n"
        )
    };
    let mut log = String::new();
    for second in 0..=10 {
        log += &line(second, "GET /list?token=hush HTTP/1.1", 200);
    }
    log += &line(10, "GET /a HTTP/1.1", 404);
    log += &line(10, "GET /a HTTP/1.1", 304);
    log += &line(10, "POST /a HTTP/1.1", 200);
    log += &line(10, "GET http://other.test/ HTTP/1.1", 200);
    log += "nonsense\n";
    let (code, said, plan) = written("from-access-log", log.as_bytes(), &[]);
    let plan = plan.unwrap();
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "left out 3 lines");
    assert!(
        !plan.contains("hush") && !plan.contains("other.test"),
        "{plan}"
    );
    for part in [
        "rate: 1.300",
        "baseUrl: ${BASE_URL}",
        "url: \"/list?token=${RECORDED_TOKEN}\"",
        "weight: 11",
        "expect: [304, 404]",
    ] {
        assert_has(&plan, part);
    }
    let (code, said, plan) = written("from-access-log", b"nonsense\n", &[]);
    assert_eq!((code, plan), (104, None), "{said}");
    assert_has(
        &said,
        "recording: has no GET or HEAD request in the combined format",
    );
}

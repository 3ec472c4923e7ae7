//! Prefixes of logs: `init` accepts a prefix only if `serve` serves it and curl reaches it. Any
//! other prefix is rejected before a key is bound to it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use lucarne_testkit::{LogUnderTest, Server};

use crate::common::{LUCARNE, assert_has, edit, pki, ready, run};

fn prepared(prefix: &str) -> LogUnderTest {
    let roots = pki().root.certificate_pem();
    let log = LogUnderTest::prepare(LUCARNE, &roots, "").unwrap();
    let own = format!("http://127.0.0.1:{}/test", log.address().port());
    edit(&log.configuration(), &own, prefix);
    log
}

/// Returns the response to curl at this prefix, from the address of the test server.
fn curl(log: &LogUnderTest, prefix: &str) -> String {
    let address = log.address();
    let connect = format!("::{}:{}", address.ip(), address.port());
    let output = Command::new("curl")
        .args(["-sS", "--fail", "--connect-to", &connect])
        .arg(format!("{prefix}/checkpoint"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{prefix}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn started(log: &LogUnderTest) -> Server {
    let init = log.launch("init").run().unwrap();
    assert!(init.status.success(), "{init:?}");
    let server = log.start().unwrap();
    run(ready(log));
    server
}

#[test]
fn what_init_takes_is_served_and_reached() {
    for prefix in [
        "http://ct.example",
        "http://ct.example:8080/2026h1",
        "http://xn--bcher-kva.example/2026.h1/_-~x",
        "http://ct_log:8080/a/..b/c..",
        "http://[::1]:8080/2026h1",
        "http://192.0.2.1/!$&'()*,;=:/2026h1",
    ] {
        let log = prepared(prefix);
        let _server = started(&log);
        let origin = prefix.strip_prefix("http://").unwrap();
        assert_has(&curl(&log, prefix), &format!("{origin}\n"));
    }
}

#[test]
fn what_is_not_reached_is_refused_before_a_key_is_bound_to_it() {
    for (prefix, why) in [
        ("http://bücher.example/a", "xn--"),
        ("http://ct.example/é", "has `é` in its path"),
        ("http://ct.example/a/../2026", "has the path element `..`"),
        ("http://ct.example/a%2fb", "has `%` in its path"),
        ("http://ct.example/{a}", "has `{` in its path"),
        ("http://1.2.3/a", "has a number as its host"),
        ("http://ct..example/a", "invalid host name"),
        ("http://ct.example:0/a", "from 1 to 65535"),
        ("http://ct.example:80/a", "remove the port"),
        ("http://ct.example./a", "remove the dot"),
    ] {
        let log = prepared(prefix);
        let init = log.launch("init").run().unwrap();
        let said = String::from_utf8_lossy(&init.stderr).into_owned();
        assert_eq!(init.status.code(), Some(1), "{prefix}: {said}");
        assert_has(&said, why);
        assert!(!published(log.path()), "{prefix}");
    }
}

/// A log that an earlier version created with a prefix that is rejected now still runs.
#[test]
fn a_log_that_exists_keeps_what_clients_leave_out() {
    let own = "http://ct.example/a";
    let log = prepared(own);
    edit(&log.configuration(), own, "http://ct.example:8080/a");
    drop(started(&log));
    // 8080 stands for a default port that an earlier version kept. The log exists, so no log is
    // created.
    let odd = "http://ct.example.:8080/a";
    edit(
        &log.configuration(),
        "monitoringprefix: http://ct.example:8080/a",
        &format!("monitoringprefix: {odd}"),
    );
    let _server = log.start().unwrap();
    run(ready(&log));
    assert_has(&curl(&log, odd), "ct.example:8080/a\n");
}

fn published(directory: &Path) -> bool {
    fs::exists(directory.join("data/checkpoint")).unwrap()
}

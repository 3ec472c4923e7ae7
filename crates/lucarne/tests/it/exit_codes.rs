//! The exit codes of `lucarne check`, and the systemd unit that uses them.
#![allow(clippy::unwrap_used)]

use std::fs;

use lucarne_testkit::{Bucket, Launch, Place, free_port, temp_dir};

use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, edit, pki, run, submission};

/// The arguments of `ExecStartPre=` in docs/how-to/lucarne.service, with a test's configuration.
fn before_start() -> Vec<&'static str> {
    let unit = include_str!("../../../../docs/how-to/lucarne.service");
    let command = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStartPre=/usr/local/bin/lucarne "))
        .unwrap();
    let arguments = command.split(' ');
    arguments
        .map(|argument| argument.strip_prefix("/etc/lucarne/").unwrap_or(argument))
        .collect()
}

/// Runs `check` and the unit's command. Returns both exit codes, and the output of `check`.
fn check(site: &Site) -> (i32, i32, String) {
    let (code, said) = site.lucarne(&["check"]);
    (code, site.lucarne(&before_start()).0, said)
}

/// A collector of JSON lines also reads why a service does not start.
#[test]
fn the_last_line_of_a_service_is_json_like_the_others() {
    let directory = temp_dir();
    fs::write(directory.path().join("wrong.yaml"), "listne: a\n").unwrap();
    for arguments in [
        &["serve", "-c", "missing.yaml"][..],
        &["serve", "-c", "wrong.yaml"],
        &["proxy", "--no-ui", "-c", "wrong.yaml"],
        &["signer", "-c", "missing.yaml"],
        &["serve", "--log", "verbos"],
        &["serve", "--bogus"],
    ] {
        let arguments = [arguments, &["--log-format", "json"]].concat();
        let launch = Launch::new(LUCARNE).args(&arguments);
        let output = launch.directory(directory.path()).run().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let lines = String::from_utf8(output.stderr).unwrap();
        assert!(!lines.is_empty(), "{arguments:?}");
        for line in lines.lines() {
            let json: serde_json::Value = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{arguments:?}: {line}: {error}"));
            assert_eq!(json["level"], "ERROR", "{line}");
            assert!(json["message"].is_string(), "{line}");
        }
    }
}

#[test]
fn the_unit_starts_unless_the_process_would_not() {
    let site = Site::create([("ill", String::new()), ("well", String::new())]);
    let (code, unit, said) = check(&site);
    assert_eq!((code, unit), (0, 0), "{said}");

    fs::rename(site.data("ill"), site.path().join("elsewhere")).unwrap();
    let (code, unit, said) = check(&site);
    assert_eq!((code, unit), (3, 0), "{said}");
    assert_has(&said, "log problem: ");
    assert_has(&said, "mount or restore the directory");
    assert_has(&said, "no problems, 1 log problem, ");
    let mut server = site.start();
    run(async {
        site.reaches("ill", "stopped").await;
        site.ready("well").await;
        let client = site.client_of("well");
        let response = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(response.await.unwrap().status, 200);
    });
    server.stop(EVENT_TIMEOUT).unwrap();

    // A log that was never created stops only itself; without any log, the server does not start.
    site.forget("ill");
    let (code, unit, said) = check(&site);
    assert_eq!((code, unit), (3, 0), "{said}");
    site.forget("well");
    let (code, unit, said) = check(&site);
    assert_eq!((code, unit), (1, 1), "{said}");
    assert_eq!(site.lucarne(&["serve"]).0, 1);

    edit(&site.configuration(), "period: 20", "perod: 20");
    let (code, unit, said) = check(&site);
    assert_eq!((code, unit), (1, 1), "{said}");
}

#[test]
fn a_server_that_is_down_is_waited_for() {
    let mut place = Place::directory();
    place.checkpoints = format!("postgres://lucarne@127.0.0.1:{}/locks", free_port());
    let site = Site::prepare_at(place, lucarne_testkit::temp_dir(), [("one", String::new())]);
    let (code, unit, said) = check(&site);
    assert_eq!((code, unit), (4, 0), "{said}");
    assert_has(&said, "unavailable: ");
    assert_has(&said, "no problems, 1 unavailable, ");
}

#[test]
fn check_beside_a_running_bucket_log_warns() {
    let bucket = run(Bucket::versitygw()).unwrap();
    let site = Site::create_at(Place::bucket(&bucket, None), [("one", String::new())]);
    let mut server = site.start();
    run(site.ready("one"));
    let (code, unit, said) = check(&site);
    assert_eq!((code, unit), (0, 0), "{said}");
    assert_has(&said, "warning: ");
    assert_has(&said, "in use by another process, which runs this log");
    server.stop(EVENT_TIMEOUT).unwrap();
    let (code, _, said) = check(&site);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("in use by"), "{said}");
}

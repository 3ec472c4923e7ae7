//! Mistakes in load tests.

use super::compare;

#[test]
fn run() {
    compare(
        "load run",
        &[
            ("a missing plan", "$ none.yaml --quiet"),
            ("an unknown key", "$ plan-key.yaml --quiet"),
            (
                "an unknown option of the scenario",
                "$ plan-option.yaml --quiet",
            ),
            ("an unknown scenario", "$ plan-kind.yaml --quiet"),
            ("a server that does not respond", "$ plan.yaml --quiet"),
            (
                "a missing baseline",
                "$ plan.yaml --quiet --baseline none.json",
            ),
            (
                "a report in a missing directory",
                "$ plan.yaml --quiet --html none/report.html",
            ),
            (
                "a threshold that is not one",
                "$ plan.yaml --threshold http_req_failed",
            ),
        ],
    );
}

#[test]
fn quick() {
    compare(
        "load quick",
        &[
            ("a missing plan", "$ none.yaml --quiet"),
            ("an unknown key", "$ plan-key.yaml --quiet"),
            ("a server that does not respond", "$ plan.yaml --quiet"),
        ],
    );
}

#[test]
fn check() {
    compare(
        "load check",
        &[
            ("a missing plan", "$ none.yaml"),
            ("an unknown key", "$ plan-key.yaml"),
            ("an unknown option of the scenario", "$ plan-option.yaml"),
            ("an unknown scenario", "$ plan-kind.yaml"),
            ("a configuration of logs", "$ lucarne.yaml"),
        ],
    );
}

#[test]
fn merge() {
    compare(
        "load merge",
        &[
            ("no summary", "$"),
            ("a missing summary", "$ none.json"),
            ("a file that is not a summary", "$ garbage.pem"),
            (
                "two outputs",
                "$ none.json --output a.json --summary b.json",
            ),
        ],
    );
}

#[test]
fn ct_write() {
    compare(
        "load ct-write",
        &[
            ("no log", "$ --quiet"),
            (
                "missing authorities",
                "$ --log-url http://127.0.0.1:CLOSED/ --quiet",
            ),
            (
                "a log that does not respond",
                "ca new && $ --log-url http://127.0.0.1:CLOSED/ --quiet",
            ),
            (
                "a URL without a scheme",
                "ca new && $ --log-url ct.example/one --quiet",
            ),
            ("a share above one", "$ --precerts 2"),
        ],
    );
}

#[test]
fn ct_read() {
    compare(
        "load ct-read",
        &[
            ("no log", "$ --quiet"),
            (
                "a log that does not respond",
                "$ --log-url http://127.0.0.1:CLOSED/ --quiet",
            ),
            (
                "a wrong key",
                "$ --log-url http://127.0.0.1:CLOSED/ --origin ct.example/one \
                 --log-public-key garbage.pem --quiet",
            ),
            (
                "an unknown kind of read",
                "$ --log-url http://127.0.0.1:CLOSED/ --reads tils:1",
            ),
        ],
    );
}

#[test]
fn ct() {
    compare(
        "load ct",
        &[
            ("no log", "$ --quiet"),
            (
                "nothing to do",
                "$ --log-url http://127.0.0.1:CLOSED/ --max-read-ops 0 --quiet",
            ),
            (
                "a log that does not respond",
                "$ --log-url http://127.0.0.1:CLOSED/ --quiet",
            ),
            (
                "an unknown option",
                "$ --log-url http://127.0.0.1:CLOSED/ --num-reader 1",
            ),
        ],
    );
}

#[test]
fn rest() {
    compare(
        "load rest",
        &[
            ("no URL", "$ --quiet"),
            ("a URL without a scheme", "$ --url api.example/ --quiet"),
            (
                "a server that does not respond",
                "$ --url http://127.0.0.1:CLOSED/ --quiet",
            ),
            (
                "missing trusted certificates",
                "$ --url https://127.0.0.1:CLOSED/ --ca none.pem --quiet",
            ),
            (
                "an unknown status",
                "$ --url http://127.0.0.1:CLOSED/ --expect ok",
            ),
        ],
    );
}

#[test]
fn tls() {
    compare(
        "load tls",
        &[
            ("no URL", "$ --quiet"),
            (
                "a URL without TLS",
                "$ --url http://127.0.0.1:CLOSED/ --quiet",
            ),
            (
                "a server that does not respond",
                "$ --url https://127.0.0.1:CLOSED/ --quiet",
            ),
            (
                "a wrong fingerprint",
                "$ --url https://127.0.0.1:CLOSED/ --fingerprint 00",
            ),
        ],
    );
}

#[test]
fn s3() {
    compare(
        "load s3",
        &[
            ("no store", "$ --access-key a --secret-key b --quiet"),
            (
                "half a key",
                "$ --endpoint http://127.0.0.1:CLOSED --access-key a --quiet",
            ),
            (
                "a store that does not respond",
                "$ --endpoint http://127.0.0.1:CLOSED --access-key a --secret-key b --quiet",
            ),
            (
                "an unknown operation",
                "$ --endpoint http://127.0.0.1:CLOSED --operations rename",
            ),
        ],
    );
}

#[test]
fn proxy() {
    compare(
        "load proxy",
        &[
            ("no proxy", "$ --quiet"),
            (
                "a proxy that does not respond",
                "$ --proxy http://127.0.0.1:CLOSED --insecure --quiet",
            ),
            (
                "a missing CA",
                "$ --proxy http://127.0.0.1:CLOSED --ca none.pem --quiet",
            ),
            (
                "a URL without a scheme",
                "$ --proxy 127.0.0.1:CLOSED --insecure --quiet",
            ),
        ],
    );
}

#[test]
fn acme() {
    compare(
        "load acme",
        &[
            ("no directory", "$ --quiet"),
            (
                "a server that does not respond",
                "$ --directory https://127.0.0.1:CLOSED/directory --insecure --quiet",
            ),
            (
                "missing certificates",
                "$ --directory https://127.0.0.1:CLOSED/directory --flow renewal-info \
                 --certificates none.pem --quiet",
            ),
            ("an unknown flow", "$ --flow renew"),
        ],
    );
}

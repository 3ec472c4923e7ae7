use super::*;
use crate::{LogId, LogKey};
use Delivery::{Embedded, Ocsp, Tls};
use LogStatus::{Pending, Qualified, ReadOnly, Rejected, Retired, Usable};

const ISSUED: i64 = 1_782_864_000_000;
const DAY: i64 = DAY_MS as i64;

/// Returns a log of `operator` that entered this state at millisecond 4.
fn log(n: u8, operator: &str, status: LogStatus, is_static: bool) -> ListedLog {
    ListedLog {
        description: format!("log {n}"),
        operator: operator.to_owned(),
        previous_operators: vec![],
        log_id: LogId([n; 32]),
        key: LogKey::from_seed(&[n; 32]).unwrap().public_key().unwrap(),
        mmd: 0,
        api: if is_static {
            LogApi::Static {
                submission_url: String::new(),
                monitoring_url: String::new(),
            }
        } else {
            LogApi::Rfc6962 { url: String::new() }
        },
        state: Some(LogState {
            status,
            since_ms: 4,
        }),
        temporal_interval: None,
    }
}

/// Judges the SCTs of a certificate of `days`, given as (log, time, delivery).
fn judge(policy: &CtPolicy, days: i64, scts: &[(&ListedLog, u64, Delivery)]) -> String {
    let scts: Vec<_> = scts
        .iter()
        .map(|&(log, timestamp_ms, delivery)| ValidSct {
            log,
            state: log.state,
            timestamp_ms,
            delivery,
        })
        .collect();
    let verdict = policy.judge(ISSUED, ISSUED + days * DAY - 1000, &scts);
    format!(
        "{}: {verdict}",
        if verdict.is_compliant() { "yes" } else { "no" }
    )
}

const CHROME: CtPolicy = CtPolicy::chrome();
const APPLE: CtPolicy = CtPolicy::apple();

#[test]
fn embedded_scts_by_number_state_and_operator() {
    let [a, b, c] = [(1, "A"), (2, "B"), (3, "C")].map(|(n, by)| log(n, by, Usable, false));
    let a2 = log(4, "A", Usable, false);
    let qualified = log(5, "Q", Qualified, false);
    let readonly = log(6, "R", ReadOnly, false);
    let retired = log(7, "T", Retired, false);
    let pending = log(8, "P", Pending, false);
    let rejected = log(9, "X", Rejected, false);
    let e = |log, time| (log, time, Embedded);
    for (days, scts, chrome, apple) in [
        (90, vec![], "no: no valid SCT", "no: no valid SCT"),
        (
            90,
            vec![e(&a, 9)],
            "no: SCTs of distinct logs: found 1, expected 2 for a certificate of 90 days",
            "no: SCTs of distinct logs: found 1,",
        ),
        (
            90,
            vec![e(&a, 9), e(&a, 10)],
            "no: SCTs of distinct logs: found 1,",
            "no: SCTs of distinct logs: found 1,",
        ),
        (
            90,
            vec![e(&a, 9), e(&a2, 9)],
            "no: distinct operators of the logs: found 1, expected 2",
            "no: SCTs of distinct logs: found 1,",
        ),
        (90, vec![e(&a, 9), e(&b, 9)], "yes", "yes"),
        (180, vec![e(&a, 9), e(&b, 9)], "yes", "yes"),
        (
            181,
            vec![e(&a, 9), e(&b, 9)],
            "no: SCTs of distinct logs: found 2, expected 3 for a certificate of 181 days",
            "no: SCTs of distinct logs: found 2",
        ),
        (181, vec![e(&a, 9), e(&b, 9), e(&a2, 9)], "yes", "yes"),
        (
            398,
            vec![e(&a, 9), e(&b, 9), e(&c, 9)],
            "yes: SCTs (embedded) of 3 logs of 3 operators",
            "yes",
        ),
        (90, vec![e(&qualified, 9), e(&readonly, 9)], "yes", "yes"),
        // A retired log counts for earlier SCTs, but not alone.
        (90, vec![e(&a, 9), e(&retired, 3)], "yes", "yes"),
        (
            90,
            vec![e(&a, 9), e(&retired, 4)],
            "no: SCTs of distinct logs: found 1,",
            "no: SCTs of distinct logs: found 1,",
        ),
        (
            90,
            vec![e(&retired, 3)],
            "no: no SCT of a log that is qualified",
            "no: no SCT of a log",
        ),
        (
            90,
            vec![e(&a, 9), e(&pending, 9)],
            "no: SCTs of distinct logs: found 1",
            "no: SCTs of distinct logs: found 1",
        ),
        (
            90,
            vec![e(&a, 9), e(&rejected, 3)],
            "no: SCTs of distinct logs: found 1",
            "no: SCTs of distinct logs: found 1",
        ),
        (
            90,
            vec![e(&pending, 9), e(&rejected, 9)],
            "no: no SCT of a log",
            "no: no SCT of a log",
        ),
        // An additional SCT that does not count does no harm.
        (
            90,
            vec![e(&a, 9), e(&b, 9), e(&rejected, 9)],
            "yes: SCTs (embedded) of 2 logs",
            "yes",
        ),
    ] {
        for (policy, expected) in [(&CHROME, chrome), (&APPLE, apple)] {
            let found = judge(policy, days, &scts);
            assert!(
                found.starts_with(expected),
                "{}, {days} days: {found}, not {expected}",
                policy.name
            );
        }
    }
}

#[test]
fn delivered_scts() {
    let [a, b] = [(1, "A"), (2, "B")].map(|(n, by)| log(n, by, Usable, false));
    let a2 = log(4, "A", Usable, false);
    let retired = log(7, "T", Retired, false);
    for (scts, chrome, apple) in [
        // Two logs are enough for any lifetime.
        (
            vec![(&a, 9, Tls), (&b, 9, Tls)],
            "yes: SCTs (TLS) of 2 logs of 2 operators",
            "yes",
        ),
        // Chrome no longer counts SCTs of OCSP responses.
        (
            vec![(&a, 9, Tls), (&b, 9, Ocsp)],
            "no: SCTs of distinct logs: found 1,",
            "yes: SCTs (TLS) of 2 logs",
        ),
        (
            vec![(&a, 9, Ocsp), (&b, 9, Ocsp)],
            "no: all SCTs are in a stapled OCSP response",
            "yes: SCTs (OCSP) of 2 logs",
        ),
        (
            vec![(&a, 9, Tls), (&a2, 9, Tls)],
            "no: distinct operators of the logs: found 1, expected 2",
            "yes",
        ),
        (
            vec![(&a, 9, Tls)],
            "no: SCTs of distinct logs: found 1,",
            "no: SCTs of distinct logs: found 1,",
        ),
        (
            vec![(&a, 9, Ocsp), (&a2, 9, Ocsp)],
            "no: all SCTs are in a stapled OCSP response",
            "yes",
        ),
        (
            vec![(&a, 9, Tls), (&retired, 3, Tls)],
            "no: SCTs of distinct logs: found 1,",
            "no: SCTs of distinct logs: found 1",
        ),
        (
            vec![(&retired, 3, Tls)],
            "no: no SCT of a log",
            "no: no SCT of a log",
        ),
        // Embedded SCTs count for Apple in addition, but not for Chrome.
        (
            vec![(&a, 9, Embedded), (&b, 9, Ocsp)],
            "no: SCTs of distinct logs: found 1,",
            "yes: SCTs (OCSP) of 2",
        ),
    ] {
        for (policy, expected) in [(&CHROME, chrome), (&APPLE, apple)] {
            let found = judge(policy, 398, &scts);
            assert!(
                found.starts_with(expected),
                "{}: {found}, not {expected}",
                policy.name
            );
        }
    }
}

/// A log was retired while the certificate was logged, and the SCT of another log is earlier.
#[test]
fn the_earliest_sct_decides_for_a_retired_log() {
    let current = log(1, "A", Usable, false);
    let retired = log(2, "B", Retired, false);
    let scts = |first, second| [(&current, first, Embedded), (&retired, second, Embedded)];
    for (scts, chrome, apple) in [
        (scts(3, 3), "yes", "yes"),
        (scts(3, 5), "yes", "no"),
        (scts(5, 5), "no", "no"),
    ] {
        assert!(judge(&CHROME, 90, &scts).starts_with(chrome), "{scts:?}");
        assert!(judge(&APPLE, 90, &scts).starts_with(apple), "{scts:?}");
    }
}

#[test]
fn the_documentation_dates_the_policies() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/ct-policies.md"
    );
    let text = std::fs::read_to_string(path).unwrap();
    for policy in CtPolicy::ALL {
        let row = format!("[{}]({}), {}", policy.name, policy.source, policy.as_of);
        assert!(
            text.contains(&row),
            "docs/reference/ct-policies.md lacks {row}"
        );
    }
}

#[test]
fn apple_wants_a_log_of_rfc_6962() {
    let [a, b] = [(1, "A"), (2, "B")].map(|(n, by)| log(n, by, Usable, true));
    let classic = log(3, "C", Usable, false);
    let of = |logs: [&ListedLog; 2], policy| judge(policy, 90, &logs.map(|log| (log, 9, Embedded)));
    assert!(of([&a, &b], &CHROME).starts_with("yes"));
    assert!(of([&a, &b], &APPLE).starts_with("no: no SCT of a log that follows RFC 6962"));
    assert!(of([&a, &classic], &APPLE).starts_with("yes"));
}

/// The operator at the time of the SCT counts.
#[test]
fn a_log_that_changed_hands() {
    let a = log(1, "A", Usable, false);
    let mut sold = log(2, "A", Usable, false);
    sold.previous_operators = vec![("B".to_owned(), 100)];
    let at = |time| judge(&CHROME, 90, &[(&a, 9, Embedded), (&sold, time, Embedded)]);
    assert!(at(99).starts_with("yes"), "{}", at(99));
    assert!(
        at(100).starts_with("no: distinct operators of the logs: found 1, expected 2"),
        "{}",
        at(100)
    );
}

/// notAfter is the last second. 180 days minus one second are 180 days for both policies. 180 days
/// from notBefore to notAfter are one second more for Apple.
#[test]
fn days_begun() {
    for (ms, chrome, apple) in [
        (180 * DAY - 1000, 180, 180),
        (180 * DAY, 180, 181),
        (180 * DAY + 1000, 181, 181),
        (0, 0, 1),
        (-1, u64::MAX, u64::MAX),
    ] {
        assert_eq!(CHROME.lifetime_days(ISSUED, ISSUED + ms), chrome, "{ms}");
        assert_eq!(APPLE.lifetime_days(ISSUED, ISSUED + ms), apple, "{ms}");
    }
    assert_eq!(CHROME.lifetime_days(i64::MIN, i64::MAX), u64::MAX);
}

#[test]
fn rules_of_ones_own() {
    let strict = CtPolicy {
        name: "Own",
        current: &[Usable],
        once: &[],
        operators: 1,
        embedded: const { &[rule(None, 1, 1)] },
        ..CHROME
    };
    let usable = log(1, "A", Usable, true);
    let readonly = log(2, "B", ReadOnly, true);
    let of = |log| judge(&strict, 9000, &[(log, 9, Embedded)]);
    assert!(of(&usable).starts_with("yes"));
    assert!(of(&readonly).starts_with("no"));
}

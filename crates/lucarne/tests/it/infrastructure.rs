//! The plans for certificate infrastructure, shortened, against real targets. Each plan passes, and
//! each fails with the expected error if its target is broken on purpose.
//! docs/reference/load/infrastructure-faults.md has the same table.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::common::cases::judge_all;
use crate::trials::breaker::Fault;
use crate::trials::trial::{Plan, Trial};
use lucarne_targets::{Fleet, Ports};

/// Returns the targets, which the tests of this file share.
fn fleet() -> Arc<Fleet> {
    static FLEET: Mutex<Weak<Fleet>> = Mutex::new(Weak::new());
    let mut shared = FLEET.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let fleet = Arc::new(Fleet::start(Ports::default()).unwrap());
        *shared = Arc::downgrade(&fleet);
        fleet
    })
}

/// A broken target and its expected result.
struct Case {
    plan: Plan,
    fault: Fault,
    /// All kinds of errors in the summary, or printed before the run.
    kinds: &'static [&'static str],
    code: i32,
}

const fn case(plan: Plan, fault: Fault, kinds: &'static [&'static str], code: i32) -> Case {
    Case {
        plan,
        fault,
        kinds,
        code,
    }
}

/// All plans, each with a correct target.
const SOUND: [Plan; 8] = [
    Plan::Api,
    Plan::Connectors,
    Plan::AcmeFlow,
    Plan::AcmeBurst,
    Plan::BulkRenewal,
    Plan::AgentStorm,
    Plan::Fleet,
    Plan::Enrolment,
];

const BROKEN: [Case; 40] = [
    case(Plan::Api, Fault::Slow, &[], 99),
    case(Plan::Api, Fault::Errors, &["status"], 99),
    case(Plan::Api, Fault::Html, &["content", "status"], 99),
    case(Plan::Api, Fault::Reset, &["reset"], 99),
    case(Plan::Api, Fault::Stall, &["connect_timeout"], 99),
    case(Plan::Api, Fault::WrongCertificate, &["tls"], 110),
    case(Plan::Api, Fault::Down, &["connect_refused"], 110),
    case(Plan::Connectors, Fault::Slow, &[], 99),
    case(Plan::Connectors, Fault::Errors, &["status"], 99),
    case(Plan::Connectors, Fault::Reset, &["reset"], 99),
    case(Plan::Connectors, Fault::Stall, &["connect_timeout"], 99),
    case(
        Plan::Connectors,
        Fault::WrongCertificate,
        &["certificate"],
        99,
    ),
    case(Plan::Connectors, Fault::Down, &["connect_refused"], 110),
    case(Plan::AcmeFlow, Fault::Slow, &[], 99),
    case(Plan::AcmeFlow, Fault::Errors, &["status"], 99),
    case(Plan::AcmeFlow, Fault::Html, &["content"], 99),
    case(Plan::AcmeFlow, Fault::Reset, &["reset"], 99),
    case(Plan::AcmeFlow, Fault::Stall, &["connect_timeout"], 99),
    case(Plan::AcmeFlow, Fault::WrongCertificate, &["tls"], 110),
    case(Plan::AcmeFlow, Fault::Down, &["connect_refused"], 110),
    case(Plan::AcmeBurst, Fault::Errors, &["status"], 99),
    case(Plan::AcmeBurst, Fault::Html, &["content"], 99),
    case(Plan::BulkRenewal, Fault::Errors, &["status"], 99),
    case(Plan::BulkRenewal, Fault::Html, &["content"], 99),
    case(Plan::BulkRenewal, Fault::Slow, &[], 99),
    case(Plan::AgentStorm, Fault::Errors, &["status"], 99),
    case(Plan::AgentStorm, Fault::Html, &["content"], 99),
    case(Plan::AgentStorm, Fault::Slow, &[], 99),
    case(Plan::Fleet, Fault::Errors, &["status"], 99),
    case(Plan::Fleet, Fault::Html, &["content", "status"], 99),
    case(Plan::Enrolment, Fault::Slow, &["unanswered"], 99),
    case(Plan::Enrolment, Fault::Errors, &["status"], 99),
    case(Plan::Enrolment, Fault::Html, &["content"], 99),
    case(Plan::Enrolment, Fault::Reset, &["reset"], 99),
    case(Plan::Enrolment, Fault::NonceRefused, &["bad_nonce"], 99),
    case(Plan::Enrolment, Fault::RateLimited, &["rate_limited"], 99),
    case(Plan::Enrolment, Fault::NeverIssued, &[], 99),
    case(
        Plan::Enrolment,
        Fault::OtherCertificate,
        &["certificate"],
        99,
    ),
    case(Plan::Enrolment, Fault::WrongCertificate, &["tls"], 110),
    case(Plan::Enrolment, Fault::Down, &["connect_refused"], 110),
];

/// Concurrent cases, which mostly wait.
const TOGETHER: usize = 6;

#[test]
fn every_plan_passes_against_its_real_target() {
    let fleet = fleet();
    for plan in SOUND {
        let trial = Trial::run(plan, Fault::None, &fleet);
        let (kinds, crossed) = (trial.kinds(), trial.crossed());
        let name = plan.name();
        let said = &trial.said;
        assert!(kinds.is_empty(), "{name}: {kinds:?}\n{said}");
        // The latency of a target depends on the machine; all other thresholds must hold.
        let late = |crossed: &String| crossed.contains("duration");
        assert!(crossed.iter().all(late), "{name}: {crossed:?}\n{said}");
        let code = if crossed.is_empty() { 0 } else { 99 };
        assert_eq!(trial.code, code, "{name}: {crossed:?}\n{said}");
    }
}

#[test]
fn every_breakage_is_called_by_its_name() {
    let fleet = fleet();
    let name = |case: &Case| format!("{:?} {:?}", case.plan, case.fault);
    judge_all(&BROKEN, TOGETHER, name, |case| judge(case, &fleet));
}

/// Runs a case and compares the result.
fn judge(case: &Case, fleet: &Fleet) -> Result<(), String> {
    let trial = Trial::run(case.plan, case.fault, fleet);
    let (kinds, crossed) = (trial.kinds(), trial.crossed());
    let expected: BTreeSet<String> = case.kinds.iter().map(|kind| (*kind).to_owned()).collect();
    // A slow target is detected by a threshold, not by an error.
    let slow = crossed.iter().any(|it| it.contains("http_req_duration"));
    // The run may end while an order is polled, or between two polls.
    let polled = case.fault == Fault::NeverIssued && kinds.iter().eq(["unanswered"]);
    let right = (kinds == expected || polled)
        && trial.code == case.code
        && (case.fault != Fault::Slow || slow);
    if right {
        Ok(())
    } else {
        Err(format!(
            "{:?} {:?}: exit code {}, {kinds:?}, crossed {crossed:?}; expected {} and {expected:?}\n{}\n{}",
            case.plan,
            case.fault,
            trial.code,
            case.code,
            trial.summary()["errors"],
            trial.said
        ))
    }
}

/// The summary has every figure of every connector, with the errors of a broken one.
#[test]
fn connectors_have_every_figure() {
    let fleet = fleet();
    for (fault, failing) in [(Fault::None, false), (Fault::Errors, true)] {
        let summary = Trial::run(Plan::Connectors, fault, &fleet).summary();
        for connector in ["nginx", "apache", "haproxy", "f5"] {
            let tier = &summary["connector_tier"][connector];
            for figure in ["p50", "p95", "p99", "max", "avg"] {
                let value = tier[figure].as_f64();
                assert!(
                    value.is_some_and(|ms| ms > 0.0),
                    "{connector} {figure}: {tier}"
                );
            }
            assert!(
                tier["iterations"].as_u64() > Some(10),
                "{connector}: {tier}"
            );
            let rate = tier["error_rate"].as_f64().unwrap();
            assert_eq!(rate > 0.0, failing, "{connector}: {tier}");
        }
    }
}

/// A correct server responds with 400 to a renewal ID of an unknown certificate, which is not a
/// failure. A server that responds with HTML to every request fails.
#[test]
fn expected_statuses_are_no_failures_and_html_is_one() {
    let fleet = fleet();
    let correct = Trial::run(Plan::AcmeFlow, Fault::None, &fleet);
    let summary = correct.summary();
    let codes: Vec<_> = summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|series| series["tags"]["step"] == "renewal-info")
        .map(|series| series["metrics"]["http_req_failed"]["good"].as_u64())
        .collect();
    assert_eq!(
        (correct.code, &codes[..]),
        (0, &[Some(0)][..]),
        "{}",
        correct.said
    );
    let html = Trial::run(Plan::AcmeFlow, Fault::Html, &fleet);
    let failed: BTreeSet<_> = summary_checks(&html, "fails").into_iter().collect();
    assert!(failed.contains("directory"), "{failed:?}");
    assert_eq!(html.code, 99, "{}", html.said);
}

/// Account, order, authorisation, challenge, finalisation, download, renewal information, renewal
/// and revocation all take place, each with its latency.
#[test]
fn whole_enrolments_are_driven_with_signed_requests() {
    let fleet = fleet();
    let trial = Trial::run(Plan::Enrolment, Fault::None, &fleet);
    let summary = trial.summary();
    let series = summary["series"].as_array().unwrap();
    for step in [
        "new-account",
        "new-order",
        "authorization",
        "challenge",
        "validation",
        "finalize",
        "certificate",
        "renewal-info",
        "replace-order",
        "revocation",
    ] {
        let found = series.iter().find(|series| series["tags"]["step"] == step);
        let found = found.unwrap_or_else(|| panic!("no {step} in {}", trial.said));
        let latency = &found["metrics"]["http_req_duration"]["p(95)"];
        assert!(latency.as_f64() > Some(0.0), "{step}: {found}");
    }
    let passed = summary_checks(&trial, "passes");
    for check in ["certificate_names", "certificate_key", "certificate_chain"] {
        assert!(passed.iter().any(|name| name == check), "{passed:?}");
    }
}

/// Returns the names of checks that have passed or failed.
fn summary_checks(trial: &Trial, which: &str) -> Vec<String> {
    let summary = trial.summary();
    let checks = summary["checks"].as_array().cloned().unwrap_or_default();
    let checks = checks
        .into_iter()
        .filter(|check| check[which].as_u64() > Some(0));
    checks
        .map(|check| check["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_documentation_has_the_same_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference/load/infrastructure-faults.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let sound = SOUND.iter().map(|&plan| case(plan, Fault::None, &[], 0));
    // Plans with the same fault and the same findings share a row.
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for case in sound.chain(BROKEN) {
        let kinds: Vec<_> = case.kinds.iter().map(|kind| format!("`{kind}`")).collect();
        let kinds = match (kinds.is_empty(), case.code) {
            (false, _) => kinds.join(", "),
            (true, 0) => "none".to_owned(),
            (true, _) => "the thresholds".to_owned(),
        };
        let row = format!("| {} | {kinds} | {} |", case.fault.words(), case.code);
        let plan = case.plan.name();
        match rows.iter_mut().find(|(known, _)| *known == row) {
            Some((_, plans)) => plans.push(plan),
            None => rows.push((row, vec![plan])),
        }
    }
    for (row, plans) in rows {
        let row = format!("{row} {} |", plans.join(", "));
        assert!(
            text.lines().any(|line| line == row),
            "{} lacks this row:\n{row}",
            file.display()
        );
    }
}

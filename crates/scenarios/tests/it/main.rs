//! Scenarios with correct servers, and with faulty ones.
#![allow(clippy::unwrap_used)]

mod acme;
mod acme_lies;
mod api;
mod ct_monitor;
mod ct_scenarios;
mod demands;
mod files;
mod hostile;
mod liar;
mod lying_authority;
mod proxy;
mod rest_browser;
mod rest_phases;
mod rest_tls;
mod s3;
mod tls_certificates;
mod user_time;

/// Waits for the end of the run, and verifies that the scenarios list all their checks.
fn finished(run: lucarne_load::Run) -> lucarne_load::Outcome {
    let scenarios = run.scenarios.iter();
    let known: Vec<_> = scenarios
        .flat_map(|planned| planned.scenario.checks().unwrap())
        .collect();
    let outcome = run.start().wait();
    for check in &outcome.summary.checks {
        assert!(known.contains(&check.name.as_str()), "{}", check.name);
    }
    outcome
}

//! The ACME scenario with Pebble, which `scripts/install-test-tools` builds.

use std::collections::BTreeSet;
use std::time::Duration;

use lucarne_load::{ExecutorConfig, Metric, Outcome, Run, ScenarioConfig, Thresholds, Verdict};
use lucarne_scenarios::acme::{
    self, AccountReuse, AcmeOptions, ChallengeType, Flow, KeyAlgorithm, Until,
};
use lucarne_scenarios::option_values::TimeSpan;
use lucarne_targets::{Authority, Pebble};

/// Starts Pebble with a new authority. Pebble refuses `nonces` percent of the valid nonces.
fn pebble(nonces: u32) -> (Authority, Pebble) {
    let authority = Authority::new().unwrap();
    let pebble = Pebble::start(&authority, 0, nonces).unwrap();
    (authority, pebble)
}

/// Returns options without pauses.
fn options((authority, pebble): &(Authority, Pebble), flow: Flow) -> AcmeOptions {
    let mut options = AcmeOptions {
        directory: pebble.directory.clone(),
        flow,
        think: TimeSpan(Duration::ZERO),
        poll: TimeSpan(Duration::from_millis(20)),
        http01_listen: pebble.http01,
        tls_alpn01_listen: pebble.tls_alpn01,
        ..AcmeOptions::default()
    };
    options.connection.http.ca.push(authority.ca_file());
    options
}

fn run(options: AcmeOptions, users: u64, iterations: u64) -> Outcome {
    let scenario = acme::build(options, 7).unwrap();
    let executor = ExecutorConfig::ConstantVus {
        vus: users,
        duration: Duration::from_secs(60),
        iterations: Some(iterations),
    };
    let run = Run {
        scenarios: vec![ScenarioConfig::new("acme", executor, scenario)],
        thresholds: Thresholds::default(),
        ..Run::default()
    };
    crate::finished(run)
}

/// Returns a counter summed over all tags.
fn counter(outcome: &Outcome, name: &str) -> u64 {
    let all = outcome.summary.series.iter();
    all.filter_map(|series| match series.metrics.get(name) {
        Some(Metric::Counter { count }) => Some(*count),
        _ => None,
    })
    .sum()
}

fn steps(outcome: &Outcome) -> BTreeSet<&str> {
    let tags = outcome
        .summary
        .series
        .iter()
        .flat_map(|series| &series.tags);
    tags.filter(|(name, _)| *name == "step")
        .map(|(_, value)| value.as_str())
        .collect()
}

/// Checks that no check failed and some passed; without thresholds there is no verdict.
#[track_caller]
fn assert_good(outcome: &Outcome, checks: &[&str]) {
    let summary = &outcome.summary;
    assert_eq!(outcome.error, None);
    assert!(summary.errors.is_empty(), "{:#?}", summary.errors);
    assert_eq!(outcome.verdict, Verdict::Unjudged, "{:#?}", summary.checks);
    for check in checks {
        let found = summary.checks.iter().find(|it| it.name == *check);
        let found = found.unwrap_or_else(|| panic!("no {check} in {:#?}", summary.checks));
        assert!(found.passes > 0 && found.fails == 0, "{found:#?}");
    }
}

/// Returns whether a race within Pebble caused all errors of a run.
fn pebble_lacks_an_order(outcome: &Outcome) -> bool {
    let details = outcome.summary.errors.iter().flat_map(|it| &it.details);
    let mut ours = details.map(|it| it.contains("could not find order resulting in the given"));
    !outcome.summary.errors.is_empty() && ours.all(|it| it)
}

#[test]
fn whole_enrolments_with_nonces_refused() {
    let pebble = pebble(5);
    let options = AcmeOptions {
        // Pebble finds an order by its certificate only a moment after the certificate can be
        // downloaded. Until then the certificate cannot be replaced.
        think: TimeSpan(Duration::from_millis(500)),
        ..options(&pebble, Flow::Enrol)
    };
    let mut outcome = run(options.clone(), 6, 12);
    // On a busy machine, Pebble may need longer than the pause: try again.
    for _ in 0..2 {
        if pebble_lacks_an_order(&outcome) {
            outcome = run(options.clone(), 6, 12);
        }
    }
    assert_good(
        &outcome,
        &[
            "directory",
            "replay_nonce",
            "account",
            "order",
            "challenge",
            "authorization",
            "certificate",
            "certificate_names",
            "certificate_key",
            "certificate_chain",
            "certificate_type",
            "renewal_info",
            "revocation",
            "revoked",
            "enrolled",
        ],
    );
    // Each enrolment has a certificate and its replacement.
    assert_eq!(counter(&outcome, "acme_certificates"), 24);
    assert!(
        counter(&outcome, "acme_bad_nonce") > 0,
        "a twentieth of them is refused"
    );
    let all = [
        "authorization",
        "certificate",
        "challenge",
        "directory",
        "finalize",
        "new-account",
        "new-nonce",
        "new-order",
        "renewal-info",
        "replace-order",
        "revocation",
        "validation",
    ];
    let steps = steps(&outcome);
    assert!(all.iter().all(|step| steps.contains(step)), "{steps:?}");
    let log = pebble.1.server.output();
    assert!(log.matches("POST /revoke-cert").count() >= 12, "{log}");
}

#[test]
fn validation_by_tls_with_one_account_and_many_names() {
    let pebble = pebble(0);
    let options = AcmeOptions {
        challenge: ChallengeType::TlsAlpn01,
        accounts: AccountReuse::Shared,
        names: 3,
        key: KeyAlgorithm::P384,
        contact: Some("load@example.test".into()),
        until: Until::Certificate,
        ..options(&pebble, Flow::Enrol)
    };
    let outcome = run(options, 4, 8);
    assert_good(
        &outcome,
        &["account", "certificate_names", "certificate_chain"],
    );
    assert_eq!(counter(&outcome, "acme_certificates"), 8);
    let accounts = outcome
        .summary
        .checks
        .iter()
        .filter(|it| it.name == "account");
    assert_eq!(accounts.map(|it| it.passes).sum::<u64>(), 1, "all share it");
}

/// Pebble responds with 400 to an id that it cannot parse and with 404 to an unknown one; both are
/// right. Existing certificates have a window.
#[test]
fn synthetic_and_real_renewal_ids() {
    let pebble = pebble(0);
    let unknown = AcmeOptions {
        // The key identifier and the serial number do not exist.
        synthetic_id: "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE".into(),
        ..options(&pebble, Flow::Burst)
    };
    for options in [
        options(&pebble, Flow::Burst),
        options(&pebble, Flow::Probe),
        unknown,
    ] {
        let outcome = run(options, 2, 10);
        assert_good(&outcome, &["directory", "replay_nonce", "problem_document"]);
        assert_eq!(steps(&outcome).len(), 3);
    }
    let real = run(options(&pebble, Flow::RenewalInfo), 2, 20);
    assert_good(&real, &["renewal_info", "certificate_chain"]);
    assert_eq!(counter(&real, "acme_certificates"), 2, "one for each user");
}

/// A status that is right for a synthetic certificate is wrong for a real one.
#[test]
fn a_certificate_of_somebody_else_is_not_found() {
    let pebble = pebble(0);
    let options = AcmeOptions {
        // A certificate of an authority that Pebble does not know.
        certificates: Some(pebble.0.identity("stranger").unwrap().chain),
        ..options(&pebble, Flow::RenewalInfo)
    };
    let outcome = run(options, 1, 4);
    let kinds: Vec<_> = outcome.summary.errors.iter().map(|it| &it.kind).collect();
    assert_eq!(kinds, ["status"], "{:#?}", outcome.summary.errors);
}

/// A client that responds to no challenge does not finish its enrolment, and fails.
#[test]
fn a_challenge_that_is_not_answered_fails_the_enrolment() {
    let pebble = pebble(0);
    let options = AcmeOptions {
        // An address to which the server does not connect.
        http01_listen: ([127, 0, 0, 1], lucarne_testkit::free_port()).into(),
        ..options(&pebble, Flow::Enrol)
    };
    let outcome = run(options, 1, 2);
    let kinds: Vec<_> = outcome.summary.errors.iter().map(|it| &it.kind).collect();
    assert_eq!(kinds, ["challenge"], "{:#?}", outcome.summary.errors);
    let enrolled = outcome
        .summary
        .checks
        .iter()
        .find(|it| it.name == "enrolled");
    assert_eq!(enrolled.map(|it| (it.passes, it.fails)), Some((0, 2)));
    assert_eq!(counter(&outcome, "acme_certificates"), 0);
}

//! The metadata that an operator gives for a log.

use super::*;

#[test]
fn an_operator_says_what_a_log_is_for() {
    let directory = files();
    let metadata = |settings: &str| {
        let (config, said) = read(&with(settings), directory.path());
        assert_eq!(said, "", "{settings}");
        config.unwrap().logs[0].metadata.clone()
    };
    assert_eq!(metadata(""), Metadata::default());
    let said = metadata(
        "intended_use: production\n\
         inception: 2026-01-02\n\
         planned_changes:\n\
         \x20 - {new_status: inactive, effective_date: 2028-01-01, comment: archived}\n\
         \x20 - {new_status: readonly, effective_date: 2027-06-01T12:00:00Z}\n\
         submission_rate_limit: {requests: 100, interval_seconds: 10, scope: ip}\n\
         monitoring_rate_limit: {requests: 2000, interval_seconds: 60}",
    );
    let change = |new_status, effective_ms, comment: Option<&str>| PlannedChange {
        new_status,
        effective_ms,
        comment: comment.map(str::to_owned),
    };
    let rate = |requests, interval_seconds, scope: Option<&str>| {
        let scope = scope.map(str::to_owned);
        Some(RateLimit {
            requests,
            interval_seconds,
            scope,
        })
    };
    let expected = Metadata {
        intended_use: IntendedUse::Production,
        active_since: Some(1_767_312_000_000),
        planned_changes: vec![
            change(Status::Inactive, 1_830_297_600_000, Some("archived")),
            change(Status::ReadOnly, 1_811_851_200_000, None),
        ],
        submission_rate_limit: rate(100, 10, Some("ip")),
        monitoring_rate_limit: rate(2000, 60, None),
        operator: None,
    };
    assert_eq!(said, expected);
    let active = metadata("inception: 2026-01-02\nstatus_timestamp: 2026-01-03T00:00:00Z");
    assert_eq!(active.active_since, Some(1_767_398_400_000));
}

#[test]
fn what_a_log_is_for_is_told_by_its_roots() {
    let directory = files();
    let window = "notafterstart: 2026-01-01\nnotafterlimit: 2026-07-01";
    let intended = |yaml: String| {
        let (config, said) = read(&yaml, directory.path());
        assert_eq!(said, "", "{yaml}");
        config.unwrap().logs[0].metadata.intended_use
    };
    let by_ccadb = |settings: &str| with(settings).replace("    roots: roots.pem\n", "");
    assert_eq!(intended(by_ccadb(window)), IntendedUse::Production);
    for test in [
        with(window),
        by_ccadb(""),
        by_ccadb(&format!("{window}\nccadbroots: testing")),
        by_ccadb(&format!("{window}\nrequire: any")),
        by_ccadb(window).replace("https://", "http://"),
        by_ccadb(&format!("{window}\nintended_use: test")),
    ] {
        assert_eq!(intended(test), IntendedUse::Test);
    }
}

#[test]
fn what_an_operator_says_is_checked() {
    for (settings, expected) in [
        (
            "intended_use: prod",
            "lucarne.yaml:10: logs[a].intended_use: `prod` must be `production`, `test` or \
             `decommissioned`",
        ),
        (
            "planned_changes: [{new_status: gone, effective_date: 2028-01-01}]",
            "lucarne.yaml:10: logs[a].planned_changes.new_status: `gone` must be `active`, \
             `readonly` or `inactive`",
        ),
        (
            "planned_changes: {new_status: inactive}",
            "lucarne.yaml:10: logs[a].planned_changes.effective_date: is missing; for example \
             `effective_date: 2028-01-01T00:00:00Z`",
        ),
        (
            "submission_rate_limit: {requests: 5, interval_seconds: 1, scope: planet}",
            "lucarne.yaml:10: logs[a].submission_rate_limit.scope: `planet` must be `ip`, \
             `asn`, `subnet`, `user-agent`, `geography` or `global`",
        ),
        (
            "refusedroots: 1234",
            "lucarne.yaml:10: logs[a].refusedroots: `1234` is neither a SHA-256 fingerprint (64 \
             hexadecimal digits) nor a file of fingerprints",
        ),
    ] {
        assert_eq!(said(&with(settings)), expected);
    }
}

#[test]
fn an_operator_can_be_reached() {
    let directory = files();
    let yaml = |operator: &str| with("").replace("logs:\n", &format!("{operator}\nlogs:\n"));
    let (config, problems) = read(
        &yaml(
            "operator:\n  name: Example Trust\n  emails: ct@example.com\n  \
             logs: https://ct.example.com/2027h1/log.v3.json",
        ),
        directory.path(),
    );
    assert_eq!(problems, "");
    let operator = Operator {
        name: "Example Trust".into(),
        emails: vec!["ct@example.com".into()],
        logs_elsewhere: vec!["https://ct.example.com/2027h1/log.v3.json".into()],
    };
    assert_eq!(config.unwrap().logs[0].metadata.operator, Some(operator));
    for (operator, expected) in [
        (
            "operator:\n  name: A\n  emails:\n    - ct@example.com\n    - ct at example.com",
            "lucarne.yaml:7: operator.emails: `ct at example.com` is not an e-mail address such as \
             ct@example.com: expected letters, digits, `.`, `_`, `+` and `-`, then `@` and a domain",
        ),
        (
            "operator: {emails: []}",
            "lucarne.yaml:3: operator.emails: is missing; for example `emails: \
             [ct@example.com]`\n\
             lucarne.yaml:3: operator.name: is missing; for example `name: Example Trust Services`",
        ),
        (
            "operator: {name: \" \", emails: [ct@example.com], email: x}",
            "lucarne.yaml:3: operator.email: no such key; did you mean `emails`?\n\
             lucarne.yaml:3: operator.name: ` ` is empty",
        ),
        (
            "operator: {name: A, emails: [ct@example.com], logs: [https://ct.example.com/2027h1/]}",
            "lucarne.yaml:3: operator.logs: `https://ct.example.com/2027h1/` is not the URL of a \
             log's metadata such as https://ct.example.com/2027h1/log.v3.json",
        ),
    ] {
        assert_eq!(said(&yaml(operator)), expected);
    }
}

//! Metadata of a log in `log.v3.json`.

use std::path::Path;

use lucarne_ct::{CcadbProgramme, Policy, Require};
use lucarne_log::{IntendedUse, Metadata, Operator, PlannedChange, RateLimit};
use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Node, Reader, Report, Section, Value};

use super::keys;
use super::keys::metadata::{
    COMMENT, EFFECTIVE_DATE, INTENDED_USE, INTERVAL_SECONDS, MONITORING_RATE_LIMIT, NEW_STATUS,
    PLANNED_CHANGE, PLANNED_CHANGES, RATE_LIMIT, REQUESTS, SCOPE, STATUS_TIMESTAMP,
    SUBMISSION_RATE_LIMIT,
};
use super::keys::operator::{EMAILS, NAME};
use super::root_sources::RootSources;
use super::values::{self, Prefix};

/// Reads the metadata. The default of the intended use is `likely`.
pub(super) fn read(reader: &mut Reader<'_, '_>, likely: IntendedUse) -> Metadata {
    Metadata {
        intended_use: reader.get(&INTENDED_USE).unwrap_or(likely),
        active_since: reader.get(&STATUS_TIMESTAMP),
        planned_changes: planned_changes(reader),
        submission_rate_limit: rate_limit(reader, &SUBMISSION_RATE_LIMIT),
        monitoring_rate_limit: rate_limit(reader, &MONITORING_RATE_LIMIT),
        // The key is at the top of the file.
        operator: None,
    }
}

/// Reads `operator`, which applies to all logs.
pub(super) fn operator(
    top: &Section<'_>,
    directory: &Path,
    report: &mut Report,
) -> Option<Operator> {
    let key = keys::top::OPERATOR.name();
    let node = top.get(key)?;
    let section = keys::open(node, key, &keys::operator::TABLE, report)?;
    let mut reader = Reader::new(section, key, directory, report);
    let name = reader.parse(&NAME, |name| match name.trim() {
        "" => Err("is empty"),
        name => Ok(name.to_owned()),
    });
    let name = reader.required(&NAME, name, "Example Trust Services");
    let emails = reader.values(&EMAILS, values::email);
    if section.get(&EMAILS).is_none_or(is_empty_list) {
        let message = "is missing; for example `emails: [ct@example.com]`";
        reader.problem(Some(node.line), &EMAILS, message);
    }
    Some(Operator {
        name: name?.value,
        emails,
    })
}

fn is_empty_list(node: &Node) -> bool {
    matches!(&node.value, Value::List(items) if items.is_empty())
}

/// Returns the default of the intended use: production only if the log has all features of a log
/// for browsers, so that a test log never claims production.
pub(super) fn likely_use(
    roots: &RootSources,
    policy: &Policy,
    prefixes: &[Option<&Prefix>],
) -> IntendedUse {
    let ccadb = roots.ccadb.as_ref().map(|ccadb| ccadb.value.programme);
    let window = policy.not_after_start.and(policy.not_after_limit);
    let https = |prefix: &Option<&Prefix>| prefix.is_some_and(|it| it.url.starts_with("https://"));
    let production = ccadb == Some(CcadbProgramme::Trusted)
        && roots.pem.is_none()
        && policy.require == Require::ServerAuth
        && window.is_some()
        && prefixes.iter().all(https);
    if production {
        IntendedUse::Production
    } else {
        IntendedUse::Test
    }
}

fn planned_changes(reader: &mut Reader<'_, '_>) -> Vec<PlannedChange> {
    let key = &PLANNED_CHANGES;
    let Some(node) = reader.node(key) else {
        return Vec::new();
    };
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let read = |item| {
        let mut change = keys::entry(reader, key, item, &PLANNED_CHANGE)?;
        let status = change.read(&NEW_STATUS);
        let status = change.required(&NEW_STATUS, status, "inactive");
        let date = change.read(&EFFECTIVE_DATE);
        let date = change.required(&EFFECTIVE_DATE, date, "2028-01-01T00:00:00Z");
        let comment = change.text(&COMMENT).map(|text| text.value.to_owned());
        Some(PlannedChange {
            new_status: status?.value,
            effective_ms: date?.value,
            comment,
        })
    };
    items.iter().filter_map(read).collect()
}

fn rate_limit(reader: &mut Reader<'_, '_>, key: &Key<Shape>) -> Option<RateLimit> {
    let mut limit = keys::inside(reader, key, &RATE_LIMIT)?;
    let requests = limit.read(&REQUESTS);
    let requests = limit.required(&REQUESTS, requests, "1000");
    let seconds = limit.read(&INTERVAL_SECONDS);
    let seconds = limit.required(&INTERVAL_SECONDS, seconds, "60");
    let scope = limit.get(&SCOPE);
    Some(RateLimit {
        requests: requests?.value,
        interval_seconds: seconds?.value,
        scope: scope.map(str::to_owned),
    })
}

//! Metadata of a log in `log.v3.json`.

use jiff::civil::Date;
use lucarne_ct::{CcadbProgramme, Policy, Require};
use lucarne_log::{IntendedUse, Metadata, Operator, PlannedChange, RateLimit};
use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Located, Node, Reader, Value};

use super::keys;
use super::keys::metadata::{own, planned_change, rate_limit as limits, shared};
use super::keys::operator;
use super::root_sources::RootSources;
use super::values::{self, Prefix};

/// Reads the metadata. The default of the intended use is `likely`, and the log is active from the
/// midnight of its inception.
pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    likely: IntendedUse,
    inception: Option<&Located<Date>>,
) -> Metadata {
    let midnight = || values::time(&inception?.value.to_string()).ok();
    Metadata {
        intended_use: reader.get(&shared::KEYS.intended_use).unwrap_or(likely),
        active_since: reader.get(&own::KEYS.status_timestamp).or_else(midnight),
        planned_changes: planned_changes(reader),
        submission_rate_limit: rate_limit(reader, &shared::KEYS.submission_rate_limit),
        monitoring_rate_limit: rate_limit(reader, &shared::KEYS.monitoring_rate_limit),
        // The key is at the top of the file.
        operator: None,
    }
}

/// Reads `operator`, which applies to all logs.
pub(super) fn operator(top: &mut Reader<'_, '_>) -> Option<Operator> {
    use operator::KEYS;

    let key = &keys::top::KEYS.operator;
    let line = top.line(key);
    let mut reader = keys::inside(top, key, &operator::TABLE)?;
    let name = reader.parse(&KEYS.name, |name| match name.trim() {
        "" => Err("is empty"),
        name => Ok(name.to_owned()),
    });
    let name = reader.required(&KEYS.name, name, "Example Trust Services");
    let emails = reader.values(&KEYS.emails, values::email);
    let logs_elsewhere = reader.values(&KEYS.logs, values::metadata_url);
    if reader.node(&KEYS.emails).is_none_or(is_empty_list) {
        let message = "is missing; for example `emails: [ct@example.com]`";
        reader.problem(line, &KEYS.emails, message);
    }
    Some(Operator {
        name: name?.value,
        emails,
        logs_elsewhere,
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
    let key = &own::KEYS.planned_changes;
    let Some(node) = reader.node(key) else {
        return Vec::new();
    };
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let read = |item| {
        let mut change = keys::entry(reader, key, item, &planned_change::TABLE)?;
        let keys = &planned_change::KEYS;
        let status = change.read(&keys.new_status);
        let status = change.required(&keys.new_status, status, "inactive");
        let date = change.read(&keys.effective_date);
        let date = change.required(&keys.effective_date, date, "2028-01-01T00:00:00Z");
        let comment = change.text(&keys.comment).map(|text| text.value.to_owned());
        Some(PlannedChange {
            new_status: status?.value,
            effective_ms: date?.value,
            comment,
        })
    };
    items.iter().filter_map(read).collect()
}

fn rate_limit(reader: &mut Reader<'_, '_>, key: &Key<Shape>) -> Option<RateLimit> {
    use limits::KEYS;

    let mut limit = keys::inside(reader, key, &limits::TABLE)?;
    let requests = limit.read(&KEYS.requests);
    let requests = limit.required(&KEYS.requests, requests, "1000");
    let seconds = limit.read(&KEYS.interval_seconds);
    let seconds = limit.required(&KEYS.interval_seconds, seconds, "60");
    let scope = limit.get(&KEYS.scope);
    Some(RateLimit {
        requests: requests?.value,
        interval_seconds: seconds?.value,
        scope: scope.map(str::to_owned),
    })
}

//! Metadata of a log in `log.v3.json`.

use lucarne_ct::{CcadbProgramme, Policy, Require};
use lucarne_log::{IntendedUse, Metadata, PlannedChange, RateLimit, Status};
use lucarne_settings::{Node, Reader, Value};

use super::keys;
use super::root_sources::RootSources;
use super::values::{self, Prefix};

/// Reads the metadata. The default of the intended use is `likely`.
pub(super) fn read(reader: &mut Reader<'_, '_>, likely: IntendedUse) -> Metadata {
    let intended_use = reader.parse("intended_use", |text| match text {
        "production" => Ok(IntendedUse::Production),
        "test" => Ok(IntendedUse::Test),
        "decommissioned" => Ok(IntendedUse::Decommissioned),
        _ => Err("must be `production`, `test` or `decommissioned`"),
    });
    let active_since = reader.parse("status_timestamp", values::time);
    Metadata {
        intended_use: intended_use.map_or(likely, |located| located.value),
        active_since: active_since.map(|located| located.value),
        planned_changes: planned_changes(reader),
        submission_rate_limit: rate_limit(reader, "submission_rate_limit"),
        monitoring_rate_limit: rate_limit(reader, "monitoring_rate_limit"),
    }
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
    let key = "planned_changes";
    let Some(node) = reader.node(key) else {
        return Vec::new();
    };
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let read = |item| {
        let mut change = inside(reader, key, item, keys::PLANNED_CHANGE)?;
        let status = change.parse("new_status", |text| match text {
            "active" => Ok(Status::Active),
            "readonly" => Ok(Status::ReadOnly),
            "inactive" => Ok(Status::Inactive),
            _ => Err("must be `active`, `readonly` or `inactive`"),
        });
        let status = change.required("new_status", status, "inactive");
        let date = change.parse("effective_date", values::time);
        let date = change.required("effective_date", date, "2028-01-01T00:00:00Z");
        let comment = change.text("comment").map(|text| text.value.to_owned());
        Some(PlannedChange {
            new_status: status?.value,
            effective_ms: date?.value,
            comment,
        })
    };
    items.iter().filter_map(read).collect()
}

fn rate_limit(reader: &mut Reader<'_, '_>, key: &str) -> Option<RateLimit> {
    let node = reader.node(key)?;
    let mut limit = inside(reader, key, node, keys::RATE_LIMIT)?;
    let requests = limit.parse("requests", values::number(0, u64::MAX, "requests"));
    let requests = limit.required("requests", requests, "1000");
    let seconds = limit.parse("interval_seconds", values::number(1, 1 << 32, "seconds"));
    let seconds = limit.required("interval_seconds", seconds, "60");
    let scope = limit.parse("scope", |text| {
        if SCOPES.contains(&text) {
            Ok(text.to_owned())
        } else {
            Err(format!("must be one of {}", SCOPES.join(", ")))
        }
    });
    Some(RateLimit {
        requests: requests?.value,
        interval_seconds: seconds?.value,
        scope: scope.map(|located| located.value),
    })
}

/// Valid scopes of a rate limit.
const SCOPES: &[&str] = &["ip", "asn", "subnet", "user-agent", "geography", "global"];

/// Returns a reader of the map `node` under `key`.
fn inside<'t, 'r>(
    reader: &'r mut Reader<'t, '_>,
    key: &str,
    node: &'t Node,
    known: &[&str],
) -> Option<Reader<'t, 'r>> {
    let (path, directory) = (reader.path_of(key), reader.directory());
    let section = keys::open(node, &path, known, reader.report())?;
    Some(Reader::new(section, path, directory, reader.report()))
}

//! `log.v3.json`: the metadata of a log for log lists.
//!
//! The file has the fields of version 3 of the log list, and the fields that operators publish for
//! their logs (`log-metadata-v1`, proposed on ct-policy and also published by Sunlight).

use std::borrow::Cow;
use std::collections::HashSet;

use base64_simd::STANDARD;
use http::StatusCode;
use lucarne_ct::Require;
use lucarne_log::{
    IntendedUse, Log, LogConfig, PlannedChange, Published, RateLimit, State, Status,
};
use serde::Serialize;

use crate::read_limits::{PublishedLimits, ReadLimits};
use crate::reply::{Response, plain, value};
use crate::timestamp::rfc3339;

/// The maximum merge delay. An SCT is returned only after its entry is in a published checkpoint,
/// so the value is the maximum age of a checkpoint.
pub(crate) const MMD_SECONDS: u32 = 60;

#[derive(Serialize)]
struct LogJson<'a> {
    description: &'a str,
    friendly_name: &'a str,
    log_id: String,
    key: String,
    mmd: u32,
    mmd_seconds: u32,
    log_spec: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_type: Option<&'static str>,
    intended_use: &'static str,
    tls_only: bool,
    submission_url: &'a str,
    monitoring_url: &'a str,
    submission_endpoint: Endpoint<'a>,
    monitoring_endpoint: Endpoint<'a>,
    /// The limits for the requesting client. This field is not part of the log list.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_limits: Option<PublishedLimits>,
    /// The operator. A log list has these fields outside the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<Contact<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temporal_interval: Option<Interval>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_timestamp: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    planned_changes: Vec<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<ListState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_tree_head: Option<TreeHead>,
    log_software: Software,
}

/// The operator, with the names of the fields in a log list.
#[derive(Default, PartialEq, Serialize)]
struct Contact<'a> {
    name: &'a str,
    email: &'a [String],
}

#[derive(Serialize)]
struct Endpoint<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit: Option<Rate<'a>>,
}

#[derive(Serialize)]
struct Rate<'a> {
    requests: u64,
    interval_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
}

#[derive(Serialize)]
struct Change {
    new_status: &'static str,
    effective_date: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
}

#[derive(Serialize)]
struct Interval {
    start_inclusive: String,
    end_exclusive: String,
}

/// The state in the log list. A log only publishes its end: the operator of the list decides
/// whether the log is pending, qualified or usable.
#[derive(Serialize)]
struct ListState {
    readonly: ReadOnly,
}

#[derive(Serialize)]
struct ReadOnly {
    timestamp: String,
    final_tree_head: TreeHead,
}

#[derive(Clone, Serialize)]
struct TreeHead {
    sha256_root_hash: String,
    tree_size: u64,
    timestamp: u64,
}

#[derive(Serialize)]
struct Software {
    name: &'static str,
    version: &'static str,
}

/// Responds to a request for `log.v3.json`.
pub(crate) fn response(
    config: &LogConfig,
    state: &State,
    published: Option<&Published>,
    reads: Option<&ReadLimits>,
) -> Response {
    let json = render(config, state, published, reads);
    plain(StatusCode::OK, &value::JSON, &value::MINUTE, json)
}

/// Returns the current `log.v3.json` of a log, for a directory that another server serves with its
/// own limits.
pub fn log_json(log: &Log) -> Vec<u8> {
    render(log.config(), &log.state(), log.published().as_deref(), None)
}

fn render(
    config: &LogConfig,
    state: &State,
    published: Option<&Published>,
    reads: Option<&ReadLimits>,
) -> Vec<u8> {
    serde_json::to_vec_pretty(&describe(config, state, published, reads)).unwrap_or_default()
}

/// A log list, version 3, of the logs of this process. The operators of lists decide on the states.
#[derive(Serialize)]
struct Logs<'a> {
    version: &'static str,
    log_list_timestamp: String,
    operators: Vec<Operator<'a>>,
}

#[derive(Serialize)]
struct Operator<'a> {
    #[serde(flatten)]
    contact: Contact<'a>,
    logs: [&'static str; 0],
    tiled_logs: Vec<LogJson<'a>>,
}

/// The list of an operator's logs (`operator-list-v1`, Chrome's log policy of August 2026).
#[derive(Serialize)]
struct OperatorList<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    operator_name: &'a str,
    /// The URL of the metadata of each log.
    logs: Vec<Cow<'a, str>>,
}

const OPERATOR_LIST_SCHEMA: &str =
    "https://www.certificate-transparency.org/schemas/operator-list-v1.json";

/// Responds to a request for `operator.json`. `None` if the operator is unknown.
pub(crate) fn operator_list<'l>(logs: impl Iterator<Item = &'l Log>) -> Option<Response> {
    let mut operator = None;
    let mut urls = Vec::new();
    for log in logs {
        let config = log.config();
        operator = operator.or(config.metadata.operator.as_ref());
        urls.push(format!("{}log.v3.json", config.monitoring_prefix).into());
    }
    let operator = operator?;
    urls.extend(operator.logs_elsewhere.iter().map(Cow::from));
    let mut listed = HashSet::new();
    urls.retain(|url| listed.insert(url.clone()));
    let list = OperatorList {
        schema: OPERATOR_LIST_SCHEMA,
        operator_name: &operator.name,
        logs: urls,
    };
    let json = serde_json::to_vec_pretty(&list).unwrap_or_default();
    Some(plain(StatusCode::OK, &value::JSON, &value::MINUTE, json))
}

/// Responds to a request for `logs.v3.json`: all logs as one list. The name is empty if the
/// operator is unknown.
pub(crate) fn list<'l>(
    logs: impl Iterator<Item = &'l Log>,
    reads: Option<&ReadLimits>,
) -> Response {
    let mut operators: Vec<Operator<'_>> = Vec::new();
    let mut now_ms = 0;
    for log in logs {
        let config = log.config();
        now_ms = config.clock.now_ms();
        let mut json = describe(config, &log.state(), log.published().as_deref(), reads);
        let contact = json.operator.take().unwrap_or_default();
        match operators.iter_mut().find(|it| it.contact == contact) {
            Some(operator) => operator.tiled_logs.push(json),
            None => operators.push(Operator {
                contact,
                logs: [],
                tiled_logs: vec![json],
            }),
        }
    }
    let list = Logs {
        version: "3",
        log_list_timestamp: rfc3339(now_ms),
        operators,
    };
    let json = serde_json::to_vec_pretty(&list).unwrap_or_default();
    plain(StatusCode::OK, &value::JSON, &value::MINUTE, json)
}

fn describe<'a>(
    config: &'a LogConfig,
    state: &State,
    published: Option<&Published>,
    reads: Option<&ReadLimits>,
) -> LogJson<'a> {
    let retired = *state == State::Retired;
    let head = published.filter(|_| retired).map(|published| TreeHead {
        sha256_root_hash: published.root.to_string(),
        tree_size: published.size,
        timestamp: published.timestamp_ms,
    });
    let (policy, metadata) = (&config.policy, &config.metadata);
    let frozen = config.frozen_from().filter(|_| retired).map(rfc3339);
    let interval = policy.not_after_start.zip(policy.not_after_limit);
    LogJson {
        description: &config.description,
        friendly_name: &config.shortname,
        log_id: STANDARD.encode_to_string(config.key.log_id().0),
        key: STANDARD.encode_to_string(config.key.public_key_spki()),
        mmd: MMD_SECONDS,
        mmd_seconds: MMD_SECONDS,
        log_spec: "static-ct-api",
        log_type: match metadata.intended_use {
            IntendedUse::Production => Some("prod"),
            IntendedUse::Test => Some("test"),
            IntendedUse::Decommissioned => None,
        },
        intended_use: metadata.intended_use.as_str(),
        tls_only: is_tls_only(config),
        submission_url: &config.submission_prefix,
        monitoring_url: &config.monitoring_prefix,
        submission_endpoint: endpoint(
            &config.submission_prefix,
            metadata.submission_rate_limit.as_ref(),
        ),
        monitoring_endpoint: endpoint(
            &config.monitoring_prefix,
            metadata.monitoring_rate_limit.as_ref(),
        ),
        read_limits: reads.map(PublishedLimits::of),
        operator: metadata.operator.as_ref().map(|operator| Contact {
            name: &operator.name,
            email: &operator.emails,
        }),
        temporal_interval: interval.map(|(start, end)| Interval {
            start_inclusive: rfc3339(start),
            end_exclusive: rfc3339(end),
        }),
        status: if retired {
            Status::ReadOnly.as_str()
        } else {
            Status::Active.as_str()
        },
        status_timestamp: if retired {
            frozen.clone()
        } else {
            metadata.active_since.map(rfc3339)
        },
        planned_changes: planned_changes(config, retired),
        state: frozen
            .zip(head.clone())
            .map(|(timestamp, final_tree_head)| {
                let readonly = ReadOnly {
                    timestamp,
                    final_tree_head,
                };
                ListState { readonly }
            }),
        final_tree_head: head,
        log_software: Software {
            name: "Lucarne",
            version: env!("CARGO_PKG_VERSION"),
        },
    }
}

/// Returns `true` if the log accepts only certificates for servers (or for any purpose, which
/// includes servers), and both prefixes begin with `https://`.
fn is_tls_only(config: &LogConfig) -> bool {
    let prefixes = [&config.submission_prefix, &config.monitoring_prefix];
    config.policy.require == Require::ServerAuth
        && prefixes.iter().all(|url| url.starts_with("https://"))
}

fn endpoint<'a>(url: &'a str, limit: Option<&'a RateLimit>) -> Endpoint<'a> {
    let rate_limit = limit.map(|limit| Rate {
        requests: limit.requests,
        interval_seconds: limit.interval_seconds,
        scope: limit.scope.as_deref(),
    });
    Endpoint { url, rate_limit }
}

/// Returns the planned changes in order: the changes of the operator, and the freeze unless an
/// earlier change freezes the log.
fn planned_changes(config: &LogConfig, retired: bool) -> Vec<Change> {
    let now = config.clock.now_ms();
    let planned = config.metadata.planned_changes.iter();
    let mut changes: Vec<_> = planned.filter(|it| it.effective_ms > now).collect();
    let freeze = config.frozen_from().map(|effective_ms| PlannedChange {
        new_status: Status::ReadOnly,
        effective_ms,
        comment: None,
    });
    let freezes_before = |freeze: &PlannedChange| {
        let mut changes = changes.iter();
        changes
            .any(|it| it.new_status == Status::ReadOnly && it.effective_ms <= freeze.effective_ms)
    };
    let freeze = freeze.filter(|freeze| !retired && !freezes_before(freeze));
    changes.extend(&freeze);
    changes.sort_by_key(|it| it.effective_ms);
    changes
        .into_iter()
        .map(|it| Change {
            new_status: it.new_status.as_str(),
            effective_date: rfc3339(it.effective_ms),
            comment: it.comment.clone(),
        })
        .collect()
}

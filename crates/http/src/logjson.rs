//! `log.v3.json`: what a log-list application asks for.
//!
//! The fields of the log list's version 3, and those that Sunlight adds.

use base64_simd::STANDARD;
use http::StatusCode;
use jiff::Timestamp;
use lucarne_ct::Require;
use lucarne_log::{Log, LogConfig, Published, State};
use serde::Serialize;

use crate::reply::{Response, plain, value};

/// The maximum merge delay. An SCT is given only once its entry is in a
/// published checkpoint, so this is the largest age of a checkpoint.
const MMD_SECONDS: u32 = 60;

#[derive(Serialize)]
struct LogJson<'a> {
    description: &'a str,
    friendly_name: &'a str,
    log_id: String,
    key: String,
    mmd: u32,
    mmd_seconds: u32,
    log_spec: &'static str,
    log_type: &'static str,
    tls_only: bool,
    submission_url: &'a str,
    monitoring_url: &'a str,
    submission_endpoint: Url<'a>,
    monitoring_endpoint: Url<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temporal_interval: Option<Interval>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<ListState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_tree_head: Option<TreeHead>,
    log_software: Software,
}

#[derive(Serialize)]
struct Url<'a> {
    url: &'a str,
}

#[derive(Serialize)]
struct Interval {
    start_inclusive: String,
    end_exclusive: String,
}

/// The log list's state. Only the end is for the log to say: whether it is
/// pending, qualified or usable is what the list's keeper judges.
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

/// Answers a request for `log.v3.json`.
pub(crate) fn answer(config: &LogConfig, state: &State, published: Option<&Published>) -> Response {
    let json = render(config, state, published);
    plain(StatusCode::OK, &value::JSON, &value::MINUTE, json)
}

/// `log.v3.json` of a log as it is now, for a directory that another server
/// serves.
pub fn log_json(log: &Log) -> Vec<u8> {
    render(log.config(), &log.state(), log.published().as_deref())
}

fn render(config: &LogConfig, state: &State, published: Option<&Published>) -> Vec<u8> {
    let retired = *state == State::Retired;
    let head = published.filter(|_| retired).map(|published| TreeHead {
        sha256_root_hash: published.root.to_string(),
        tree_size: published.size,
        timestamp: published.timestamp_ms,
    });
    let policy = &config.policy;
    let interval = policy.not_after_start.zip(policy.not_after_limit);
    let json = LogJson {
        description: &config.description,
        friendly_name: &config.shortname,
        log_id: STANDARD.encode_to_string(config.key.log_id().0),
        key: STANDARD.encode_to_string(config.key.public_key_spki()),
        mmd: MMD_SECONDS,
        mmd_seconds: MMD_SECONDS,
        log_spec: "static-ct-api",
        // A log without a window, or that takes any certificate, is for tests.
        log_type: match policy.require {
            Require::ServerAuth if interval.is_some() => "prod",
            _ => "test",
        },
        tls_only: policy.require == Require::ServerAuth,
        submission_url: &config.submission_prefix,
        monitoring_url: &config.monitoring_prefix,
        submission_endpoint: Url {
            url: &config.submission_prefix,
        },
        monitoring_endpoint: Url {
            url: &config.monitoring_prefix,
        },
        temporal_interval: interval.map(|(start, end)| Interval {
            start_inclusive: rfc3339(start),
            end_exclusive: rfc3339(end),
        }),
        status: if retired { "readonly" } else { "active" },
        state: head.clone().map(|final_tree_head| ListState {
            readonly: ReadOnly {
                timestamp: rfc3339(final_tree_head.timestamp),
                final_tree_head,
            },
        }),
        final_tree_head: head,
        log_software: Software {
            name: "Lucarne",
            version: env!("CARGO_PKG_VERSION"),
        },
    };
    serde_json::to_vec_pretty(&json).unwrap_or_default()
}

/// Milliseconds since 1970 as `2026-01-01T00:00:00Z`.
pub(crate) fn rfc3339(ms: u64) -> String {
    match i64::try_from(ms).map(Timestamp::from_millisecond) {
        Ok(Ok(timestamp)) => timestamp.to_string(),
        _ => format!("{ms} ms after 1970"),
    }
}

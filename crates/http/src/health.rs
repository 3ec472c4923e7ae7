//! `/health`: the truth about every log.

use futures_util::future::join_all;
use http::StatusCode;
use lucarne_log::{Log, State};
use serde::Serialize;

use crate::reply::{Response, plain, value};

#[derive(Serialize)]
struct Report<'a> {
    status: &'static str,
    logs: Vec<LogReport<'a>>,
}

#[derive(Serialize)]
struct LogReport<'a> {
    name: &'a str,
    healthy: bool,
    state: &'static str,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    detail: String,
}

/// 200 if every log that should run is healthy, else 503; which and why is in
/// the body. A retired log need not run, but has to be readable.
pub(crate) async fn answer<'a>(logs: impl Iterator<Item = &'a Log>) -> Response {
    // Side by side: a log whose disk does not answer keeps no other waiting.
    let logs = join_all(logs.map(report)).await;
    let healthy = logs.iter().all(|log| log.healthy);
    let (status, words) = match healthy {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failing"),
    };
    let report = Report {
        status: words,
        logs,
    };
    let json = serde_json::to_vec_pretty(&report).unwrap_or_default();
    plain(status, &value::JSON, &value::NO_STORE, json)
}

async fn report(log: &Log) -> LogReport<'_> {
    // Before the checks, so that these are never older.
    let state = log.state();
    let health = log.health().await;
    LogReport {
        name: &log.config().shortname,
        healthy: health.ok(),
        state: state_name(&state),
        checks: health
            .checks
            .into_iter()
            .map(|check| Check {
                name: check.name,
                ok: check.ok,
                detail: check.detail,
            })
            .collect(),
    }
}

/// One word for a state.
pub(crate) fn state_name(state: &State) -> &'static str {
    match state {
        State::Starting => "starting",
        State::Running => "running",
        State::Following { .. } => "following",
        State::Stopped { .. } => "stopped",
        State::Retired => "retired",
        State::Closed => "closed",
    }
}

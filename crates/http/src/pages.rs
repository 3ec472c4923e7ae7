//! Web pages: the list of logs, and the state of each log.
//!
//! The server renders the facts. A few dozen lines of JavaScript draw the chart and verify the
//! checkpoint's signature. There is no chart library: one line over five minutes is a `polyline`,
//! and a bundled library would be the largest file of the repository and the least reviewed.
//! Nothing is inline, so that the content security policy forbids every other script.

use std::time::Duration;

use askama::Template;
use base64_simd::STANDARD;
use futures_util::future::join_all;
use http::header::CONTENT_SECURITY_POLICY;
use http::{HeaderValue, StatusCode};
use lucarne_log::{Check, Log, Operator, State, WitnessState};
use lucarne_x509::text::counted;
use serde::Serialize;

use crate::health::state_name;
use crate::logjson::MMD_SECONDS;
use crate::read_limits::ReadLimits;
use crate::reply::{Response, plain, value};
use crate::site::Cosigners;
use crate::timestamp::rfc3339;

#[derive(Template)]
#[template(path = "index.html")]
struct Index {
    /// Each log, with its last checkpoint that each witness or mirror of this site has cosigned.
    logs: Vec<(Summary, Vec<(String, String)>)>,
}

struct Summary {
    name: String,
    description: String,
    page: String,
    state: &'static str,
    size: String,
    rate: String,
    window: String,
}

#[derive(Template)]
#[template(path = "log.html")]
struct LogPage {
    summary: Summary,
    reason: Option<String>,
    origin: String,
    submission: String,
    monitoring: String,
    log_id: String,
    key: String,
    root: String,
    timestamp: String,
    p50: String,
    p99: String,
    mmd: u32,
    operator: Option<Operator>,
    /// The verifier key of the second signature, if this process has the key.
    cosigner: Option<String>,
    witnesses: Vec<WitnessRow>,
    checks: Vec<Check>,
    roots: Vec<RootRow>,
    limits: Vec<String>,
    version: &'static str,
}

struct WitnessRow {
    name: String,
    key: String,
    cosigned: String,
    stored: String,
    problem: String,
}

struct RootRow {
    subject: String,
    not_after: String,
}

/// Returns `/`: the list of logs.
pub(crate) async fn index<'a>(
    logs: impl Iterator<Item = &'a Log>,
    cosigners: &Cosigners,
) -> Response {
    let row = async |log: &Log| {
        let origin = &log.config().origin;
        let services = cosigners.services();
        let services = services.filter(|it| it.signer().logs().of(origin).is_some());
        let cosigned = services.map(async |it| {
            let name = format!("{} ({})", it.name(), it.served().resources.noun);
            (name, checkpoint(it.cosigned(origin).await))
        });
        (summary(log), join_all(cosigned).await)
    };
    let logs = join_all(logs.map(row)).await;
    page(&Index { logs })
}

/// Formats the size and the time of a cosigned checkpoint.
fn checkpoint(cosigned: Option<(u64, u64)>) -> String {
    cosigned.map_or_else(
        || "nothing yet".into(),
        |(size, seconds)| {
            let time = rfc3339(seconds.saturating_mul(1000));
            format!("{} at {time}", counted(size, "entry"))
        },
    )
}

/// Returns the page of a log.
pub(crate) async fn log(log: &Log, reads: Option<&ReadLimits>) -> Response {
    let (config, stats, published) = (log.config(), log.stats(), log.published());
    let published = published.as_deref();
    let roots = log.roots();
    let roots = roots.iter().map(|root| RootRow {
        subject: root.subject(),
        not_after: root.not_after().map_or_else(String::new, date),
    });
    let template = LogPage {
        summary: summary(log),
        reason: match log.state() {
            State::Stopped {
                reason,
                retry_at_ms,
                ..
            } => Some(format!(
                "{} (next attempt at {})",
                log.public(&reason),
                rfc3339(retry_at_ms)
            )),
            _ => None,
        },
        origin: config.origin.clone(),
        submission: config.submission_prefix.clone(),
        monitoring: config.monitoring_prefix.clone(),
        log_id: STANDARD.encode_to_string(config.key.log_id().0),
        key: STANDARD.encode_to_string(config.key.public_key_spki()),
        root: published.map_or_else(String::new, |p| p.root.to_string()),
        timestamp: published.map_or_else(|| "none yet".into(), |p| rfc3339(p.timestamp_ms)),
        p50: milliseconds(stats.latency_p50),
        p99: milliseconds(stats.latency_p99),
        mmd: MMD_SECONDS,
        operator: config.metadata.operator.clone(),
        cosigner: config.key.cosigner(&config.origin),
        witnesses: log
            .witnesses()
            .into_iter()
            .map(|it| witness(log, it))
            .collect(),
        checks: checks(log).await,
        roots: roots.collect(),
        limits: reads.map_or_else(Vec::new, ReadLimits::in_words),
        version: env!("CARGO_PKG_VERSION"),
    };
    page(&template)
}

fn witness(log: &Log, state: WitnessState) -> WitnessRow {
    WitnessRow {
        name: state.name,
        key: state.key,
        cosigned: checkpoint(state.cosigned),
        stored: state.stored.map_or_else(String::new, |entries| {
            format!("has {}", counted(entries, "entry"))
        }),
        problem: log.public(&state.problem.unwrap_or_default()),
    }
}

/// Returns the health checks without private details.
async fn checks(log: &Log) -> Vec<Check> {
    let mut checks = log.health().await.checks;
    for check in &mut checks {
        check.detail = log.public(&check.detail);
    }
    checks
}

fn summary(log: &Log) -> Summary {
    let config = log.config();
    let window = match (config.policy.not_after_start, config.policy.not_after_limit) {
        (None, None) => "any notAfter".to_owned(),
        (start, limit) => {
            let date = |ms: Option<u64>| ms.map_or_else(|| "…".to_owned(), rfc3339);
            format!("{} to {}", date(start), date(limit))
        }
    };
    Summary {
        name: config.shortname.clone(),
        description: config.description.clone(),
        page: config.monitoring_prefix.clone(),
        state: state_name(&log.state()),
        size: grouped(log.published().map_or(0, |published| published.size)),
        rate: format!("{:.1}", log.stats().entries_per_second),
        window,
    }
}

/// The values that the page's script fetches every two seconds.
#[derive(Serialize)]
struct Feed {
    state: &'static str,
    size: u64,
    timestamp_ms: u64,
    entries_per_second: f64,
    latency_p50_ms: f64,
    latency_p99_ms: f64,
    pool_depth: usize,
    round_entries: usize,
    round_ms: f64,
}

/// Returns `stats.json`: the recent statistics of a log.
pub(crate) fn stats(log: &Log) -> Response {
    let (stats, published) = (log.stats(), log.published());
    let ms = |duration: Duration| (duration.as_secs_f64() * 1e5).round() / 100.0;
    let feed = Feed {
        state: state_name(&log.state()),
        size: published.as_ref().map_or(0, |p| p.size),
        timestamp_ms: published.as_ref().map_or(0, |p| p.timestamp_ms),
        entries_per_second: stats.entries_per_second,
        latency_p50_ms: ms(stats.latency_p50),
        latency_p99_ms: ms(stats.latency_p99),
        pool_depth: stats.pool_depth,
        round_entries: stats.round_entries,
        round_ms: ms(stats.round_duration),
    };
    let json = serde_json::to_vec(&feed).unwrap_or_default();
    plain(StatusCode::OK, &value::JSON, &value::NO_STORE, json)
}

pub(crate) fn style() -> Response {
    let css = include_bytes!("../assets/page.css");
    plain(StatusCode::OK, &value::CSS, &value::MINUTE, &css[..])
}

pub(crate) fn script() -> Response {
    let js = include_bytes!("../assets/page.js");
    plain(StatusCode::OK, &value::JAVASCRIPT, &value::MINUTE, &js[..])
}

pub(crate) fn page(template: &impl Template) -> Response {
    const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    // The templates only render numbers and strings, which never fails.
    let html = template.render().unwrap_or_default();
    let mut response = plain(StatusCode::OK, &value::HTML, &value::NO_STORE, html);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// Formats a latency; zero means that nothing was measured.
fn milliseconds(duration: Duration) -> String {
    if duration.is_zero() {
        "–".to_owned()
    } else {
        format!("{:.1}", duration.as_secs_f64() * 1e3)
    }
}

/// Formats Unix milliseconds as a date; times before 1970 become 1970-01-01.
fn date(ms: i64) -> String {
    let text = rfc3339(u64::try_from(ms).unwrap_or_default());
    text.split('T').next().unwrap_or_default().to_owned()
}

/// Formats `1234567` as `1 234 567`, with narrow spaces.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_without_measurements_are_not_zero() {
        assert_eq!(milliseconds(Duration::ZERO), "–");
        assert_eq!(milliseconds(Duration::from_micros(12_345)), "12.3");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1\u{202f}000");
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(1_767_225_599_000), "2025-12-31");
    }
}

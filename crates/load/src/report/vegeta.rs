//! Report in vegeta's format, for users and scripts of vegeta.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::format;
use super::statistics::{Statistics, count, per, share};
use crate::{Metric, Summary};

/// Formats the lines of `vegeta report` with the same labels and columns.
///
/// The attack lasts from the first to the last sent request. The wait lasts from the end of the
/// attack to the last completion. The rate counts requests during the attack. The throughput counts
/// successes during attack and wait. Latencies count from the intended start. Only bytes of bodies
/// are counted. Code 0 means no response.
pub fn vegeta(summary: &Summary) -> String {
    let requests = count(summary.total("http_reqs").as_ref());
    let (failed, total) = share(summary.total("http_req_failed").as_ref());
    let successes = total.saturating_sub(failed);
    let (attack, wait) = (summary.attack, summary.wait);
    let figures = figures(summary);
    let latencies = [
        figures.min,
        figures.avg,
        figures.med,
        figures.p90,
        figures.p95,
        figures.p99,
        figures.max,
    ];
    let latencies = latencies.map(go_duration).join(", ");
    let mut out = String::new();
    let mut row = |label: &str, columns: &str, values: String| {
        let _ = writeln!(out, "{label:<14}{columns:<34}{}", values.trim_end());
    };
    row(
        "Requests",
        "[total, rate, throughput]",
        format!(
            "{requests}, {:.2}, {:.2}",
            per(requests, attack),
            per(successes, attack + wait)
        ),
    );
    row(
        "Duration",
        "[total, attack, wait]",
        [attack + wait, attack, wait]
            .map(|s| go_duration(s * 1e3))
            .join(", "),
    );
    row("Latencies", "[min, mean, 50, 90, 95, 99, max]", latencies);
    row(
        "Bytes In",
        "[total, mean]",
        bytes(summary, "body_received", requests),
    );
    row(
        "Bytes Out",
        "[total, mean]",
        bytes(summary, "body_sent", requests),
    );
    row(
        "Success",
        "[ratio]",
        format!("{:.2}%", 100.0 * successes as f64 / total.max(1) as f64),
    );
    row("Status Codes", "[code:count]", codes(summary));
    out.push_str("Error Set:\n");
    for error in &summary.errors {
        let text = match error.example() {
            "" => error.kind.clone(),
            detail => format!("{}: {detail}", error.kind),
        };
        let _ = writeln!(out, "{}", format::printable(&text));
    }
    out
}

fn figures(summary: &Summary) -> Statistics {
    let metric: Option<Metric> = summary.total("http_req_duration");
    Statistics::of_metric(metric.as_ref()).unwrap_or_default()
}

fn bytes(summary: &Summary, metric: &str, requests: u64) -> String {
    let total = count(summary.total(metric).as_ref());
    format!("{total}, {:.2}", total as f64 / requests.max(1) as f64)
}

/// Formats `0:3  200:997`, in ascending order.
fn codes(summary: &Summary) -> String {
    let mut codes = BTreeMap::<u16, u64>::new();
    for status in &summary.statuses {
        *codes.entry(status.code).or_default() += status.count;
    }
    let codes: Vec<_> = codes
        .iter()
        .map(|(code, count)| format!("{code}:{count}"))
        .collect();
    codes.join("  ")
}

/// Formats milliseconds like Go's durations, cut to a few digits: `1.234ms`, `1m0.5s`.
fn go_duration(ms: f64) -> String {
    let duration = Duration::from_secs_f64((ms / 1e3).max(0.0));
    let trimmed = |value: f64| {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let seconds = duration.as_secs_f64();
    match seconds {
        0.0 => "0s".to_owned(),
        s if s < 1e-3 => format!("{}µs", trimmed(s * 1e6)),
        s if s < 1.0 => format!("{}ms", trimmed(s * 1e3)),
        s if s < 60.0 => format!("{}s", trimmed(s)),
        s if s < 3600.0 => format!("{}m{}s", duration.as_secs() / 60, trimmed(s % 60.0)),
        s => format!(
            "{}h{}m{}s",
            duration.as_secs() / 3600,
            duration.as_secs() / 60 % 60,
            trimmed(s % 60.0)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_lines_are_vegetas() {
        insta::assert_snapshot!("vegeta", vegeta(&sample::summary()));
    }

    #[test]
    fn a_run_without_requests_has_all_lines_too() {
        let text = vegeta(&Summary::default());
        assert_eq!(text.lines().count(), 8, "{text}");
        assert!(!text.contains("NaN"), "{text}");
    }

    #[test]
    fn durations_are_gos() {
        let cases = [
            (0.0, "0s"),
            (0.0125, "12.5µs"),
            (1.5, "1.5ms"),
            (2500.0, "2.5s"),
        ];
        for (ms, expected) in cases {
            assert_eq!(go_duration(ms), expected);
        }
        assert_eq!(go_duration(90_500.0), "1m30.5s");
        assert_eq!(go_duration(3_661_000.0), "1h1m1s");
    }
}

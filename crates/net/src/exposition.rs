//! The formats of metrics.

use std::fmt::Write as _;

use http::HeaderMap;
use http::header::ACCEPT;

/// Content type of the OpenMetrics text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of the text format of Prometheus.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns metrics in the format that the client accepts, with its content type. The format is
/// OpenMetrics if `Accept` names it. Otherwise the format is the text format 0.0.4 of Prometheus,
/// which every scraper can read.
///
/// `metrics` are in the OpenMetrics text format.
pub fn exposition(headers: &HeaderMap, metrics: String) -> (&'static str, String) {
    if accepts_open_metrics(headers) {
        (OPEN_METRICS, metrics)
    } else {
        (TEXT, text_format(&metrics))
    }
}

fn accepts_open_metrics(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    let mut ranges = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let is_zero = |weight: &str| weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0);
        let is_refused = parts.any(|part| part.strip_prefix("q=").is_some_and(is_zero));
        kind.eq_ignore_ascii_case("application/openmetrics-text") && !is_refused
    })
}

/// Converts the OpenMetrics text format to the text format 0.0.4. In that format, the names of
/// counter families have the suffix of their samples, and there are no `UNIT` and `EOF` lines.
fn text_format(metrics: &str) -> String {
    let mut text = String::with_capacity(metrics.len());
    let mut help = "";
    for line in metrics.lines() {
        let pair = |start: &str| line.strip_prefix(start)?.split_once(' ');
        if let Some((_, of_family)) = pair("# HELP ") {
            help = of_family;
        } else if let Some((name, kind)) = pair("# TYPE ") {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            // Writing to a string never fails.
            let _ = writeln!(text, "# HELP {name}{suffix} {help}");
            let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "\
# HELP a_requests Requests, by code.
# TYPE a_requests counter
a_requests_total{code=\"200\"} 3
a_requests_total{code=\"404\"} 1
# HELP a_duration_seconds Time.
# TYPE a_duration_seconds histogram
# UNIT a_duration_seconds seconds
a_duration_seconds_sum 0.5
a_duration_seconds_count 1
a_duration_seconds_bucket{le=\"+Inf\"} 1
# HELP a_build Build.
# TYPE a_build info
a_build_info{version=\"1\"} 1
# EOF
";

    fn accepting(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn open_metrics_is_for_those_that_accept_it() {
        for (accept, open) in [
            (&[][..], false),
            (&["*/*"], false),
            (&["text/plain;version=0.0.4"], false),
            (&["application/openmetrics-text;version=1.0.0"], true),
            (
                &["text/plain;q=0.5, Application/OpenMetrics-Text; q=0.4"],
                true,
            ),
            (&["text/plain", "application/openmetrics-text"], true),
            (
                &["application/openmetrics-text;version=1.0.0;q=0, */*"],
                false,
            ),
        ] {
            let (kind, text) = exposition(&accepting(accept), METRICS.to_owned());
            assert_eq!(kind == OPEN_METRICS, open, "{accept:?}");
            assert_eq!(text == METRICS, open, "{accept:?}");
        }
    }

    #[test]
    fn the_text_format_has_its_own_names_and_types() {
        let expected = "\
# HELP a_requests_total Requests, by code.
# TYPE a_requests_total counter
a_requests_total{code=\"200\"} 3
a_requests_total{code=\"404\"} 1
# HELP a_duration_seconds Time.
# TYPE a_duration_seconds histogram
a_duration_seconds_sum 0.5
a_duration_seconds_count 1
a_duration_seconds_bucket{le=\"+Inf\"} 1
# HELP a_build_info Build.
# TYPE a_build_info gauge
a_build_info{version=\"1\"} 1
";
        assert_eq!(text_format(METRICS), expected);
    }
}

//! Both sides of a threshold with their unit.

use super::format;
use crate::threshold::ThresholdResult;

/// Returns the left side of an expression: `p(95)` of `p(95)<500`.
pub(super) fn left_side(expression: &str) -> &str {
    let end = expression
        .find(['<', '>', '=', '!'])
        .unwrap_or(expression.len());
    expression[..end].trim()
}

/// Formats the observed value of a threshold in its unit; `None` without samples.
pub(crate) fn observed(threshold: &ThresholdResult) -> Option<String> {
    let value = threshold.observed?;
    let metric = &threshold.metric;
    let name = metric.split('{').next().unwrap_or(metric).trim();
    let statistic = left_side(&threshold.expression);
    let is_share = statistic == "rate" && !name.ends_with("reqs");
    let is_count = ["count", "value"].contains(&statistic);
    let is_trend = !is_count && statistic != "rate";
    Some(match () {
        () if is_trend && (name.contains("duration") || name.starts_with("http_req_")) => {
            format::duration(value)
        }
        () if is_share && (0.0..=1.0).contains(&value) => format!("{}%", percentage(value)),
        () if is_count && value.fract() == 0.0 => format!("{value:.0}"),
        () => format::significant(value),
    })
}

/// Returns the reason of a failure that the observed value does not show.
pub(super) fn reason(threshold: &ThresholdResult) -> Option<&str> {
    let failed = !threshold.passed && threshold.observed.is_some();
    threshold.reason.as_deref().filter(|_| failed)
}

fn percentage(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p > 0.0 && p < 0.01 => format!("{p:.4}"),
        p if p > 0.0 && p < 1.0 => format!("{p:.3}"),
        p if p > 99.99 && p < 100.0 => format!("{p:.4}"),
        p => format!("{p:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_threshold_saw_has_its_unit() {
        for (metric, expression, value, shown) in [
            ("http_req_duration{op:x}", "p(95)<500", 25.6, "25.6ms"),
            ("http_req_failed", "rate<0.01", 0.00075, "0.075%"),
            ("http_reqs", "rate>100", 798.2, "798"),
            ("iterations", "count>100", 47_940.0, "47940"),
            ("vus", "value<10", 3.0, "3"),
        ] {
            let threshold = ThresholdResult {
                metric: metric.into(),
                expression: expression.into(),
                observed: Some(value),
                ..ThresholdResult::default()
            };
            assert_eq!(observed(&threshold).as_deref(), Some(shown));
        }
    }
}

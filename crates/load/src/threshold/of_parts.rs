//! Limits of failures for each part of a scenario.
//!
//! A threshold on all requests cannot show that one part of them always fails, if other parts send
//! many more requests. Therefore each threshold on failures also applies to the parts that it
//! covers.

use std::collections::BTreeMap;

use super::{Aggregation, Threshold, ThresholdResult};
use crate::metric::Metric;
use crate::summary::{Series, Summary};
use crate::tags::{distinguishes_parts, key};

/// Rates of failures, whose limits apply to each part.
const FAILURES: [&str; 2] = ["http_req_failed", "http_req_reset"];

/// Requests from which a part must have a success.
const ALL_FAILED: u64 = 10;

/// Requests from which the limit of a threshold applies to a part.
const LIMIT: u64 = 100;

/// Tags of a part, in ascending order of names.
type Tags<'s> = Vec<(&'s str, &'s str)>;

/// Returns the results of the parts that cross a threshold on failures.
pub(crate) fn crossed(summary: &Summary, thresholds: &[Threshold]) -> Vec<ThresholdResult> {
    let parts = FAILURES.iter().flat_map(|metric| {
        let rates = rates(metric, &summary.series);
        rates.into_iter().filter_map(|(tags, (failed, requests))| {
            let mut limits = most_specific(metric, &tags, thresholds);
            limits.find_map(|limit| limit.of_part(summary, &tags, failed, requests))
        })
    });
    parts.collect()
}

/// Returns the failures and the requests of each part.
fn rates<'s>(metric: &str, series: &'s [Series]) -> BTreeMap<Tags<'s>, (u64, u64)> {
    let mut rates: BTreeMap<Tags<'s>, (u64, u64)> = BTreeMap::new();
    for series in series {
        let Some(Metric::Rate { good, total }) = series.metrics.get(metric) else {
            continue;
        };
        let tags = series.tags.iter();
        let tags = tags.map(|(name, value)| (name.as_str(), value.as_str()));
        let tags = tags.filter(|(name, _)| distinguishes_parts(name)).collect();
        let (failed, requests) = rates.entry(tags).or_default();
        *failed = failed.saturating_add(*good);
        *requests = requests.saturating_add(*total);
    }
    rates
}

/// Returns the thresholds on the part with the most tags: `http_req_failed{op:list}` applies to
/// the part `list` instead of `http_req_failed`.
fn most_specific<'t>(
    metric: &str,
    part: &Tags<'_>,
    thresholds: &'t [Threshold],
) -> impl Iterator<Item = &'t Threshold> {
    let covers = |threshold: &&Threshold| {
        let mut tags = threshold.tags.iter();
        threshold.metric == metric
            && threshold.aggregation == Aggregation::Rate
            && tags.all(|(name, value)| part.contains(&(name.as_str(), value.as_str())))
    };
    let covering: Vec<_> = thresholds.iter().filter(covers).collect();
    let most = covering.iter().map(|it| it.tags.len()).max();
    covering
        .into_iter()
        .filter(move |it| Some(it.tags.len()) == most)
}

impl Threshold {
    /// Returns the result of a part that crosses this threshold.
    fn of_part(
        &self,
        summary: &Summary,
        part: &Tags<'_>,
        failed: u64,
        requests: u64,
    ) -> Option<ThresholdResult> {
        let observed = failed as f64 / requests.max(1) as f64;
        let (expression, reason) = match requests {
            _ if self.operator.holds(1.0, self.bound) => return None,
            LIMIT.. if !self.operator.holds(observed, self.bound) => (
                self.expression.clone(),
                format!("the limit applies to each part of {LIMIT} requests or more"),
            ),
            ALL_FAILED.. if failed == requests => (
                "rate<1".to_owned(),
                "no request of this part had success".to_owned(),
            ),
            _ => return None,
        };
        let tags: Vec<_> = self.tags.iter().map(|(n, v)| (&**n, &**v)).collect();
        let judged = summary.select(&self.metric, &tags)?.samples();
        // The threshold itself has judged a part that is everything it covers.
        (judged != requests).then(|| ThresholdResult {
            metric: key(&self.metric, part),
            expression,
            observed: Some(observed),
            samples: requests,
            built_in: true,
            part: true,
            reason: Some(reason),
            ..ThresholdResult::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the crossed parts of a run with these parts, each with its failures and requests.
    fn crossed_parts(parts: &[(&str, u64, u64)], thresholds: &[&str]) -> Vec<String> {
        let series = parts.iter().map(|(tags, good, total)| {
            let tags = tags.split(',').filter_map(|tag| tag.split_once(':'));
            let rate = Metric::Rate {
                good: *good,
                total: *total,
            };
            Series {
                tags: tags.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
                metrics: [("http_req_failed".to_owned(), rate)].into(),
            }
        });
        let summary = Summary {
            series: series.collect(),
            ..Summary::default()
        };
        let thresholds = thresholds.iter().map(|line| Threshold::parse(line));
        let thresholds: Vec<_> = thresholds.map(Result::unwrap).collect();
        let crossed = crossed(&summary, &thresholds).into_iter().map(|result| {
            assert!(!result.passed && result.part && result.built_in);
            format!("{}: {}", result.metric, result.expression)
        });
        crossed.collect()
    }

    const DEFAULT: &str = "http_req_failed: rate<0.01";
    const OTHERS: (&str, u64, u64) = ("op:get", 0, 1_000_000);

    #[test]
    fn a_part_without_success_is_crossed_from_ten_requests_on() {
        let put = |failed, requests| {
            crossed_parts(
                &[OTHERS, ("op:put,size:4KiB", failed, requests)],
                &[DEFAULT],
            )
        };
        assert_eq!(put(10, 10), ["http_req_failed{op:put,size:4KiB}: rate<1"]);
        assert_eq!(put(99, 99), ["http_req_failed{op:put,size:4KiB}: rate<1"]);
        assert!(put(9, 9).is_empty() && put(9, 10).is_empty());
    }

    #[test]
    fn the_limit_applies_to_a_part_from_a_hundred_requests_on() {
        let put =
            |failed, requests| crossed_parts(&[OTHERS, ("op:put", failed, requests)], &[DEFAULT]);
        assert_eq!(put(1, 100), ["http_req_failed{op:put}: rate<0.01"]);
        assert_eq!(put(100, 100), ["http_req_failed{op:put}: rate<0.01"]);
        assert!(put(50, 99).is_empty() && put(1, 101).is_empty());
    }

    #[test]
    fn the_most_specific_threshold_applies_to_a_part() {
        let parts = [
            OTHERS,
            ("op:put,size:1", 40, 40),
            ("op:put,size:2", 60, 200),
        ];
        let crossed = |own: &[&str]| crossed_parts(&parts, &[&[DEFAULT], own].concat());
        assert_eq!(
            crossed(&[]),
            [
                "http_req_failed{op:put,size:1}: rate<1",
                "http_req_failed{op:put,size:2}: rate<0.01"
            ]
        );
        assert!(crossed(&["http_req_failed{op:put}: rate<=1"]).is_empty());
        assert_eq!(
            crossed(&["http_req_failed{op:put}: rate<0.5"]),
            ["http_req_failed{op:put,size:1}: rate<1"]
        );
        assert_eq!(
            crossed(&["http_req_failed{size:2}: rate<0.5"]),
            ["http_req_failed{op:put,size:1}: rate<1"]
        );
        assert!(crossed_parts(&parts, &["http_req_failed: rate<=1"]).is_empty());
        assert!(crossed_parts(&parts, &[]).is_empty(), "nothing to apply");
    }

    /// A connection that fails has no handshake, so `handshake:none` never has a success.
    #[test]
    fn tags_that_state_a_result_are_no_parts() {
        let parts = [("handshake:full", 0, 100_000), ("handshake:none", 50, 50)];
        assert!(crossed_parts(&parts, &[DEFAULT]).is_empty());
    }

    #[test]
    fn a_threshold_that_judges_one_part_has_one_result() {
        assert!(crossed_parts(&[("op:put", 200, 200)], &[DEFAULT]).is_empty());
    }
}

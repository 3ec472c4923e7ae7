//! Metrics that a threshold can name, and the aggregations of each kind of metric.

use lucarne_settings::nearest;

use super::{Aggregation, Threshold, ThresholdProblem};
use crate::scenario::OwnMetrics;

/// Metrics of every scenario, each with its kind.
pub(crate) const EVERY_SCENARIO: &[(&str, &str)] = &[
    ("achieved_rate", "rate"),
    ("body_received", "counter"),
    ("body_sent", "counter"),
    ("checks", "rate"),
    ("connections_ipv4", "counter"),
    ("connections_ipv6", "counter"),
    ("data_received", "counter"),
    ("data_sent", "counter"),
    ("dropped_iterations", "counter"),
    ("errors", "counter"),
    ("http_req_connecting", "trend"),
    ("http_req_duration", "trend"),
    ("http_req_failed", "rate"),
    ("http_req_receiving", "trend"),
    ("http_req_resent", "counter"),
    ("http_req_reset", "rate"),
    ("http_req_sending", "trend"),
    ("http_req_tls_handshaking", "trend"),
    ("http_req_waiting", "trend"),
    ("http_reqs", "counter"),
    ("http_res_without_close_notify", "counter"),
    ("interrupted_iterations", "counter"),
    ("iteration_duration", "trend"),
    ("iteration_start_delay", "trend"),
    ("iterations", "counter"),
    ("iterations_failed", "rate"),
    ("iterations_finished", "rate"),
    ("target_silent", "rate"),
    ("vu_time_lost", "rate"),
    ("vu_time_throttled", "rate"),
    ("vus", "gauge"),
];

/// Returns the kind of a metric of every scenario.
pub(super) fn of_every_scenario(metric: &str) -> Option<&'static str> {
    kind_in(EVERY_SCENARIO, metric)
}

fn kind_in(metrics: &[(&str, &'static str)], metric: &str) -> Option<&'static str> {
    let found = metrics.iter().find(|(name, _)| *name == metric);
    found.map(|(_, kind)| *kind)
}

impl Threshold {
    /// Checks that the scenario in the tags exists, that one of the scenarios records the metric,
    /// and that the metric has the aggregation. `scenarios` are names, each with the scenario's own
    /// metrics. A scenario that does not list its metrics may record any metric.
    pub(crate) fn is_for(
        &self,
        scenarios: &[(&str, Option<OwnMetrics>)],
    ) -> Result<(), ThresholdProblem> {
        let mut named = self.tags.iter().filter(|(name, _)| name == "scenario");
        let unknown =
            |(_, name): &&(String, String)| scenarios.iter().all(|(known, _)| known != name);
        if let Some((_, name)) = named.find(unknown).filter(|_| !scenarios.is_empty()) {
            let known: Vec<&str> = scenarios.iter().map(|(known, _)| *known).collect();
            return Err(ThresholdProblem::Scenario {
                name: name.clone(),
                known: known.join(", "),
            });
        }
        let wanted = self.tags.iter().find(|(name, _)| name == "scenario");
        let covered = |name: &str| wanted.is_none_or(|(_, wanted)| wanted == name);
        let mut known = EVERY_SCENARIO.to_vec();
        for (_, own) in scenarios.iter().filter(|(name, _)| covered(name)) {
            match own {
                Some(own) => known.extend_from_slice(own),
                None => return Ok(()),
            }
        }
        if let Some(kind) = kind_in(&known, &self.metric) {
            return self.fits(kind);
        }
        let mut names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        Err(ThresholdProblem::Unknown {
            metric: self.metric.clone(),
            near: nearest(&self.metric, &names),
            known: names.join(", "),
        })
    }

    /// Checks that metrics of this kind have the aggregation, and that only durations have a unit.
    pub(super) fn fits(&self, kind: &'static str) -> Result<(), ThresholdProblem> {
        if !self.aggregation.fits(kind) {
            return Err(ThresholdProblem::Kind {
                metric: self.metric.clone(),
                kind,
                known: Aggregation::of(kind),
            });
        }
        let time = kind == "trend" && self.aggregation != Aggregation::Count;
        if self.has_unit && !time {
            Err(ThresholdProblem::Unit)
        } else {
            Ok(())
        }
    }
}

impl Aggregation {
    /// Lists the aggregations of a kind of metric.
    pub(super) fn of(kind: &str) -> &'static str {
        match kind {
            "trend" => "avg, min, max, med, p(N) and count",
            "counter" => "count and rate",
            "rate" => "rate",
            _ => "value, min and max",
        }
    }

    pub(super) fn fits(self, kind: &str) -> bool {
        use Aggregation::*;
        match kind {
            "trend" => !matches!(self, Rate | Value),
            "counter" => matches!(self, Count | Rate),
            "rate" => matches!(self, Rate),
            _ => matches!(self, Value | Min | Max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str, scenarios: &[(&str, Option<OwnMetrics>)]) -> String {
        let checked = Threshold::parse(line).unwrap().is_for(scenarios);
        checked.map_or_else(|problem| problem.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn a_metric_that_no_scenario_records_is_refused_with_the_nearest_name() {
        let scenarios: &[(&str, Option<OwnMetrics>)] = &[
            ("write", Some(&[("ct_accepted", "rate")])),
            ("read", Some(&[("ct_cache_hits", "counter")])),
        ];
        for line in [
            "ct_accepted: rate>0.9",
            "ct_cache_hits{scenario:read}: count>5",
            "http_req_duration{scenario:read}: p(95)<5",
            "achieved_rate: rate>0.9",
        ] {
            assert_eq!(said(line, scenarios), "fine", "{line}");
        }
        let typo = said("http_req_duraton: p(95)<5", scenarios);
        let (advice, list) = typo.split_once(" The metrics are ").unwrap();
        assert_eq!(
            advice,
            "\"http_req_duraton\" is not a metric of this run; did you mean `http_req_duration`?"
        );
        assert!(
            list.contains("ct_accepted, ct_cache_hits, data_received"),
            "{list}"
        );
        let other = said("ct_accepted{scenario:read}: rate>0.9", scenarios);
        assert!(other.contains("is not a metric of this run"), "{other}");
        assert_eq!(
            said("http_reqs{scenario:raed}: count>5", scenarios),
            "there is no scenario `raed`; expected one of write, read"
        );
        assert_eq!(
            said("ct_accepted: p(95)<5", scenarios),
            "ct_accepted is a rate: it has rate"
        );
        assert_eq!(
            said("ct_cache_hits: count<5ms", scenarios),
            "only durations have a unit: write the number alone"
        );
    }

    #[test]
    fn a_scenario_without_a_list_may_record_any_metric() {
        let scenarios: &[(&str, Option<OwnMetrics>)] = &[("own", None), ("tls", Some(&[]))];
        assert_eq!(said("no_such_thing: count>0", scenarios), "fine");
        assert_ne!(
            said("no_such_thing{scenario:tls}: count>0", scenarios),
            "fine"
        );
    }
}

//! Metrics of the observer.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StandingLabels {
    pub(crate) standing: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SctLabels {
    pub(crate) delivery: &'static str,
    pub(crate) finding: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KindLabels {
    pub(crate) what: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabels {
    pub(crate) outcome: &'static str,
}

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) handshakes: Counter,
    pub(crate) certificates: Family<StandingLabels, Counter>,
    pub(crate) scts: Family<SctLabels, Counter>,
    pub(crate) dropped: Family<KindLabels, Counter>,
    pub(crate) submissions: Family<OutcomeLabels, Counter>,
    pub(crate) submissions_waiting: Gauge,
    pub(crate) hosts_held: Gauge,
    pub(crate) certificates_held: Gauge,
    pub(crate) logs: Gauge,
    pub(crate) list_failures: Counter,
}

impl Metrics {
    pub(crate) fn drop(&self, what: &'static str) {
        self.dropped.get_or_create(&KindLabels { what }).inc();
    }

    /// Returns the number of handshakes that were not checked.
    pub(crate) fn dropped_handshakes(&self) -> u64 {
        let what = KindLabels { what: "handshakes" };
        self.dropped.get(&what).map_or(0, |counter| counter.get())
    }

    pub(crate) fn submission(&self, outcome: &'static str) {
        self.submissions
            .get_or_create(&OutcomeLabels { outcome })
            .inc();
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("lucarne_proxy_observed");
        registry.register(
            "handshakes",
            "Handshakes with servers whose certificates were checked",
            self.handshakes.clone(),
        );
        registry.register(
            "certificates",
            "Certificates seen for the first time, by standing",
            self.certificates.clone(),
        );
        registry.register(
            "scts",
            "SCTs of certificates seen for the first time, by delivery and finding",
            self.scts.clone(),
        );
        registry.register(
            "dropped",
            "Observations that were dropped or forgotten for lack of room",
            self.dropped.clone(),
        );
        registry.register(
            "submissions",
            "Chains sent to the log, by outcome",
            self.submissions.clone(),
        );
        registry.register(
            "submissions_waiting",
            "Chains that wait to be sent to the log",
            self.submissions_waiting.clone(),
        );
        registry.register(
            "hosts_held",
            "Hosts that are remembered",
            self.hosts_held.clone(),
        );
        registry.register(
            "certificates_held",
            "Certificates that are remembered",
            self.certificates_held.clone(),
        );
        registry.register(
            "log_list_logs",
            "Logs of the log list that can be used",
            self.logs.clone(),
        );
        registry.register(
            "log_list_failures",
            "Attempts to read the log list again that failed",
            self.list_failures.clone(),
        );
    }
}

//! Metrics of the observer.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

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

lucarne_metrics::metrics! {
    #[derive(Clone, Debug)]
    pub(crate) struct Metrics, prefix "lucarne_proxy_observed" {
        pub(crate) handshakes: Counter =
            ("handshakes", "Handshakes with servers whose certificates were checked");
        pub(crate) certificates: Family<StandingLabels, Counter> =
            ("certificates", "Certificates seen for the first time, by standing");
        pub(crate) scts: Family<SctLabels, Counter> =
            ("scts", "SCTs of certificates seen for the first time, by delivery and finding");
        pub(crate) dropped: Family<KindLabels, Counter> =
            ("dropped", "Observations that were dropped for lack of room");
        pub(crate) submissions: Family<OutcomeLabels, Counter> =
            ("submissions", "Chains sent to the log, by outcome");
        pub(crate) submissions_waiting: Gauge =
            ("submissions_waiting", "Chains that wait to be sent to the log");
        pub(crate) hosts_held: Gauge = ("hosts_held", "Hosts that are remembered");
        pub(crate) certificates_held: Gauge =
            ("certificates_held", "Certificates that are remembered");
        pub(crate) inventory: Family<KindLabels, Gauge> =
            ("inventory", "Rows of the inventory in the database");
        pub(crate) logs: Gauge = ("log_list_logs", "Logs of the log list that can be used");
        pub(crate) list_failures: Counter =
            ("log_list_failures", "Attempts to read the log list again that failed");
    }
}

impl Metrics {
    pub(crate) fn drop(&self, what: &'static str) {
        self.drop_many(what, 1);
    }

    pub(crate) fn drop_many(&self, what: &'static str, count: u64) {
        self.dropped
            .get_or_create(&KindLabels { what })
            .inc_by(count);
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
}

//! Metrics of the proxy.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// Label with the reason of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Kind {
    kind: &'static str,
}

lucarne_metrics::metrics! {
    /// Metrics of the whole proxy.
    pub(crate) struct Stats, prefix "lucarne_proxy" {
        pub(crate) open: Gauge = ("connections", "Open connections of clients");
        pub(crate) accepted: Counter = ("accepted", "Connections accepted");
        pub(crate) requests: Counter =
            ("requests", "Requests, including those in intercepted connections");
        pub(crate) intercepted: Counter = ("intercepted", "TLS connections intercepted");
        pub(crate) tunnelled: Counter = ("tunnelled", "Connections forwarded unchanged");
        pub(crate) distrusted: Counter =
            ("distrusted", "TLS handshakes that failed because the client does not trust the CA");
        pub(crate) learned: Counter =
            ("learned", "Hosts that became tunnels because a client rejected two certificates");
        pub(crate) stalled: Counter =
            ("stalled", "Clients that did not finish their handshake in time");
        pub(crate) aborted: Counter =
            ("aborted", "TLS handshakes that clients broke off without a reason");
        pub(crate) unannounced: Counter = (
            "unannounced_ends",
            "Responses that servers ended without close_notify: forwarded, perhaps incomplete"
        );
        pub(crate) failures: Family<Kind, Counter> =
            ("failures", "Responses of the proxy itself, and responses that were cut off, by reason");
    }
}

impl Stats {
    pub(crate) fn failed(&self, kind: &'static str) {
        self.failures.get_or_create(&Kind { kind }).inc();
    }
}

/// Figures for the live view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Open connections of clients.
    pub open: u64,
    /// Requests so far.
    pub requests: u64,
    /// TLS connections intercepted so far.
    pub intercepted: u64,
    /// Connections tunnelled so far.
    pub tunnelled: u64,
    /// Handshakes of clients that do not trust the CA.
    pub distrusted: u64,
}

impl Stats {
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            open: u64::try_from(self.open.get()).unwrap_or(0),
            requests: self.requests.get(),
            intercepted: self.intercepted.get(),
            tunnelled: self.tunnelled.get(),
            distrusted: self.distrusted.get(),
        }
    }
}

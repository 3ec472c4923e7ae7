//! Metrics of the proxy.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Label with the reason of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Kind {
    kind: &'static str,
}

/// Counters of the whole proxy.
#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) open: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) requests: Counter,
    pub(crate) intercepted: Counter,
    pub(crate) tunnelled: Counter,
    pub(crate) distrusted: Counter,
    pub(crate) stalled: Counter,
    pub(crate) unannounced: Counter,
    pub(crate) failures: Family<Kind, Counter>,
}

impl Stats {
    pub(crate) fn failed(&self, kind: &'static str) {
        self.failures.get_or_create(&Kind { kind }).inc();
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("lucarne_proxy");
        let open = self.open.clone();
        registry.register("connections", "Open connections of clients", open);
        for (name, help, counter) in [
            ("accepted", "Connections accepted", &self.accepted),
            (
                "requests",
                "Requests, including those in intercepted connections",
                &self.requests,
            ),
            (
                "intercepted",
                "TLS connections intercepted",
                &self.intercepted,
            ),
            (
                "tunnelled",
                "Connections forwarded unchanged",
                &self.tunnelled,
            ),
            (
                "distrusted",
                "TLS handshakes that failed because the client does not trust the CA",
                &self.distrusted,
            ),
            (
                "stalled",
                "Clients that did not finish their handshake in time",
                &self.stalled,
            ),
            (
                "unannounced_ends",
                "Responses that servers ended without close_notify: forwarded, perhaps incomplete",
                &self.unannounced,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        let failures = self.failures.clone();
        registry.register(
            "failures",
            "Responses of the proxy itself, by reason",
            failures,
        );
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

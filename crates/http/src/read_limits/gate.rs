//! Application of the read limits to every request.

use std::net::IpAddr;
use std::sync::Once;

use http::header::{HeaderMap, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::fields;
use super::limiter::{Admission, Decision, ReadLimiter, Reading, Refusal};
use super::policy::{FORGOTTEN_SECONDS, Policy, ReadLimits, UNIT_BYTES};
use crate::error_response::ErrorResponse;
use crate::reply::Response;

/// The limiter, if configured, and its metrics.
pub(crate) struct ReadGate {
    limiter: Option<ReadLimiter>,
    metrics: ReadMetrics,
    /// Limits the log line about an unknown proxy to one per process.
    unnamed: Once,
}

/// A request that gets a refusal as its response.
pub(crate) struct Refused<'g>(&'g ReadLimits, Refusal);

/// A request that is admitted.
#[derive(Clone, Copy)]
pub(crate) struct Passage<'g>(Option<(&'g ReadLimiter, Admission)>);

impl ReadGate {
    pub(crate) fn new(limiter: Option<ReadLimiter>, metrics: ReadMetrics) -> Self {
        ReadGate {
            limiter,
            metrics,
            unnamed: Once::new(),
        }
    }

    /// Admits or refuses a request. A request without a [`Reading`] is not a read and is always
    /// admitted.
    pub(crate) fn admit(
        &self,
        reading: Option<Reading>,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Passage<'_>, Refused<'_>> {
        let Some((limiter, reading)) = self.limiter.as_ref().zip(reading) else {
            return Ok(Passage(None));
        };
        match limiter.decide(peer, headers, reading, limiter.limits().clock.now()) {
            Decision::Unlimited if reading == Reading::Operations => Ok(Passage(None)),
            Decision::Unlimited => {
                self.metrics.unlimited.inc();
                self.unnamed.call_once(|| {
                    tracing::info!(%peer, "reads through a proxy are not limited: add the proxy to \
                         `trusted_proxies`, or write `trusted_proxies: []` if there is no proxy");
                });
                Ok(Passage(None))
            }
            Decision::Admitted(admission) => {
                if admission.shared {
                    self.metrics.shared.inc();
                }
                Ok(Passage(Some((limiter, admission))))
            }
            Decision::Refused(refusal) => {
                self.metrics.refused(refusal.policy);
                Err(Refused(limiter.limits(), refusal))
            }
        }
    }

    /// Updates the number of clients in the metrics.
    pub(crate) fn count(&self) {
        if let Some(limiter) = &self.limiter {
            self.metrics.clients.set(limiter.clients() as i64);
        }
    }
}

impl<'g> Passage<'g> {
    /// Returns the limits that apply to the request, if any.
    pub(crate) fn limits(&self) -> Option<&'g ReadLimits> {
        self.0.map(|(limiter, _)| limiter.limits())
    }

    /// Charges the request for its response, and adds the fields to the response if the bucket is
    /// nearly empty.
    pub(crate) fn pay(self, response: &mut Response) {
        let Some((limiter, admission)) = self.0 else {
            return;
        };
        let now = limiter.limits().clock.now();
        let bytes = response.body().len();
        if let Some(left) = limiter.settle(&admission, bytes, now) {
            let policies = admission.policies();
            let left = (left.policy, left.units, seconds(left.whole_in));
            fields::say(response.headers_mut(), limiter.limits(), policies, left);
        }
    }
}

impl Refusal {
    /// Returns the seconds until the request would be admitted, if no other request uses the same
    /// bucket.
    pub fn retry_after(&self) -> u64 {
        seconds(self.wait).max(1)
    }
}

impl Refused<'_> {
    pub(crate) fn into_response(self) -> Response {
        let Refused(limits, refusal) = self;
        let (whose, advice) = match refusal.policy {
            Policy::Client => ("this client (an IPv4 address, an IPv6 /56)", ""),
            Policy::Network => ("this network (an IPv6 /48)", ""),
            Policy::NoContact => (
                "all clients that read tiles without a contact",
                ", or use a User-Agent with an e-mail address or a URL",
            ),
        };
        let rate = limits.rate(refusal.policy);
        let (burst, window) = (rate.burst(), rate.window_seconds());
        let (left, seconds) = (refusal.remaining, refusal.retry_after());
        let detail = format!(
            "{whose} may read {burst} units in {window} s, with {left} left now: a request costs \
             one unit, and one more for each complete {UNIT_BYTES} bytes of its response; a \
             repeated request for a partial tile within {FORGOTTEN_SECONDS} s costs twice as \
             much as the one before; retry in {seconds} s{advice}"
        );
        let status = StatusCode::TOO_MANY_REQUESTS;
        let mut response = ErrorResponse::read(status, "too_many_reads", detail).into_response();
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        let policies = refusal.policies.into_iter().flatten();
        fields::say(headers, limits, policies, (refusal.policy, left, seconds));
        response
    }
}

fn seconds(nanoseconds: u64) -> u64 {
    nanoseconds.div_ceil(1_000_000_000)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    policy: &'static str,
}

lucarne_metrics::metrics! {
    /// Metrics of the read limits.
    #[derive(Clone)]
    pub(crate) struct ReadMetrics, prefix "lucarne_http" {
        refused: Family<PolicyLabels, Counter> =
            ("reads_limited", "Read requests refused with 429, by limit");
        clients: Gauge = ("reads_clients", "Clients whose limit is not full");
        shared: Counter = (
            "reads_shared",
            "Requests of clients that shared a limit, because there were more clients than the \
             table holds"
        );
        unlimited: Counter = (
            "reads_unlimited",
            "Requests without limit because they came through an unknown proxy"
        );
    }
}

impl ReadMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        for policy in Policy::ALL {
            let policy = policy.name();
            let _ = self.refused.get_or_create(&PolicyLabels { policy });
        }
        self.describe(registry);
    }

    fn refused(&self, policy: Policy) {
        let policy = policy.name();
        self.refused
            .get_or_create_owned(&PolicyLabels { policy })
            .inc();
    }
}

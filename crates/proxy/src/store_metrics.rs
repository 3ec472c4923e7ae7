//! Metrics of the certificate store.

use std::fmt;

use lucarne_mint::store::{GenerationTime, StoreStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::proxy::Proxy;

/// Reads the statistics of the store when metrics are collected.
pub(crate) struct StoreMetrics(Proxy);

impl StoreMetrics {
    pub(crate) fn of(proxy: &Proxy) -> Self {
        StoreMetrics(proxy.clone())
    }
}

impl fmt::Debug for StoreMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreMetrics")
    }
}

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = self.0.store_stats();
        for (name, help, value) in counters(&stats) {
            let counter = ConstCounter::new(value);
            let name = format!("lucarne_store_{name}");
            counter.encode(encoder.encode_descriptor(&name, help, None, MetricType::Counter)?)?;
        }
        for (name, help, value) in [
            (
                "in_flight",
                "Certificates being read or created",
                stats.in_flight,
            ),
            ("entries", "Certificates in memory", stats.entries),
            (
                "bytes",
                "Estimated bytes of the certificates in memory",
                stats.bytes,
            ),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let name = format!("lucarne_store_{name}");
            gauge.encode(encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?)?;
        }
        histogram(&mut encoder, &stats.generation)
    }
}

fn counters(stats: &StoreStats) -> [(&'static str, &'static str, u64); 11] {
    [
        ("hits", "Certificates found in memory", stats.hits),
        ("disk_hits", "Certificates found on disk", stats.disk_hits),
        (
            "misses",
            "Certificates found neither in memory nor on disk",
            stats.misses,
        ),
        (
            "coalesced",
            "Callers that waited for the certificate of another caller",
            stats.coalesced,
        ),
        ("generated", "Certificates created", stats.generated),
        (
            "refreshed",
            "Certificates renewed before they expired",
            stats.refreshed,
        ),
        (
            "errors",
            "Certificates that could not be created",
            stats.errors,
        ),
        (
            "disk_errors",
            "Files that could not be read, written or used",
            stats.disk_errors,
        ),
        (
            "evicted",
            "Certificates dropped for lack of room",
            stats.evicted,
        ),
        (
            "expired",
            "Certificates dropped because they expired",
            stats.expired,
        ),
        (
            "overloaded",
            "Callers refused because too many wait",
            stats.overloaded,
        ),
    ]
}

fn histogram(
    encoder: &mut DescriptorEncoder<'_>,
    times: &GenerationTime,
) -> Result<(), fmt::Error> {
    let bounds = GenerationTime::BOUNDS.into_iter().chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
    let mut metric = encoder.encode_descriptor(
        "lucarne_store_generation_seconds",
        "Time to create a certificate",
        None,
        MetricType::Histogram,
    )?;
    metric.encode_histogram::<[(&str, &str); 0]>(
        times.total.as_secs_f64(),
        times.count,
        &buckets,
        None,
    )
}

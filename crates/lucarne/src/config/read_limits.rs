//! The keys `read_limits` and `trusted_proxies`.

use std::path::Path;

use lucarne_http::{Rate, ReadLimits};
use lucarne_net::Network;
use lucarne_settings::{Reader, Report, Section, Value};

use super::{keys, values};

const KEY: &str = "read_limits";
/// Bounds of rates, in units per second.
const RATES: (u64, u64) = (1, 1_000_000_000);
/// Bounds of bursts, in units.
const BURSTS: (u64, u64) = (1, 1_000_000_000);
/// Bounds of `remembered`. A client takes 32 bytes, so that the maximum takes 512 MiB.
const CLIENTS: (u64, u64) = (16, 16 << 20);

/// Reads `read_limits`: `off`, or the differences from the defaults.
pub(super) fn limits(
    top: &Section<'_>,
    directory: &Path,
    report: &mut Report,
) -> Option<ReadLimits> {
    let mut limits = ReadLimits::default();
    let Some(node) = top.get(KEY) else {
        return Some(limits);
    };
    if matches!(&node.value, Value::Scalar(text) if text == "off") {
        return None;
    }
    let section = keys::open(node, KEY, keys::READ_LIMITS, report)?;
    let mut reader = Reader::new(section, KEY, directory, report);
    for (burst, rate, of) in [
        ("client_burst", "client_rate", &mut limits.client),
        (
            "no_contact_burst",
            "no_contact_rate",
            &mut limits.no_contact,
        ),
    ] {
        let burst = reader.value(burst, values::number(BURSTS.0, BURSTS.1, "units"));
        let rate = reader.value(rate, values::number(RATES.0, RATES.1, "units a second"));
        let interval = rate.map(|rate| Rate::per_second(1, rate).interval());
        *of = Rate::new(
            burst.unwrap_or(of.burst()),
            interval.unwrap_or(of.interval()),
        );
    }
    let remembered = values::number(CLIENTS.0, CLIENTS.1, "clients");
    if let Some(clients) = reader.value("remembered", remembered) {
        limits.clients = clients as usize;
    }
    Some(limits)
}

/// Reads `trusted_proxies`. A missing key is `None`, which differs from an empty list.
pub(super) fn trusted_proxies(reader: &mut Reader<'_, '_>) -> Option<Vec<Network>> {
    let key = "trusted_proxies";
    reader.has(key).then(|| reader.values(key, str::parse))
}

//! The keys `read_limits` and `trusted_proxies`.

use std::path::Path;

use lucarne_http::{Rate, ReadLimits};
use lucarne_net::Network;
use lucarne_settings::{Reader, Report, Section, Value};

use super::keys;
use super::keys::read_limits::{
    CLIENT_BURST, CLIENT_RATE, NO_CONTACT_BURST, NO_CONTACT_RATE, REMEMBERED,
};

const KEY: &str = "read_limits";

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
    let section = keys::open(node, KEY, &keys::read_limits::TABLE, report)?;
    let mut reader = Reader::new(section, KEY, directory, report);
    for (burst, rate, of) in [
        (&CLIENT_BURST, &CLIENT_RATE, &mut limits.client),
        (&NO_CONTACT_BURST, &NO_CONTACT_RATE, &mut limits.no_contact),
    ] {
        let (burst, rate) = (reader.get(burst), reader.get(rate));
        let interval = rate.map(|rate| Rate::per_second(1, rate).interval());
        *of = Rate::new(
            burst.unwrap_or(of.burst()),
            interval.unwrap_or(of.interval()),
        );
    }
    if let Some(clients) = reader.get(&REMEMBERED) {
        limits.clients = clients as usize;
    }
    Some(limits)
}

/// Reads `trusted_proxies`. A missing key is `None`, which differs from an empty list.
pub(super) fn trusted_proxies(reader: &mut Reader<'_, '_>) -> Option<Vec<Network>> {
    let key = &keys::http::TRUSTED_PROXIES;
    reader.has(key).then(|| reader.values(key, str::parse))
}

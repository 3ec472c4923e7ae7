//! The keys `tls` and `http`.

use std::path::{Path, PathBuf};

use lucarne_http::Limits;
use lucarne_settings::{Located, Reader, Report, Section};

use super::{keys, read_limits, values};

/// Bounds of `maxbody`. Real chains are far smaller than 2 MiB, and 256 chains of this size still
/// fit into a tile.
pub(super) const BODY_BYTES: (u64, u64) = (1024, 2 << 20);

/// Files of the TLS certificate and key, reread after changes.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// PEM file of the certificate and its intermediates, leaf first.
    pub certificate: Located<PathBuf>,
    /// PEM file of the private key.
    pub key: Located<PathBuf>,
}

/// Reads `http`.
pub(super) fn http(top: &Section<'_>, directory: &Path, report: &mut Report) -> Limits {
    let mut limits = Limits::default();
    let section = top.get("http");
    let section = section.and_then(|node| keys::open(node, "http", keys::HTTP, report));
    let Some(section) = section else {
        return limits;
    };
    let mut reader = Reader::new(section, "http", directory, report);
    for (key, limit) in [
        ("headertimeout", &mut limits.header_timeout),
        ("bodytimeout", &mut limits.body_timeout),
        ("idletimeout", &mut limits.idle_timeout),
        ("writetimeout", &mut limits.write_timeout),
        ("draintimeout", &mut limits.drain_timeout),
    ] {
        if let Some(value) = reader.parse(key, values::milliseconds(1, 3_600_000)) {
            *limit = value.value;
        }
    }
    for (key, unit, least, most, limit) in [
        (
            "maxbody",
            "bytes",
            BODY_BYTES.0,
            BODY_BYTES.1,
            &mut limits.body_bytes,
        ),
        (
            "maxconnections",
            "connections",
            1,
            1 << 30,
            &mut limits.connections,
        ),
        (
            "maxinflight",
            "bytes",
            1 << 20,
            1 << 40,
            &mut limits.inflight_bytes,
        ),
        (
            "maxclientinflight",
            "bytes",
            1 << 20,
            1 << 40,
            &mut limits.client_inflight_bytes,
        ),
    ] {
        if let Some(value) = reader.parse(key, values::number(least, most, unit)) {
            *limit = value.value as usize;
        }
    }
    limits.trusted_proxies = read_limits::trusted_proxies(&mut reader);
    // Each limit must allow at least one body with its request head.
    let (body, client) = (limits.body_bytes, limits.client_inflight_bytes);
    if client < 2 * body || limits.inflight_bytes < client {
        let problem = format!(
            "maxclientinflight is {client}: expected at least twice maxbody ({body}), and at most \
             maxinflight ({})",
            limits.inflight_bytes
        );
        reader.problem(None, "", problem);
    }
    limits
}

/// Reads `tls`, and checks that certificate and key match.
pub(super) fn tls(top: &Section<'_>, directory: &Path, report: &mut Report) -> Option<TlsFiles> {
    let node = top.get("tls")?;
    let section = keys::open(node, "tls", keys::TLS, report)?;
    let mut reader = Reader::new(section, "tls", directory, report);
    let certificate = reader.path("certificate");
    let certificate = reader.required("certificate", certificate, "fullchain.pem");
    let key = reader.path("key");
    let key = reader.required("key", key, "privkey.pem");
    let files = TlsFiles {
        certificate: certificate?,
        key: key?,
    };
    if let Err(error) = crate::tls::load(&files.certificate.value, &files.key.value) {
        reader.problem(Some(node.line), "", format!("{error:#}"));
    }
    Some(files)
}

//! The keys `tls`, `http` and `read_limits`.

use std::path::PathBuf;

use lucarne_http::{Limits, ReadLimits};
use lucarne_settings::{Located, Reader, Value};

use super::keys::read_limits::Rates;
use super::keys::{self, top::KEYS};

/// Files of the TLS certificate and key, reread after changes.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// PEM file of the certificate and its intermediates, leaf first.
    pub certificate: Located<PathBuf>,
    /// PEM file of the private key.
    pub key: Located<PathBuf>,
}

/// Reads `http` and `read_limits`.
pub(super) fn http(top: &mut Reader<'_, '_>) -> Limits {
    let mut limits = Limits {
        reads: read_limits(top),
        ..Limits::default()
    };
    let Some(mut reader) = keys::inside(top, &KEYS.http, &keys::http::TABLE) else {
        return limits;
    };
    keys::http::read(&mut reader, &mut limits);
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

/// Reads `read_limits`: `off`, or the differences from the defaults.
fn read_limits(top: &mut Reader<'_, '_>) -> Option<ReadLimits> {
    let mut rates = Rates::default();
    if let Some(node) = top.node(&KEYS.read_limits) {
        if matches!(&node.value, Value::Scalar(text) if text == "off") {
            return None;
        }
        let mut reader = keys::inside(top, &KEYS.read_limits, &keys::read_limits::TABLE)?;
        keys::read_limits::read(&mut reader, &mut rates);
    }
    Some(rates.into())
}

/// Reads `tls`, and checks that certificate and key match.
pub(super) fn tls(top: &mut Reader<'_, '_>) -> Option<TlsFiles> {
    let line = top.line(&KEYS.tls);
    let mut reader = keys::inside(top, &KEYS.tls, &keys::tls::TABLE)?;
    let certificate = reader.path(&keys::tls::KEYS.certificate);
    let certificate = reader.required(&keys::tls::KEYS.certificate, certificate, "fullchain.pem");
    let key = reader.path(&keys::tls::KEYS.key);
    let key = reader.required(&keys::tls::KEYS.key, key, "privkey.pem");
    let files = TlsFiles {
        certificate: certificate?,
        key: key?,
    };
    if let Err(error) = crate::tls::load(&files.certificate.value, &files.key.value) {
        reader.problem(line, "", format!("{error:#}"));
    }
    Some(files)
}

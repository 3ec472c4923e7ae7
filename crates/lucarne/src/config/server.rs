//! The keys `tls` and `http`.

use std::path::{Path, PathBuf};

use lucarne_http::Limits;
use lucarne_settings::{Located, Reader, Report, Section};

use super::keys;

/// Files of the TLS certificate and key, reread after changes.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// PEM file of the certificate and its intermediates, leaf first.
    pub certificate: Located<PathBuf>,
    /// PEM file of the private key.
    pub key: Located<PathBuf>,
}

pub(super) fn http(top: &Section<'_>, directory: &Path, report: &mut Report) -> Limits {
    let mut limits = Limits::default();
    let section = top.get(&keys::top::KEYS.http);
    let section = section.and_then(|node| keys::open(node, "http", &keys::http::TABLE, report));
    let Some(section) = section else {
        return limits;
    };
    let mut reader = Reader::new(section, "http", directory, report);
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

/// Reads `tls`, and checks that certificate and key match.
pub(super) fn tls(top: &Section<'_>, directory: &Path, report: &mut Report) -> Option<TlsFiles> {
    let node = top.get(&keys::top::KEYS.tls)?;
    let section = keys::open(node, "tls", &keys::tls::TABLE, report)?;
    let mut reader = Reader::new(section, "tls", directory, report);
    let certificate = reader.path(&keys::tls::KEYS.certificate);
    let certificate = reader.required(&keys::tls::KEYS.certificate, certificate, "fullchain.pem");
    let key = reader.path(&keys::tls::KEYS.key);
    let key = reader.required(&keys::tls::KEYS.key, key, "privkey.pem");
    let files = TlsFiles {
        certificate: certificate?,
        key: key?,
    };
    if let Err(error) = crate::tls::load(&files.certificate.value, &files.key.value) {
        reader.problem(Some(node.line), "", format!("{error:#}"));
    }
    Some(files)
}

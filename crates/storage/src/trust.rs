//! Whom this machine trusts: the certificate authorities of the system, or of
//! the file that `SSL_CERT_FILE` names instead.

use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

/// The authorities, read once. Without any, connections say that an issuer is
/// unknown.
fn authorities() -> &'static (Arc<RootCertStore>, Vec<CertificateDer<'static>>) {
    static AUTHORITIES: OnceLock<(Arc<RootCertStore>, Vec<CertificateDer<'static>>)> =
        OnceLock::new();
    AUTHORITIES.get_or_init(|| {
        let mut found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "cannot read some of the system's certificate authorities");
        }
        let mut roots = RootCertStore::empty();
        found.certs.retain(|der| roots.add(der.clone()).is_ok());
        (Arc::new(roots), found.certs)
    })
}

/// The authorities as rustls takes them.
pub(crate) fn roots() -> Arc<RootCertStore> {
    authorities().0.clone()
}

/// The same, for those who take PEM.
pub(crate) fn pem() -> Vec<u8> {
    const WIDTH: usize = 64;
    let mut pem = Vec::new();
    for der in &authorities().1 {
        let text = base64_simd::STANDARD.encode_to_string(der);
        pem.extend_from_slice(b"-----BEGIN CERTIFICATE-----\n");
        for line in text.as_bytes().chunks(WIDTH) {
            pem.extend_from_slice(line);
            pem.push(b'\n');
        }
        pem.extend_from_slice(b"-----END CERTIFICATE-----\n");
    }
    pem
}

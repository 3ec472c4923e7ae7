//! Describes whom this machine trusts: the certificate authorities of the system, or of
//! the file that `SSL_CERT_FILE` names instead.

use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

/// The authorities, read once: as rustls takes them, and each by itself. Without
/// any, connections say that an issuer is unknown.
pub(crate) fn authorities() -> &'static (Arc<RootCertStore>, Vec<CertificateDer<'static>>) {
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

//! Whom this machine trusts: the certificate authorities of the system, or of
//! the file that `SSL_CERT_FILE` names instead.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// The certificate authorities that this machine trusts.
#[derive(Debug)]
pub struct SystemRoots {
    /// All of them, as rustls takes them.
    pub store: Arc<RootCertStore>,
    /// Each by itself.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// The authorities, read once. Without any, connections say that an issuer is
/// unknown.
pub fn system_roots() -> &'static SystemRoots {
    static ROOTS: OnceLock<SystemRoots> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "cannot read some of the system's certificate authorities");
        }
        let mut store = RootCertStore::empty();
        found.certs.retain(|der| store.add(der.clone()).is_ok());
        SystemRoots {
            store: Arc::new(store),
            certificates: found.certs,
        }
    })
}

/// TLS with servers whose certificates lead to one of `roots`.
pub fn trusting(roots: Arc<RootCertStore>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap_or_else(|_| unreachable!("the provider has ciphers for TLS 1.2 and 1.3"))
        .with_root_certificates(roots)
        .with_no_client_auth()
}

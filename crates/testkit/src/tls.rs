use std::sync::Arc;

use anyhow::Result;
use lucarne_mint::KeyPair;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Returns the settings of a TLS server with this certificate chain, the leaf first, and these
/// protocols, the preferred protocol first.
///
/// # Errors
/// If the key does not match its certificate.
pub fn tls_server(chain: &[Vec<u8>], key: &KeyPair, alpn: &[&str]) -> Result<Arc<ServerConfig>> {
    let chain = chain.iter().cloned().map(Into::into);
    let key = PrivatePkcs8KeyDer::from(key.to_pkcs8()?);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key.into())?;
    config.alpn_protocols = protocols(alpn);
    Ok(Arc::new(config))
}

/// Returns the settings of a TLS client that trusts these certificates and supports these
/// protocols, the preferred protocol first.
///
/// # Errors
/// If a certificate cannot be parsed.
pub fn tls_client(
    roots: impl IntoIterator<Item = Vec<u8>>,
    alpn: &[&str],
) -> Result<Arc<ClientConfig>> {
    let mut trusted = RootCertStore::empty();
    for root in roots {
        trusted.add(root.into())?;
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    config.alpn_protocols = protocols(alpn);
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn protocols(alpn: &[&str]) -> Vec<Vec<u8>> {
    alpn.iter().map(|name| name.as_bytes().to_vec()).collect()
}

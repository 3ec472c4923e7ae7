use std::sync::Arc;

use anyhow::Result;
use lucarne_mint::KeyPair;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivatePkcs8KeyDer;

/// A TLS server that shows these certificates, its own first, and speaks these
/// protocols, the best first.
///
/// # Errors
/// A key that is not that of its certificate.
pub fn tls_server(chain: &[Vec<u8>], key: &KeyPair, alpn: &[&str]) -> Result<Arc<ServerConfig>> {
    let chain = chain.iter().cloned().map(Into::into);
    let key = PrivatePkcs8KeyDer::from(key.to_pkcs8()?);
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key.into())?;
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

//! TLS settings of the connection between a leader and an agent.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use lucarne_load::http::{
    ClientOptions, Identity, TlsOptions, TlsVersion, tls_settings, trust_only,
};
use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions};
use lucarne_net::Verifier;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::tls::{both, read, read_key};

/// Certificates, in addition to the key.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
#[group(skip)]
pub struct TlsFlags {
    /// PEM file of this side's certificate [default: a certificate for this run]
    #[arg(long, value_name = "FILE", requires = "cert_key")]
    pub cert: Option<PathBuf>,
    /// PEM file of the key of --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub cert_key: Option<PathBuf>,
    /// PEM file of authorities that must have issued the other side's certificate [default: any
    /// certificate, because --key authenticates both sides]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

impl TlsFlags {
    /// Returns the settings of an agent.
    pub(super) fn agent(&self) -> Result<Arc<ClientConfig>> {
        let identity = self.cert.clone().zip(self.cert_key.clone());
        let options = ClientOptions {
            insecure: true,
            tls: TlsOptions {
                versions: vec![TlsVersion::V1_3],
                identity: identity.map(|(certificates, key)| Identity { certificates, key }),
                ..TlsOptions::default()
            },
            ..ClientOptions::default()
        };
        let mut settings = Arc::unwrap_or_clone(tls_settings(&options)?);
        if let Some(file) = &self.ca {
            // Not also the authorities of the system.
            let trust = trust_only(std::slice::from_ref(file))?;
            let verifier = Arc::new(Verifier::trusting(trust));
            settings.dangerous().set_certificate_verifier(verifier);
        }
        Ok(Arc::new(settings))
    }

    /// Returns the settings of a leader.
    pub(super) fn leader(&self) -> Result<Arc<ServerConfig>> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&[&TLS13])?;
        let builder = match &self.ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let invalid = || format!("--ca: {} has an invalid certificate", file.display());
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(&read(file)?) {
                    let certificate = certificate.with_context(invalid)?;
                    roots.add(certificate).with_context(invalid)?;
                }
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = verifier.build();
                builder.with_client_cert_verifier(verifier.with_context(invalid)?)
            }
        };
        let (chain, key, name) = match self.cert.as_ref().zip(self.cert_key.as_ref()) {
            None => {
                let (chain, key) = generated()?;
                (chain, key, "the certificate for this run".to_owned())
            }
            Some((file, key_file)) => {
                let text = read(file)?;
                let chain = CertificateDer::pem_slice_iter(&text);
                let chain = chain.collect::<Result<Vec<_>, _>>();
                let chain = chain.with_context(|| format!("--cert: {}", file.display()))?;
                let key = PrivateKeyDer::from_pem_slice(&read_key(key_file)?);
                let key = key.with_context(|| format!("--cert-key: {}", key_file.display()))?;
                (chain, key, format!("--cert: {}", both(file, key_file)))
            }
        };
        let config = builder.with_single_cert(chain, key);
        Ok(Arc::new(config.with_context(|| name)?))
    }
}

/// Creates a certificate for a run whose sides authenticate each other with the key alone.
fn generated() -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let authority = Authority::root(&CaOptions::local(KeyType::EcdsaP256)?)?;
    let options = LeafOptions::for_names(["leader.lucarne.test"])?;
    let leaf = authority.issue(&options)?;
    let key = PrivatePkcs8KeyDer::from(options.key.to_pkcs8()?);
    Ok((vec![leaf.into()], key.into()))
}

//! TLS settings of the client.

use std::sync::Arc;

use lucarne_net::Verifier;
use lucarne_settings::nearest;
use lucarne_x509::pem;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, SupportedProtocolVersion, version};

use super::staple;
use super::trust::{read_certificates, trust};
use super::{ClientOptions, EndpointError, Identity, TlsOptions, TlsVersion};

/// Returns the TLS settings for `options`.
///
/// # Errors
/// If certificates or keys cannot be used, or a name in the settings is unknown.
pub fn tls_settings(options: &ClientOptions) -> Result<Arc<ClientConfig>, EndpointError> {
    let provider = Arc::new(provider(&options.tls)?);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(&options.tls))
        .map_err(|error| EndpointError::Tls(format!("setting up TLS: {error}")))?;
    let verifier = if options.insecure {
        Verifier::accepting_any()
    } else {
        Verifier::trusting(trust(&options.ca)?)
    };
    let builder = builder.dangerous();
    let verifier = verifier.reporting_staples(staple::record);
    let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &options.tls.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (certificates, key) = load(identity)?;
            let config = builder.with_client_auth_cert(certificates, key);
            config.map_err(|error| EndpointError::certificates(&identity.certificates, &error))?
        }
    };
    config.alpn_protocols = vec![options.version.alpn().to_vec()];
    if !options.resume {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

/// Returns the same settings with a separate store of sessions.
pub(super) fn with_own_sessions(config: &ClientConfig) -> Arc<ClientConfig> {
    /// Limit of sessions: more than the tickets that a server sends at once.
    const SESSIONS: usize = 16;
    let mut config = config.clone();
    config.resumption = Resumption::in_memory_sessions(SESSIONS);
    Arc::new(config)
}

fn versions(options: &TlsOptions) -> Vec<&'static SupportedProtocolVersion> {
    let wanted = |version| options.versions.is_empty() || options.versions.contains(&version);
    let all = [
        (TlsVersion::V1_3, &version::TLS13),
        (TlsVersion::V1_2, &version::TLS12),
    ];
    let wanted = all.into_iter().filter(|(version, _)| wanted(*version));
    wanted.map(|(_, version)| version).collect()
}

/// Returns a provider with the configured suites and groups.
fn provider(options: &TlsOptions) -> Result<CryptoProvider, EndpointError> {
    let mut provider = aws_lc_rs::default_provider();
    if !options.suites.is_empty() {
        let all = aws_lc_rs::ALL_CIPHER_SUITES.iter();
        let all: Vec<_> = all
            .map(|suite| (iana(suite.suite().as_str()), *suite))
            .collect();
        provider.cipher_suites = choose("cipher suite", &options.suites, &all)?;
    }
    if !options.groups.is_empty() {
        let all = aws_lc_rs::ALL_KX_GROUPS.iter();
        let all: Vec<_> = all
            .map(|group| (iana(group.name().as_str()), *group))
            .collect();
        provider.kx_groups = choose("key-exchange group", &options.groups, &all)?;
    }
    Ok(provider)
}

/// Returns IANA's name: `TLS_` instead of rustls's `TLS13_` for the suites of TLS 1.3.
pub(super) fn iana(name: Option<&'static str>) -> String {
    name.unwrap_or("unknown").replacen("TLS13_", "TLS_", 1)
}

/// Selects the configured entries of `all`, in the configured order.
fn choose<T: Copy>(
    what: &str,
    wanted: &[String],
    all: &[(String, T)],
) -> Result<Vec<T>, EndpointError> {
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let find = |name: &String| {
        let found = all
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, it)| *it).ok_or_else(|| {
            EndpointError::Tls(match nearest(name, &names) {
                Some(near) => format!("`{name}` is not a known {what}; did you mean `{near}`?"),
                None => format!(
                    "`{name}` is not a known {what}; expected one of {}",
                    names.join(", ")
                ),
            })
        })
    };
    wanted.iter().map(find).collect()
}

fn load(
    identity: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), EndpointError> {
    let certificates = read_certificates(&identity.certificates)?;
    let file = &identity.key;
    let unusable = |reason: &dyn std::fmt::Display| {
        let file = file.display();
        EndpointError::Trust(format!("reading the key in {file}: {reason}"))
    };
    let text = std::fs::read(file).map_err(|error| unusable(&error))?;
    let key = pem::private_key(&text).map_err(|error| unusable(&error))?;
    let key = PrivateKeyDer::try_from(key).map_err(|error| unusable(&error))?;
    Ok((certificates, key))
}

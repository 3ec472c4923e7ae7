//! A certificate with its TLS settings.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lucarne_x509::der::{DerError, Reader, Tlv, tag};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::{MintError, Time};

/// Default ALPN protocols of servers with minted certificates.
pub const DEFAULT_ALPN: [&str; 2] = ["h2", "http/1.1"];

/// A certificate that is ready for a TLS server.
///
/// A store keeps the whole value: all connections to the host use the same [`ServerConfig`], so TLS
/// sessions resume. Session tickets have their own key, so resumption needs no memory and ends with
/// the certificate.
pub struct Minted {
    /// Certificates that the server sends: the leaf, then intermediates, without the root.
    pub chain: Vec<CertificateDer<'static>>,
    /// CA certificate that issued the leaf, whether the server sends it or not.
    pub issuer: CertificateDer<'static>,
    /// Private key of the leaf. **Secret.**
    pub key: PrivateKeyDer<'static>,
    /// Start of the leaf's validity.
    pub not_before: SystemTime,
    /// End of the leaf's validity.
    pub not_after: SystemTime,
    /// Serial number of the leaf, big-endian.
    pub serial: Vec<u8>,
    /// Time that the creation of the certificate took; zero if the certificate was read from disk.
    pub made_in: Duration,
    /// Settings of TLS 1.2 and 1.3 with this certificate.
    pub server_config: Arc<ServerConfig>,
}

impl Minted {
    /// Creates the value from a chain (leaf first, no root), the CA certificate that issued the
    /// leaf, and the leaf's key. `alpn` lists the protocols of the server, best first.
    ///
    /// # Errors
    /// If the leaf cannot be parsed, or has another key.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        issuer: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
        alpn: &[String],
    ) -> Result<Self, MintError> {
        let leaf = chain
            .first()
            .ok_or(MintError::Leaf("the certificate is missing"))?;
        let fields =
            CertificateFields::read(leaf).ok_or(MintError::Leaf("its DER cannot be parsed"))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain.clone(), key.clone_key())?;
        config.alpn_protocols = alpn.iter().map(|name| name.clone().into_bytes()).collect();
        config.ticketer = aws_lc_rs::Ticketer::new()?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Minted {
            not_before: fields.not_before,
            not_after: fields.not_after,
            serial: fields.serial,
            made_in: Duration::ZERO,
            server_config: Arc::new(config),
            chain,
            issuer,
            key,
        })
    }

    /// Estimates the memory in bytes: the bytes that are stored twice (here and in the TLS
    /// settings), and the measured size of the rest.
    pub fn weight(&self) -> u32 {
        const REST: usize = 6 * 1024;
        let chain: usize = self.chain.iter().map(|der| der.len()).sum();
        let held = chain + self.key.secret_der().len();
        u32::try_from(2 * held + self.issuer.len() + REST).unwrap_or(u32::MAX)
    }
}

impl fmt::Debug for Minted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minted")
            .field("serial", &hex::encode(&self.serial))
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// Returns the cryptographic provider that all settings share.
pub(super) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));
    PROVIDER.clone()
}

/// Parsed fields of a certificate.
pub(super) struct CertificateFields {
    serial: Vec<u8>,
    not_before: SystemTime,
    pub(super) not_after: SystemTime,
}

impl CertificateFields {
    pub(super) fn read(certificate: &[u8]) -> Option<Self> {
        let (serial, validity) = serial_and_validity(certificate).ok()?;
        let mut validity = validity.reader();
        let mut time = |field| system_time(Time::read(validity.any(field).ok()?)?);
        Some(CertificateFields {
            serial: serial.value.to_vec(),
            not_before: time("notBefore")?,
            not_after: time("notAfter")?,
        })
    }
}

fn serial_and_validity(certificate: &[u8]) -> Result<(Tlv<'_>, Tlv<'_>), DerError> {
    let mut certificate = Reader::new(certificate).any("Certificate")?.reader();
    let mut tbs = certificate.any("tbsCertificate")?.reader();
    tbs.optional(tag::context(0), "version")?;
    let serial = tbs.any("serialNumber")?;
    tbs.any("signature")?;
    tbs.any("issuer")?;
    Ok((serial, tbs.any("validity")?))
}

fn system_time(time: Time) -> Option<SystemTime> {
    let seconds = time.unix();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    match seconds {
        0.. => UNIX_EPOCH.checked_add(distance),
        _ => UNIX_EPOCH.checked_sub(distance),
    }
}

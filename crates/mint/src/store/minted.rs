//! A finished certificate.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lucarne_x509::der::{DerError, Reader, Tlv, tag};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::{MintError, Time};

/// The protocols that a server of minted certificates offers by ALPN.
pub const DEFAULT_ALPN: [&str; 2] = ["h2", "http/1.1"];

/// A certificate that a TLS server can use as it is.
///
/// What a store keeps is this whole: the same [`ServerConfig`] answers every
/// connection to the host, so that TLS sessions resume (by tickets under a key
/// of its own: resumption takes no memory, and ends with the certificate).
pub struct Minted {
    /// Holds what the server sends: the leaf, then intermediates; no root.
    pub chain: Vec<CertificateDer<'static>>,
    /// The CA certificate that issued the leaf, whether it is sent or not.
    pub issuer: CertificateDer<'static>,
    /// The leaf's private key. **Secret.**
    pub key: PrivateKeyDer<'static>,
    /// The leaf's validity, from.
    pub not_before: SystemTime,
    /// The leaf's validity, through.
    pub not_after: SystemTime,
    /// The leaf's serial number, big-endian.
    pub serial: Vec<u8>,
    /// The time that making it took; zero when it was read from disk.
    pub made_in: Duration,
    /// TLS 1.2 and 1.3 with this certificate, ready to accept connections.
    pub server_config: Arc<ServerConfig>,
}

impl Minted {
    /// Of a chain (leaf first, no root), the CA certificate that issued the
    /// leaf and the leaf's key. `alpn`: the protocols that the server offers,
    /// best first.
    ///
    /// # Errors
    /// A leaf that cannot be read, or whose key is another.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        issuer: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
        alpn: &[String],
    ) -> Result<Self, MintError> {
        let leaf = chain.first().ok_or(MintError::Leaf("there is none"))?;
        let fields =
            CertificateFields::read(leaf).ok_or(MintError::Leaf("its DER cannot be read"))?;
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

    /// About how many bytes of memory this takes: the bytes it holds twice
    /// (once here, once in the TLS configuration), and what the rest was
    /// measured to take.
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

/// The one cryptographic provider of all configurations.
pub(super) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));
    PROVIDER.clone()
}

/// The fields that are read of a certificate.
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

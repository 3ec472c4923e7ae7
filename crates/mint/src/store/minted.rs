//! Certificates with their TLS settings: minted ones, and those of other issuers for the operator's
//! own hosts.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lucarne_x509::der::{DerError, Reader, Tlv, tag};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use webpki::EndEntityCert;

use super::{Host, StoreOptions};
use crate::{MintError, Time, pem};

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

/// A certificate of another issuer, with its key. For the hosts that this certificate covers,
/// clients receive it instead of a minted certificate.
#[derive(Clone)]
pub struct OwnCertificate {
    minted: Arc<Minted>,
    concerns: Arc<dyn Fn(&Host) -> bool + Send + Sync>,
}

impl OwnCertificate {
    /// Parses a chain and its key, both in PEM, for all hosts that the certificate covers. `alpn`
    /// lists the protocols of servers, best first.
    ///
    /// # Errors
    /// If a part cannot be parsed, or the key does not belong to the certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8], alpn: &[String]) -> Result<Self, MintError> {
        let (chain, key) = read_pair(certificates, key)?;
        let issuer = chain.get(1).or(chain.first()).cloned();
        let issuer = issuer.ok_or(MintError::Leaf("the certificate is missing"))?;
        EndEntityCert::try_from(&chain[0])
            .map_err(|_| MintError::Leaf("it is not a valid certificate of X.509 version 3"))?;
        let minted = Minted::new(chain, issuer, key, alpn)?;
        Ok(OwnCertificate {
            minted: Arc::new(minted),
            concerns: Arc::new(|_| true),
        })
    }

    /// Restricts the certificate to the hosts for which `concerns` returns `true`.
    pub fn only_for(self, concerns: impl Fn(&Host) -> bool + Send + Sync + 'static) -> Self {
        let concerns = Arc::new(concerns);
        OwnCertificate { concerns, ..self }
    }

    /// Returns whether the names in the certificate cover this host.
    pub fn covers(&self, host: &Host) -> bool {
        let name = ServerName::try_from(host.as_str());
        let leaf = EndEntityCert::try_from(&self.minted.chain[0]);
        match (name, leaf) {
            (Ok(name), Ok(leaf)) => leaf.verify_is_valid_for_subject_name(&name).is_ok(),
            _ => false,
        }
    }

    /// Returns the DNS names in the certificate, including wildcards.
    pub fn names(&self) -> Vec<String> {
        let leaf = EndEntityCert::try_from(&self.minted.chain[0]);
        leaf.map_or(Vec::new(), |leaf| {
            leaf.valid_dns_names().map(str::to_owned).collect()
        })
    }

    /// Returns the end of the certificate's validity.
    pub fn not_after(&self) -> SystemTime {
        self.minted.not_after
    }

    /// Returns the certificate if this host must be served with it.
    pub(super) fn serves(&self, host: &Host) -> Option<Arc<Minted>> {
        let served = (self.concerns)(host) && self.covers(host);
        served.then(|| self.minted.clone())
    }
}

impl fmt::Debug for OwnCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnCertificate")
            .field("names", &self.names())
            .finish_non_exhaustive()
    }
}

/// Parses a certificate chain (leaf first) and its key, both in PEM.
///
/// # Errors
/// If a part is missing or cannot be parsed.
pub fn read_pair(
    certificates: &[u8],
    key: &[u8],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), MintError> {
    let chain = pem::certificates(certificates)?.into_iter();
    let key = PrivateKeyDer::try_from(pem::private_key(key)?).map_err(MintError::PrivateKey)?;
    Ok((chain.map(CertificateDer::from).collect(), key))
}

/// Start of the renewal of a certificate, and end of its use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freshness {
    pub(super) refresh: SystemTime,
    pub(super) expires: SystemTime,
}

/// State of a certificate at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Fresh,
    /// Valid, but its renewal is due.
    Ageing,
    Expired,
}

impl Freshness {
    pub(super) fn of(minted: &Minted, options: &StoreOptions) -> Self {
        let life = minted.not_after.duration_since(minted.not_before);
        let life = life.unwrap_or(Duration::ZERO);
        let expires = minted.not_after - options.margin.min(life / 10);
        let refresh = expires - options.ahead.min(life / 4);
        Freshness { refresh, expires }
    }

    pub(super) fn at(&self, now: SystemTime) -> Age {
        if now >= self.expires {
            Age::Expired
        } else if now >= self.refresh {
            Age::Ageing
        } else {
            Age::Fresh
        }
    }

    /// Postpones a failed renewal by an eighth of the remaining time.
    pub(super) fn put_off(self, now: SystemTime) -> Self {
        let left = self.expires.duration_since(now).unwrap_or(Duration::ZERO);
        let refresh = now + left / 8;
        Freshness { refresh, ..self }
    }
}

/// Returns the cryptographic provider that all settings share.
fn provider() -> Arc<CryptoProvider> {
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

//! Certificates of one CA for requested hosts.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::minted::{CertificateFields, DEFAULT_ALPN, Minted};
use super::pool::KeyPool;
use super::server_certificate::ServerCertificate;
use super::{
    CertificateStore, Clock, Fingerprint, Generate, Host, OwnCertificate, StoreError, StoreKey,
    StoreStats,
};
use crate::{Authority, KeyPair, KeyType, MintError, Time};

/// Time by which certificates are backdated, for clients whose clocks are slow by hours or have the
/// date of the day before.
const BACKDATE: Duration = Duration::from_secs(2 * 86_400);

/// Number of slow (RSA) keys that are generated in advance.
const KEYS_AHEAD: usize = 8;

/// Sharing of keys among certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeafKey {
    /// Each certificate has its own key. RSA keys, which take tenths of a second, are generated in
    /// advance, a few at a time.
    #[default]
    PerCertificate,
    /// All certificates of a minter share one key, which is never the CA's. A certificate then
    /// costs one signature for any kind of key, but the one key is enough to impersonate all hosts.
    Shared,
}

/// Options for the certificates of a [`Minter`].
#[derive(Clone, Debug)]
pub struct MintOptions {
    /// Kind of the leaf keys: P-256 by default; RSA for old clients.
    pub key_type: KeyType,
    /// Sharing of the leaf keys.
    pub leaf_key: LeafKey,
    /// Lifetime of certificates: 30 days by default, but not beyond the end of the CA's
    /// certificate.
    pub lifetime: Duration,
    /// Whether one certificate covers all hosts one level below a domain, if browsers accept it
    /// ([`Host::wildcard`]); off by default.
    pub wildcard: bool,
    /// ALPN protocols of servers, best first: HTTP/2 and HTTP/1.1 by default.
    pub alpn: Vec<String>,
    /// Clock of the minter.
    pub clock: Clock,
}

impl Default for MintOptions {
    fn default() -> Self {
        MintOptions {
            key_type: KeyType::EcdsaP256,
            leaf_key: LeafKey::default(),
            lifetime: Duration::from_secs(30 * 86_400),
            wildcard: false,
            alpn: DEFAULT_ALPN.map(str::to_owned).to_vec(),
            clock: Clock::default(),
        }
    }
}

/// Creates server certificates of a CA for hosts. Each certificate is created once, and again only
/// after the store has dropped it.
///
/// Serial numbers are 128 random bits, so certificates never share one, even across processes.
/// Certificates have no URLs of revocation lists or OCSP, because no server would respond there.
pub struct Minter {
    issuer: ArcSwap<Issuer>,
    own: ArcSwap<Vec<OwnCertificate>>,
    store: Arc<dyn CertificateStore>,
    mint: Arc<LeafMinter>,
}

/// The current CA.
struct Issuer {
    authority: Authority,
    fingerprint: Fingerprint,
    generate: Generate,
}

/// Parts of a minter that do not depend on the CA.
struct LeafMinter {
    options: MintOptions,
    keys: Arc<KeyPool>,
    /// The shared key, after it was generated.
    shared: Mutex<Option<Arc<KeyPair>>>,
}

impl Minter {
    /// Creates a minter for `ca` and `store`.
    ///
    /// # Errors
    /// If the kind of key cannot be generated, or the CA's certificate cannot be parsed.
    pub fn new(
        ca: Authority,
        store: Arc<dyn CertificateStore>,
        options: MintOptions,
    ) -> Result<Self, MintError> {
        let kind = options.key_type;
        if let KeyType::Rsa(bits) = kind
            && ![2048, 3072, 4096, 8192].contains(&bits)
        {
            return Err(MintError::RsaSize(bits));
        }
        let mint = Arc::new(LeafMinter {
            options,
            keys: KeyPool::new(kind, KEYS_AHEAD),
            shared: Mutex::default(),
        });
        match mint.options.leaf_key {
            LeafKey::PerCertificate => mint.keys.fill(),
            LeafKey::Shared => make_ahead(&mint),
        }
        Ok(Minter {
            issuer: ArcSwap::from_pointee(Issuer::new(ca, &mint)?),
            own: ArcSwap::default(),
            store,
            mint,
        })
    }

    /// Returns the certificate for a host: the first [`OwnCertificate`] that covers it, otherwise a
    /// stored or a new one.
    ///
    /// Any number of callers may request certificates concurrently; see [`CertificateStore`].
    ///
    /// # Errors
    /// If the CA has expired, the certificate cannot be created, or too many requests are waiting.
    pub async fn certificate(&self, host: &Host) -> Result<Arc<Minted>, StoreError> {
        if let Some(own) = self.own.load().iter().find_map(|own| own.serves(host)) {
            return Ok(own);
        }
        let issuer = self.issuer.load_full();
        let wildcard = host.wildcard().filter(|_| self.mint.options.wildcard);
        let key = StoreKey {
            ca: issuer.fingerprint,
            host: wildcard.unwrap_or_else(|| host.clone()),
            key_type: self.mint.options.key_type,
        };
        self.store.fetch(&key, issuer.generate.clone()).await
    }

    /// Issues from `ca` from now on. Certificates of the earlier CA are not used for new
    /// connections; open connections continue.
    ///
    /// # Errors
    /// If the CA's certificate cannot be parsed; nothing changes.
    pub fn replace_ca(&self, ca: Authority) -> Result<(), MintError> {
        self.issuer.store(Arc::new(Issuer::new(ca, &self.mint)?));
        Ok(())
    }

    /// Replaces the certificates that are served instead of minted certificates.
    pub fn replace_own(&self, own: Vec<OwnCertificate>) {
        self.own.store(Arc::new(own));
    }

    /// Returns the current CA.
    pub fn ca(&self) -> Authority {
        self.issuer.load().authority.clone()
    }

    /// Returns the options that [`Minter::new`] received.
    pub fn options(&self) -> &MintOptions {
        &self.mint.options
    }

    /// Returns the statistics of the store.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }
}

impl Issuer {
    fn new(authority: Authority, mint: &Arc<LeafMinter>) -> Result<Self, MintError> {
        let fields = CertificateFields::read(authority.cert_der());
        let ca_ends = fields
            .ok_or(MintError::Certificate("its validity cannot be parsed"))?
            .not_after;
        let (mint, issuing) = (mint.clone(), authority.clone());
        Ok(Issuer {
            fingerprint: Fingerprint::of(authority.cert_der()),
            generate: Arc::new(move |key| mint.certificate(&issuing, ca_ends, &key.host)),
            authority,
        })
    }
}

impl LeafMinter {
    /// Creates a certificate. Blocks while its key is generated.
    fn certificate(
        &self,
        ca: &Authority,
        ca_ends: SystemTime,
        host: &Host,
    ) -> Result<Minted, MintError> {
        let now = self.options.clock.now();
        let Ok(left) = ca_ends.duration_since(now) else {
            return Err(MintError::CaExpired {
                ended: Time::from(ca_ends).unix(),
            });
        };
        let life = self.options.lifetime.min(left);
        let key = self.key()?;
        let certificate = ServerCertificate {
            names: &host.names(),
            // A short lifetime limits the backdating.
            not_before: (now - BACKDATE.min(life)).into(),
            not_after: (now + life).into(),
            key: &key,
        };
        let leaf = certificate.issue(ca)?;
        let chain = ca.chain(leaf).into_certificates();
        Minted::new(
            chain.into_iter().map(CertificateDer::from).collect(),
            CertificateDer::from(ca.cert_der().to_vec()),
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_pkcs8()?)),
            &self.options.alpn,
        )
    }

    fn key(&self) -> Result<Arc<KeyPair>, MintError> {
        match self.options.leaf_key {
            LeafKey::PerCertificate => Ok(Arc::new(self.keys.take()?)),
            LeafKey::Shared => {
                let mut shared = self.shared.lock();
                if let Some(key) = &*shared {
                    return Ok(key.clone());
                }
                let key = KeyPair::generate(self.options.key_type)?;
                Ok(shared.insert(Arc::new(key)).clone())
            }
        }
    }
}

/// Generates the shared key in the background. Callers that need the key earlier wait for it, and
/// receive the error if the generation fails.
fn make_ahead(mint: &Arc<LeafMinter>) {
    let mint = mint.clone();
    let make = move || drop(mint.key());
    let _ = std::thread::Builder::new()
        .name("mint-keys".to_owned())
        .spawn(make);
}

impl fmt::Debug for Minter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minter")
            .field("ca", &self.issuer.load().fingerprint)
            .field("options", &self.mint.options)
            .finish_non_exhaustive()
    }
}

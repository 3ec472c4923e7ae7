//! Certificates of one CA, for hosts as they come.

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

/// The time by which certificates are backdated, for clients whose clocks are behind: by hours, or
/// by a day where the date was set wrong.
const BACKDATE: Duration = Duration::from_secs(2 * 86_400);

/// The number of slow (RSA) keys that are made ahead.
const KEYS_AHEAD: usize = 8;

/// The choice of whose key is in a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeafKey {
    /// Each certificate has a key of its own. RSA keys, which take tens of
    /// milliseconds, are made ahead, a few at a time.
    #[default]
    PerCertificate,
    /// All certificates of a minter share one key (never the CA's). A
    /// certificate then costs one signature, whatever the kind of key; whoever
    /// gets hold of the one key can pose as all of the hosts.
    Shared,
}

/// The options of minting.
#[derive(Clone, Debug)]
pub struct MintOptions {
    /// The kind of their keys: P-256. RSA for clients that know nothing else.
    pub key_type: KeyType,
    /// The choice of whose keys they are.
    pub leaf_key: LeafKey,
    /// The time that they are valid: 30 days, but no longer than the CA.
    pub lifetime: Duration,
    /// One certificate for all hosts one level below a domain, where browsers
    /// take such a one ([`Host::wildcard`]): off.
    pub wildcard: bool,
    /// The protocols that servers offer, best first: HTTP/2 and HTTP/1.1.
    pub alpn: Vec<String>,
    /// The source of the time.
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

/// Mints server certificates of a CA for hosts, each once for as long as its
/// store keeps it.
///
/// Serial numbers are 128 random bits, so no two certificates share one, of
/// however many processes. Certificates name no place for revocation lists or
/// OCSP: nobody would answer there.
pub struct Minter {
    issuer: ArcSwap<Issuer>,
    own: ArcSwap<Vec<OwnCertificate>>,
    store: Arc<dyn CertificateStore>,
    mint: Arc<LeafMinter>,
}

/// The CA of the moment.
struct Issuer {
    authority: Authority,
    fingerprint: Fingerprint,
    generate: Generate,
}

/// The parts of a minter that do not change with the CA.
struct LeafMinter {
    options: MintOptions,
    keys: Arc<KeyPool>,
    /// The one key, once it was made, where all share it.
    shared: Mutex<Option<Arc<KeyPair>>>,
}

impl Minter {
    /// Mints by `ca` into `store`.
    ///
    /// # Errors
    /// A kind of key that cannot be made, or a CA whose certificate cannot be
    /// read.
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

    /// The certificate for a host: the first [`OwnCertificate`] that covers it, else
    /// from the store or made now.
    ///
    /// Any number of callers may ask at a time, for one host or many; see
    /// [`CertificateStore`] for what then happens.
    ///
    /// # Errors
    /// The CA has expired, or too much is asked at a time.
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

    /// Mints by `ca` from now on. No certificate of the CA before is given
    /// out any more; connections that are open stay so.
    ///
    /// # Errors
    /// A CA whose certificate cannot be read; then nothing changes.
    pub fn replace_ca(&self, ca: Authority) -> Result<(), MintError> {
        self.issuer.store(Arc::new(Issuer::new(ca, &self.mint)?));
        Ok(())
    }

    /// Serves these instead of minted certificates from now on, and those
    /// that were given before no more.
    pub fn replace_own(&self, own: Vec<OwnCertificate>) {
        self.own.store(Arc::new(own));
    }

    /// The CA of the moment.
    pub fn ca(&self) -> Authority {
        self.issuer.load().authority.clone()
    }

    /// Returns what certificates are minted.
    pub fn options(&self) -> &MintOptions {
        &self.mint.options
    }

    /// Returns what the store did so far.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }
}

impl Issuer {
    fn new(authority: Authority, mint: &Arc<LeafMinter>) -> Result<Self, MintError> {
        let fields = CertificateFields::read(authority.cert_der());
        let ca_ends = fields
            .ok_or(MintError::Certificate("its validity cannot be read"))?
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
    /// A new certificate. Blocks for as long as its key takes.
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
            // A short life is not begun long ago: shares of it count.
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

/// Makes the shared key aside. Whoever needs it before it is there waits for it, and
/// is told if it cannot be made.
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

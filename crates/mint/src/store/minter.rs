//! Certificates of one CA for requested hosts.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Release},
};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use moka::sync::Cache;
use parking_lot::Mutex;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::minted::{CertificateFields, DEFAULT_ALPN, Minted};
use super::{
    CertificateStore, Clock, Fingerprint, Generate, Host, Likeness, NoStore, OwnCertificate,
    StoreError, StoreKey, StoreOptions, StoreStats,
};
use crate::certificate::random_serial;
use crate::{
    Authority, Extension, KeyPair, KeyType, Lengths, MintError, Name, Template, Time, Version,
    extension, oid,
};

/// Time by which certificates are backdated, for clients whose clocks are slow by hours or have the
/// date of the day before.
const BACKDATE: Duration = Duration::from_secs(2 * 86_400);

/// Limit of certificates in memory that resemble others.
const RESEMBLING: u64 = 1024;

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
    /// Certificates that resemble others. Their validity does not follow the rules of a store.
    resembling: Cache<StoreKey, (Arc<Likeness>, Arc<Minted>)>,
    unstored: NoStore,
}

/// The current CA.
struct Issuer {
    authority: Authority,
    /// End of its certificate in Unix seconds.
    ends: i64,
    fingerprint: Fingerprint,
    generate: Generate,
}

/// Parts of a minter that do not depend on the CA.
struct LeafMinter {
    options: MintOptions,
    keys: Arc<KeyPool>,
    /// The shared key of each kind, after it was generated.
    shared: Mutex<HashMap<KeyType, Arc<KeyPair>>>,
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
            resembling: Cache::new(RESEMBLING),
            unstored: NoStore::new(&StoreOptions::default()),
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

    /// Returns a certificate for a host that resembles another certificate, possibly an expired
    /// one. An [`OwnCertificate`] has precedence, as in [`certificate`](Self::certificate).
    /// Certificates with RSA keys share a key of each size.
    ///
    /// # Errors
    /// The errors of [`certificate`](Self::certificate).
    pub async fn resembling(
        &self,
        host: &Host,
        likeness: &Arc<Likeness>,
    ) -> Result<Arc<Minted>, StoreError> {
        if let Some(own) = self.own.load().iter().find_map(|own| own.serves(host)) {
            return Ok(own);
        }
        let issuer = self.issuer.load_full();
        let key = StoreKey {
            ca: issuer.fingerprint,
            host: host.clone(),
            key_type: likeness.key_type.unwrap_or(self.mint.options.key_type),
        };
        if let Some((known, minted)) = self.resembling.get(&key)
            && known == *likeness
        {
            return Ok(minted);
        }
        let (mint, copied) = (self.mint.clone(), likeness.clone());
        let generate: Generate = Arc::new(move |key| mint.resembling(&issuer, key, &copied));
        let minted = self.unstored.fetch(&key, generate).await?;
        let entry = (likeness.clone(), minted.clone());
        self.resembling.insert(key, entry);
        Ok(minted)
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

    /// Returns the statistics of the store. Certificates that resemble others count as created.
    pub fn stats(&self) -> StoreStats {
        let (stored, others) = (self.store.stats(), self.unstored.stats());
        StoreStats {
            generated: stored.generated + others.generated,
            errors: stored.errors + others.errors,
            ..stored
        }
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
            ends: Time::from(ca_ends).unix(),
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
        self.issue(ca, &certificate)
    }

    /// Creates a certificate that resembles another one, but is not valid beyond the end of the
    /// CA's certificate. Blocks while its key is generated.
    fn resembling(
        &self,
        issuer: &Issuer,
        key: &StoreKey,
        likeness: &Likeness,
    ) -> Result<Minted, MintError> {
        let key = match key.key_type {
            kind @ KeyType::Rsa(_) => self.shared_key(kind)?,
            kind if self.options.leaf_key == LeafKey::Shared => self.shared_key(kind)?,
            kind => Arc::new(KeyPair::generate(kind)?),
        };
        let certificate = ServerCertificate {
            names: &likeness.names,
            not_before: likeness.not_before,
            not_after: Time::from_unix(likeness.not_after.unix().min(issuer.ends)),
            key: &key,
        };
        self.issue(&issuer.authority, &certificate)
    }

    fn issue(
        &self,
        ca: &Authority,
        certificate: &ServerCertificate<'_>,
    ) -> Result<Minted, MintError> {
        let leaf = certificate.issue(ca)?;
        let chain = ca.chain(leaf).into_certificates();
        Minted::new(
            chain.into_iter().map(CertificateDer::from).collect(),
            CertificateDer::from(ca.cert_der().to_vec()),
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certificate.key.to_pkcs8()?)),
            &self.options.alpn,
        )
    }

    fn key(&self) -> Result<Arc<KeyPair>, MintError> {
        match self.options.leaf_key {
            LeafKey::PerCertificate => Ok(Arc::new(self.keys.take()?)),
            LeafKey::Shared => self.shared_key(self.options.key_type),
        }
    }

    fn shared_key(&self, kind: KeyType) -> Result<Arc<KeyPair>, MintError> {
        let mut shared = self.shared.lock();
        if let Some(key) = shared.get(&kind) {
            return Ok(key.clone());
        }
        let key = Arc::new(KeyPair::generate(kind)?);
        shared.insert(kind, key.clone());
        Ok(key)
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

/// An unissued server certificate with the fields that clients need. The certificate has no
/// policies, and no URLs of revocation lists or OCSP, because no server would respond there.
struct ServerCertificate<'a> {
    /// DNS names and IP addresses.
    names: &'a [String],
    not_before: Time,
    not_after: Time,
    /// Key of the server.
    key: &'a KeyPair,
}

impl ServerCertificate<'_> {
    /// Issues the certificate by `ca` and returns its DER.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    fn issue(&self, ca: &Authority) -> Result<Vec<u8>, MintError> {
        ca.sign(&self.template(ca)?)
    }

    fn template(&self, ca: &Authority) -> Result<Template, MintError> {
        let subject = Name::of_leaf(self.names);
        Ok(Template {
            version: Version::V3,
            serial: random_serial()?,
            algorithm: ca.key().default_algorithm(),
            inner_algorithm: None,
            outer_algorithm: None,
            issuer: ca.name().clone(),
            not_before: self.not_before,
            not_after: self.not_after,
            extensions: self.extensions(ca, &subject),
            subject,
            spki: self.key.spki().to_vec(),
            lengths: Lengths::Minimal,
        })
    }

    fn extensions(&self, ca: &Authority, subject: &Name) -> Vec<Extension> {
        let rsa = matches!(self.key.kind(), KeyType::Rsa(_));
        let mut names = extension::subject_alt_name(self.names);
        // RFC 5280, section 4.2.1.6: with an empty subject, the subjectAltName is critical.
        names.critical = *subject == Name::empty();
        let mut extensions = vec![
            extension::leaf_key_usage(rsa),
            extension::extended_key_usage(&[oid::SERVER_AUTH]),
            extension::end_entity(),
            extension::subject_key_id(self.key.id()),
        ];
        extensions.extend(ca.authority_key_id().cloned());
        extensions.push(names);
        extensions
    }
}

/// A few keys that were generated in advance, because their generation takes longer than a client
/// should wait. Each key is used once.
#[derive(Debug)]
struct KeyPool {
    kind: KeyType,
    size: usize,
    ready: Mutex<VecDeque<KeyPair>>,
    filling: AtomicBool,
}

impl KeyPool {
    /// Creates a pool, which stays empty for kinds that are generated in microseconds.
    fn new(kind: KeyType, size: usize) -> Arc<Self> {
        let slow = matches!(kind, KeyType::Rsa(_));
        Arc::new(KeyPool {
            kind,
            size: if slow { size } else { 0 },
            ready: Mutex::default(),
            filling: AtomicBool::new(false),
        })
    }

    /// Takes an unused key from the pool, or generates one. Blocks.
    ///
    /// # Errors
    /// If the kind cannot be generated.
    fn take(self: &Arc<Self>) -> Result<KeyPair, MintError> {
        let ready = self.ready.lock().pop_front();
        self.fill();
        ready.map_or_else(|| KeyPair::generate(self.kind), Ok)
    }

    /// Fills the pool on a separate thread. At most one thread runs at a time.
    fn fill(self: &Arc<Self>) {
        if self.ready.lock().len() >= self.size || self.filling.swap(true, AcqRel) {
            return;
        }
        let pool = Arc::downgrade(self);
        let fill = move || {
            // The owner may drop the pool in the meantime.
            while let Some(pool) = pool.upgrade() {
                let made = KeyPair::generate(pool.kind).ok();
                // If the generation fails, the next caller of `take` receives the error.
                let failed = made.is_none();
                let mut ready = pool.ready.lock();
                ready.extend(made);
                if failed || ready.len() >= pool.size {
                    pool.filling.store(false, Release);
                    return;
                }
            }
        };
        let spawned = std::thread::Builder::new()
            .name("mint-keys".to_owned())
            .spawn(fill);
        if spawned.is_err() {
            self.filling.store(false, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LeafOptions;
    use crate::testing::Pki;

    /// Returns a WebPKI leaf without URLs of services and without policies.
    fn stripped(ca: &Authority, options: &LeafOptions) -> Template {
        let mut template = ca.leaf_template(options).unwrap();
        for oid in [
            oid::AUTHORITY_INFO_ACCESS,
            oid::CRL_DISTRIBUTION_POINTS,
            oid::CERTIFICATE_POLICIES,
        ] {
            template.remove_extension(&oid);
        }
        if template.subject == Name::empty() {
            let names = template.extension_mut(&oid::SUBJECT_ALT_NAME);
            names.unwrap().critical = true;
        }
        template
    }

    #[test]
    fn it_is_a_leaf_of_the_webpki_without_services() {
        let pki = Pki::shared();
        let long = format!("{}.example.test", "a".repeat(60));
        for kind in [KeyType::EcdsaP256, KeyType::Rsa(2048)] {
            let key = Arc::new(KeyPair::generate(kind).unwrap());
            for names in [&["a.test", "*.a.test"][..], &["192.0.2.7"], &[&long]] {
                for ca in [&pki.root, &pki.rsa, &pki.p384] {
                    let mut options = LeafOptions::with_key(names.to_vec(), key.clone());
                    options.eku = vec![oid::SERVER_AUTH];
                    let certificate = ServerCertificate {
                        names: &options.names,
                        not_before: options.not_before,
                        not_after: options.not_after,
                        key: &key,
                    };
                    let template = certificate.template(ca).unwrap();
                    options.serial = Some(template.serial.clone());
                    assert_eq!(template.tbs(), stripped(ca, &options).tbs());
                    assert_eq!(template.algorithm, ca.key().default_algorithm());
                }
            }
        }
    }
}

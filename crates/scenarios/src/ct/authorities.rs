//! Certificate authorities of the submissions: from `lucarne ca new`, or from the configuration.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64_simd::STANDARD;
use lucarne_ct::{Certificate, EntryKind};
use lucarne_mint::{
    Authority, Chain, Der, KeyPair, KeyType, LeafOptions, MintError, Time, oid, pem,
};

use super::profile::{DAY, Profile};
use super::{Issuers, Roots, roots};

/// Certificate authorities of the submissions.
#[derive(Clone, Debug)]
pub enum Authorities {
    /// Created by `lucarne ca new`.
    Made(Box<Roots>),
    /// A configured CA certificate and key, in the form that the CT hammer accepts.
    Given(Box<GivenAuthority>),
}

/// A CA from configured files.
#[derive(Clone, Debug)]
pub struct GivenAuthority {
    authority: Authority,
    /// Key of all leaves, if configured.
    leaf: Option<Arc<KeyPair>>,
}

/// Files of a configured CA.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthorityFiles {
    /// Certificate of the CA, and the certificates above it, in PEM.
    pub(crate) certificate: PathBuf,
    /// Private key of the CA.
    pub(crate) key: PathBuf,
    /// Private key of all leaves, if configured.
    pub(crate) leaf_key: Option<PathBuf>,
}

/// Errors of the files of a configured CA.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorityError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The file is invalid.
    #[error("cannot use the authority in {}: {source}", path.display())]
    Mint { path: PathBuf, source: MintError },
    /// The file has no private key.
    #[error("{}: the file has no private key (PEM, PKCS#8 or PKCS#1)", .0.display())]
    NoKey(PathBuf),
}

impl AuthorityError {
    fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self::Io { path, source }
    }

    fn mint(path: &Path, source: MintError) -> Self {
        let path = path.to_owned();
        Self::Mint { path, source }
    }
}

impl Authorities {
    /// Reads a CA from its files.
    ///
    /// # Errors
    /// If a file cannot be read, or is invalid.
    pub(crate) fn given(files: &AuthorityFiles) -> Result<Self, AuthorityError> {
        let path = &files.certificate;
        let text = fs::read_to_string(path).map_err(|source| AuthorityError::io(path, source))?;
        let wrong = |source| AuthorityError::mint(path, source);
        let certificates = roots::certificates(&text).map_err(wrong)?;
        let key = read_key(&files.key)?;
        let authority = Authority::new(key, certificates).map_err(wrong)?;
        let leaf = files.leaf_key.as_deref().map(read_key).transpose()?;
        Ok(Self::Given(Box::new(GivenAuthority {
            authority,
            leaf: leaf.map(Arc::new),
        })))
    }

    /// Returns the profiles of the certificates to submit.
    pub(crate) fn profiles(&self, issuers: Issuers) -> Vec<Profile<'_>> {
        match self {
            Self::Made(roots) => issuers.profiles(roots),
            Self::Given(given) => vec![Profile::of(&given.authority)],
        }
    }

    /// Returns the key of all leaves, if one is configured.
    pub(crate) fn leaf_key(&self) -> Option<Arc<KeyPair>> {
        match self {
            Self::Made(_) => None,
            Self::Given(given) => given.leaf.clone(),
        }
    }

    /// Returns the certificates of the known roots in DER.
    pub(crate) fn roots(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Made(roots) => {
                let roots = [&roots.x1, &roots.x2];
                roots.map(|root| root.cert_der().to_vec()).into()
            }
            Self::Given(given) => {
                let (_, root) = split(given.authority.certificates());
                root.map(<[u8]>::to_vec).into_iter().collect()
            }
        }
    }

    /// Returns the known roots in the format of get-roots.
    pub(crate) fn roots_base64(&self) -> Vec<String> {
        let roots = self.roots();
        roots
            .iter()
            .map(|der| STANDARD.encode_to_string(der))
            .collect()
    }

    /// Names the roots that a log must accept, for messages.
    pub(crate) fn roots_file(&self) -> String {
        match self {
            Self::Made(roots) => roots.roots_file().display().to_string(),
            Self::Given(_) => "the root of --intermediate-ca-cert-path".to_owned(),
        }
    }

    fn one(&self) -> &Authority {
        match self {
            Self::Made(roots) => &roots.p256,
            Self::Given(given) => &given.authority,
        }
    }

    /// Returns the body of a submission whose leaf expires at `not_after`, in seconds since 1970.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub(crate) fn probe(&self, kind: EntryKind, not_after: i64) -> Result<Vec<u8>, MintError> {
        let mut options = probe_leaf(not_after)?;
        if kind == EntryKind::Precert {
            options = options.precertificate();
        }
        let leaf = self.one().issue(&options)?;
        Ok(self.body(leaf))
    }

    /// Returns the body of a submission with an invalid signature.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub(crate) fn forged(&self, not_after: i64) -> Result<Vec<u8>, MintError> {
        let mut forged = self.one().issue(&probe_leaf(not_after)?)?;
        // Changes the last byte of the signature, of any algorithm: the encoding stays valid.
        if let Some(last) = forged.last_mut() {
            *last ^= 1;
        }
        Ok(self.body(forged))
    }

    fn body(&self, leaf: Vec<u8>) -> Vec<u8> {
        let (sent, _) = split(self.one().certificates());
        Chain::new([&[leaf], sent].concat()).to_json().into_bytes()
    }
}

/// Returns the options of a leaf that expires at `not_after`, in seconds since 1970.
pub(crate) fn probe_leaf(not_after: i64) -> Result<LeafOptions, MintError> {
    let key = Arc::new(KeyPair::generate(KeyType::EcdsaP256)?);
    let mut options = LeafOptions::with_key(["probe.load.example.test"], key);
    let not_before = (Time::now().unix() - 3600).min(not_after - 30 * DAY);
    options.not_before = Time::from_unix(not_before);
    options.not_after = Time::from_unix(not_after);
    Ok(options)
}

/// Splits an authority's certificates into the certificates to send and the root, which is not
/// sent.
pub(crate) fn split(certificates: &[Vec<u8>]) -> (&[Vec<u8>], Option<&[u8]>) {
    match certificates.split_last() {
        Some((last, before)) if is_root(last) => (before, Some(last)),
        _ => (certificates, None),
    }
}

fn is_root(der: &[u8]) -> bool {
    Certificate::parse(der).is_ok_and(|it| it.subject() == it.issuer())
}

/// Reads a private key in PKCS#8 or PKCS#1, the format of older tools. Accepts the labels of test
/// keys, too.
fn read_key(path: &Path) -> Result<KeyPair, AuthorityError> {
    let text = fs::read_to_string(path).map_err(|source| AuthorityError::io(path, source))?;
    let wrong = |source| AuthorityError::mint(path, source);
    for (label, bytes) in pem::decode(&text).map_err(|error| wrong(error.into()))? {
        let label = label.replace("TEST PRIVATE KEY", "PRIVATE KEY");
        let pkcs8 = match label.as_str() {
            "PRIVATE KEY" => bytes,
            "RSA PRIVATE KEY" => wrapped(&bytes),
            _ => continue,
        };
        return KeyPair::from_pkcs8(&pkcs8).map_err(wrong);
    }
    Err(AuthorityError::NoKey(path.to_owned()))
}

/// Wraps an RSAPrivateKey (RFC 8017, section A.1.2) in PKCS#8 (RFC 5208).
fn wrapped(pkcs1: &[u8]) -> Vec<u8> {
    Der::build(|der| {
        der.sequence(|der| {
            der.integer(0);
            der.sequence(|der| {
                der.oid(&oid::RSA_ENCRYPTION);
                der.null();
            });
            der.octet_string(pkcs1);
        });
    })
}

//! The authorities of what is submitted: those of `lucarne ca new`, or one that was given.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64_simd::STANDARD;
use lucarne_ct::{Certificate, EntryKind};
use lucarne_mint::{Authority, Chain, Der, Error, KeyPair, oid, pem};

use super::profile::Profile;
use super::{Issuers, Roots, probes, roots};

/// See the module.
#[derive(Clone, Debug)]
pub enum Authorities {
    /// Made by `lucarne ca new`.
    Made(Box<Roots>),
    /// A CA's certificate and key, as the CT hammer is given them.
    Given(Box<GivenAuthority>),
}

/// A CA that was given by its files.
#[derive(Clone, Debug)]
pub struct GivenAuthority {
    authority: Authority,
    /// The key of the leaves.
    leaf: Option<Arc<KeyPair>>,
}

/// The files of a CA that is given.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthorityFiles {
    /// Its certificate, and those above it, in PEM.
    pub(crate) certificate: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
    /// The key of the leaves.
    pub(crate) leaf_key: Option<PathBuf>,
}

impl Authorities {
    /// Reads a CA from its files.
    ///
    /// # Errors
    /// In words: which file, and what is wrong with it.
    pub(crate) fn given(files: &AuthorityFiles) -> Result<Self, String> {
        let wrong = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let certificates = fs::read_to_string(&files.certificate)
            .map_err(|error| wrong(&files.certificate, &error))
            .and_then(|text| {
                roots::certificates(&text).map_err(|error| wrong(&files.certificate, &error))
            })?;
        let key = read_key(&files.key).map_err(|why| wrong(&files.key, &why))?;
        let authority =
            Authority::new(key, certificates).map_err(|error| wrong(&files.certificate, &error))?;
        let leaf = files.leaf_key.as_deref();
        let leaf = leaf.map(|path| read_key(path).map_err(|why| wrong(path, &why)));
        Ok(Self::Given(Box::new(GivenAuthority {
            authority,
            leaf: leaf.transpose()?.map(Arc::new),
        })))
    }

    /// The sorts of certificates that are sent.
    pub(crate) fn profiles(&self, issuers: Issuers) -> Vec<Profile<'_>> {
        match self {
            Self::Made(roots) => issuers.profiles(roots),
            Self::Given(given) => vec![Profile::of(&given.authority)],
        }
    }

    /// The key of all leaves, if one is given.
    pub(crate) fn leaf_key(&self) -> Option<Arc<KeyPair>> {
        match self {
            Self::Made(_) => None,
            Self::Given(given) => given.leaf.clone(),
        }
    }

    /// The roots' certificates in DER, as far as they are known.
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

    /// The same, as get-roots has them.
    pub(crate) fn roots_base64(&self) -> Vec<String> {
        let roots = self.roots();
        roots
            .iter()
            .map(|der| STANDARD.encode_to_string(der))
            .collect()
    }

    /// Names what a log is configured with, for messages.
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

    /// The body of a submission whose leaf ends at `not_after`.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub(crate) fn probe(&self, kind: EntryKind, not_after: i64) -> Result<Vec<u8>, Error> {
        let mut options = probes::leaf(not_after)?;
        if kind == EntryKind::Precert {
            options = options.precertificate();
        }
        let leaf = self.one().issue(&options)?;
        Ok(self.body(leaf))
    }

    /// The same, with a signature that does not verify.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub(crate) fn forged(&self, not_after: i64) -> Result<Vec<u8>, Error> {
        let mut forged = self.one().issue(&probes::leaf(not_after)?)?;
        // The last byte of the signature, whichever algorithm made it: it stays well-formed.
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

/// Splits an authority's certificates into those that are sent and the root, which is left out.
pub(crate) fn split(certificates: &[Vec<u8>]) -> (&[Vec<u8>], Option<&[u8]>) {
    match certificates.split_last() {
        Some((last, before)) if is_root(last) => (before, Some(last)),
        _ => (certificates, None),
    }
}

fn is_root(der: &[u8]) -> bool {
    Certificate::parse(der).is_ok_and(|it| it.subject() == it.issuer())
}

/// A private key: PKCS#8, or PKCS#1 as older tools write it; also under the labels that
/// mark a key as one for tests.
fn read_key(path: &Path) -> Result<KeyPair, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let blocks = pem::decode(&text).map_err(|error| error.to_string())?;
    for (label, bytes) in blocks {
        let label = label.replace("TEST PRIVATE KEY", "PRIVATE KEY");
        let pkcs8 = match label.as_str() {
            "PRIVATE KEY" => bytes,
            "RSA PRIVATE KEY" => wrapped(&bytes),
            _ => continue,
        };
        return KeyPair::from_pkcs8(&pkcs8).map_err(|error| error.to_string());
    }
    Err("there is no private key in it (PEM, PKCS#8 or PKCS#1)".to_owned())
}

/// An RSAPrivateKey (RFC 8017 A.1.2) as PKCS#8 (RFC 5208).
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

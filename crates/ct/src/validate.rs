//! From a chain to an entry in two steps: the checks that need no signature, then the signatures.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_x509::oid;
use moka::sync::Cache;
use xxhash_rust::xxh3::Xxh3Builder;

use crate::algorithm::SignatureAlgorithm;
use crate::certificate::Certificate;
use crate::chain::Chain;
use crate::entry::{Entry, EntryKind, Identity, SignedEntry};
use crate::issuer_chain::{
    self, IssuerChain, IssuerPath, PrecertIssuer, PrecertIssuerKey, PreissuerRewrite,
    UnverifiedCertificate, VerifiedIssuer, only, root_that_signed,
};
use crate::known::KnownSignature;
use crate::policy::{Policy, check_policy};
use crate::precert::{check_kind, splice};
use crate::rejection::{Code, Rejection};
use crate::roots::{Root, Roots};
use crate::unsigned;
use crate::verification::Verification;

/// Maximum size in bytes of the certificates in the cache of verified tails. The whole WebPKI has a
/// few thousand issuing CAs of 2 kB each.
const CACHE_BYTES: u64 = 16 << 20;

/// Decides which submissions a log accepts. A validator has the roots and the policy of the log,
/// and a cache of verified chain tails. Other roots or another policy need another validator.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use lucarne_ct::{Chain, Code, EntryKind, Policy, Roots, Validator};
/// use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions};
///
/// let root = Authority::root(&CaOptions::named("Example Root", KeyType::EcdsaP256))?;
/// let ca = root.intermediate(&CaOptions::named("Example CA", KeyType::EcdsaP256))?;
/// let leaf = ca.issue(&LeafOptions::for_names(["www.example.test"])?)?;
/// let chain = Chain::from_ders(ca.chain(leaf).certificates())?;
///
/// let (roots, _) = Roots::from_pem(root.certificate_pem().as_bytes());
/// let validator = Validator::new(Arc::new(roots), Policy::default());
/// assert_eq!(validator.judge(&chain, 0)?, EntryKind::X509);
///
/// let without_roots = Validator::new(Arc::default(), Policy::default());
/// assert_eq!(without_roots.judge(&chain, 0).unwrap_err().code, Code::UnknownRoot);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Validator {
    roots: Arc<Roots>,
    policy: Policy,
    verification: Arc<Verification>,
    /// Verified tails by their cache key.
    verified: Cache<Vec<u8>, Arc<VerifiedIssuer>, Xxh3Builder>,
}

impl Validator {
    /// Creates a validator with an empty cache and a new [`Verification`].
    pub fn new(roots: Arc<Roots>, policy: Policy) -> Self {
        Self::sharing(roots, policy, Arc::default())
    }

    /// Creates a validator with an empty cache of tails that shares the known keys with other
    /// validators.
    pub fn sharing(roots: Arc<Roots>, policy: Policy, verification: Arc<Verification>) -> Self {
        let verified = Cache::builder()
            .max_capacity(CACHE_BYTES)
            .weigher(|key: &Vec<u8>, signer: &Arc<VerifiedIssuer>| {
                signer.weight() + key.len() as u32
            })
            .build_with_hasher(seeded());
        Self {
            roots,
            policy,
            verification,
            verified,
        }
    }

    /// Returns the accepted roots.
    pub fn roots(&self) -> &Arc<Roots> {
        &self.roots
    }

    /// Returns the policy of the log.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Performs every check that needs no signature: the form and the kind of the leaf, the policy,
    /// names and order of the chain, and the root. Computes the identity that the log uses for
    /// deduplication.
    ///
    /// `now_ms` is the time in milliseconds since 1970, for policies about expiry.
    ///
    /// # Errors
    /// Every [`Code`] except the codes of the body and of signatures.
    pub fn examine<'c>(
        &self,
        chain: &'c Chain,
        kind: EntryKind,
        now_ms: u64,
    ) -> Result<Examined<'c>, Rejection> {
        self.check_length(chain)?;
        let leaf = issuer_chain::parse(0, chain.leaf())?;
        check_kind(&leaf, kind)?;
        check_policy(&leaf, &self.policy, now_ms)?;
        check_once(chain)?;
        let path = self.path(chain, &leaf)?;
        let submission = match kind {
            EntryKind::X509 => Submission::X509(Identity::of_x509(chain.leaf())),
            EntryKind::Precert => path.precert(&leaf)?,
        };
        Ok(Examined {
            chain,
            leaf,
            path,
            submission,
            known_signature: None,
        })
    }

    /// Judges a chain like a submission to a log that does not have the entry. All signatures are
    /// verified, except those of issuers that have been verified before. The kind of the entry is
    /// the kind of the leaf.
    ///
    /// # Errors
    /// The errors of [`examine`](Self::examine) and [`verify`](Self::verify).
    pub fn judge(&self, chain: &Chain, now_ms: u64) -> Result<EntryKind, Rejection> {
        let leaf = issuer_chain::parse(0, chain.leaf())?;
        let kind = match leaf.extension(oid::content::POISON) {
            Some(_) => EntryKind::Precert,
            None => EntryKind::X509,
        };
        self.verify(self.examine(chain, kind, now_ms)?)?;
        Ok(kind)
    }

    fn check_length(&self, chain: &Chain) -> Result<(), Rejection> {
        if chain.len() <= self.policy.max_chain {
            return Ok(());
        }
        let (length, limit) = (chain.len(), self.policy.max_chain);
        let detail = format!("{length} certificates; expected at most {limit}");
        Err(Rejection::new(Code::ChainTooLong, detail))
    }

    fn path<'c>(&self, chain: &'c Chain, leaf: &Certificate<'c>) -> Result<Path<'c>, Rejection> {
        if chain.len() == 1 && self.roots.find(leaf).is_some() {
            return Ok(Path::Itself);
        }
        unsigned::check(0, leaf, &self.roots)?;
        let algorithm = SignatureAlgorithm::of(0, leaf, &self.policy)?;
        let cache_key = cache_key(chain);
        if let Some(signer) = self.verified.get(&cache_key) {
            issuer_chain::check_order(0, leaf, &signer.subject)?;
            return Ok(Path::VerifiedIssuer(algorithm, signer));
        }
        let above = chain.iter().skip(1);
        Ok(
            match IssuerPath::examine(leaf, above, &self.roots, &self.policy)? {
                IssuerPath::Roots(roots) => Path::Roots(algorithm, roots),
                IssuerPath::IssuerChain(issuers) => Path::IssuerChain {
                    algorithm,
                    issuers,
                    cache_key,
                },
            },
        )
    }

    /// Returns the leaf's signature if a batch with other submissions makes
    /// [`verify`](Self::verify) cheaper: the leaf's issuer has been verified before, and the
    /// issuer's key is prepared. `verify` uses the result of the batch, and tries the signature
    /// itself if there is no result.
    pub fn known_signature(&self, examined: &mut Examined<'_>) -> Option<Arc<KnownSignature>> {
        let Path::VerifiedIssuer(algorithm, signer) = &examined.path else {
            return None;
        };
        let (leaf, verification) = (&examined.leaf, &self.verification);
        let known = signer.key.known_signature(leaf, *algorithm, verification);
        examined.known_signature = known.map(Arc::new);
        examined.known_signature.clone()
    }

    /// Verifies the signatures and completes the entry. Issuers that have been verified before cost
    /// nothing, so that a submission costs one verification: the signature of its leaf.
    ///
    /// # Errors
    /// [`Code::InvalidSignature`], [`Code::UnsupportedKey`], [`Code::UnsupportedAlgorithm`],
    /// [`Code::MissingIssuer`].
    pub fn verify(&self, examined: Examined<'_>) -> Result<Entry, Rejection> {
        let Examined {
            chain,
            leaf,
            path,
            submission,
            known_signature,
        } = examined;
        let leaf = |algorithm| UnverifiedCertificate {
            index: 0,
            certificate: leaf,
            algorithm,
        };
        let signer = match path {
            Path::Itself => return entry(chain, submission, None),
            Path::Roots(algorithm, roots) => {
                let root = root_that_signed(&leaf(algorithm), &roots, &self.verification)?;
                return entry(chain, submission, Some(root.signer()));
            }
            Path::VerifiedIssuer(algorithm, signer) => {
                let (leaf, verification) = (leaf(algorithm), &self.verification);
                match known_signature {
                    Some(known) => leaf.verify_known_with(&known, &signer, verification)?,
                    None => leaf.verify_with(&signer, verification)?,
                }
                signer
            }
            Path::IssuerChain {
                algorithm,
                issuers,
                cache_key,
            } => {
                let signer = Arc::new(issuers.verify(&self.verification)?);
                leaf(algorithm).verify_with(&signer, &self.verification)?;
                // Inserted only after the leaf was verified. Otherwise an attacker without a leaf
                // could fill the cache with other forms of a tail: a tail with k ECDSA signatures
                // has 2^k forms.
                self.verified.insert(cache_key, signer.clone());
                signer
            }
        };
        entry(chain, submission, Some(&signer))
    }
}

/// A submission that has passed all checks except the verification of signatures.
#[derive(Debug)]
pub struct Examined<'c> {
    chain: &'c Chain,
    leaf: Certificate<'c>,
    path: Path<'c>,
    submission: Submission,
    /// The leaf's signature by the issuer of [`Path::VerifiedIssuer`].
    known_signature: Option<Arc<KnownSignature>>,
}

impl Examined<'_> {
    /// Returns the identity that the log uses for deduplication. Returns `None` for a
    /// precertificate whose issuer was omitted and may be one of several roots with different keys:
    /// the identity is known after the signature was verified.
    pub fn identity(&self) -> Option<&Identity> {
        match &self.submission {
            Submission::X509(identity) => Some(identity),
            Submission::Precert { known, .. } => known.as_ref().map(|(identity, _)| identity),
        }
    }

    /// Returns the leaf's notBefore in milliseconds since 1970, if it is a valid time. The
    /// signature over it has not been verified yet.
    pub fn not_before(&self) -> Option<i64> {
        self.leaf.not_before()
    }

    /// Returns the signed entry, for a duplicate whose signatures are not verified again. Returns
    /// `None` if [`identity`](Self::identity) returns `None`.
    pub fn signed(&self) -> Option<SignedEntry> {
        match &self.submission {
            Submission::X509(_) => Some(SignedEntry::X509 {
                certificate: self.chain.leaf_bytes(),
            }),
            Submission::Precert { tbs, known } => {
                known.map(|(_, issuer_key_hash)| SignedEntry::Precert {
                    issuer_key_hash,
                    tbs: tbs.clone(),
                })
            }
        }
    }

    /// Returns the kind of entry.
    pub fn kind(&self) -> EntryKind {
        match &self.submission {
            Submission::X509(_) => EntryKind::X509,
            Submission::Precert { .. } => EntryKind::Precert,
        }
    }

    /// Returns the parsed leaf. Its signature has not been verified yet.
    pub fn leaf(&self) -> &Certificate<'_> {
        &self.leaf
    }
}

/// The signatures that must be verified.
#[derive(Debug)]
enum Path<'c> {
    /// No signature: the leaf itself is an accepted root.
    Itself,
    /// The leaf's signature, by one of these roots.
    Roots(SignatureAlgorithm, Vec<Arc<Root>>),
    /// The leaf's signature: the issuers above the leaf have been verified before.
    VerifiedIssuer(SignatureAlgorithm, Arc<VerifiedIssuer>),
    /// The signatures of the leaf and of the issuers above the leaf.
    IssuerChain {
        algorithm: SignatureAlgorithm,
        issuers: Box<IssuerChain<'c>>,
        cache_key: Vec<u8>,
    },
}

/// The entry that the log will sign, as far as it is known.
#[derive(Debug)]
enum Submission {
    X509(Identity),
    Precert {
        tbs: Bytes,
        /// Identity and `issuer_key_hash`, if the issuer is known.
        known: Option<(Identity, [u8; 32])>,
    },
}

impl Path<'_> {
    /// Returns the entry of a precertificate with this path.
    fn precert(&self, leaf: &Certificate<'_>) -> Result<Submission, Rejection> {
        let (key_hash, rewrite) = match self {
            Path::Itself => return Err(missing_issuer()),
            Path::Roots(_, roots) => (only(roots.iter().map(|root| root.key_hash())), None),
            Path::VerifiedIssuer(_, signer) => match &signer.precerts {
                PrecertIssuer::Itself { key_hash } => (Some(*key_hash), None),
                PrecertIssuer::Above { key_hash, rewrite } => (Some(*key_hash), Some(rewrite)),
                PrecertIssuer::Unknown => return Err(missing_issuer()),
            },
            Path::IssuerChain { issuers, .. } => {
                let PrecertIssuerKey { key_hash, rewrite } = issuers.precerts();
                return Ok(precert(leaf, key_hash, rewrite.as_ref()));
            }
        };
        Ok(precert(leaf, key_hash, rewrite))
    }
}

fn precert(
    leaf: &Certificate<'_>,
    key_hash: Option<[u8; 32]>,
    rewrite: Option<&PreissuerRewrite>,
) -> Submission {
    let tbs = Bytes::from(splice(leaf, rewrite));
    let known = key_hash.map(|key_hash| (Identity::of_precert(&key_hash, &tbs), key_hash));
    Submission::Precert { tbs, known }
}

fn missing_issuer() -> Rejection {
    let detail = "the chain has no certificate of the CA that will issue the final \
                  certificate, so the entry has no issuer key: add the certificate of this CA";
    Rejection::of(0, Code::MissingIssuer, detail)
}

/// Returns the entry of a verified submission; `signer` is `None` for a leaf that is a root.
fn entry(
    chain: &Chain,
    submission: Submission,
    signer: Option<&Arc<VerifiedIssuer>>,
) -> Result<Entry, Rejection> {
    let issuers = signer.map_or_else(|| Arc::from([]), |signer| signer.issuers.clone());
    let leaf = chain.leaf_bytes();
    Ok(match submission {
        Submission::X509(identity) => Entry {
            identity,
            signed: SignedEntry::X509 { certificate: leaf },
            precertificate: None,
            issuers,
        },
        Submission::Precert { tbs, known } => {
            let key_hash = signer.and_then(|signer| signer.precerts.key_hash());
            let issuer_key_hash = *key_hash.ok_or_else(missing_issuer)?;
            let identity = match known {
                Some((identity, known)) if known == issuer_key_hash => identity,
                _ => Identity::of_precert(&issuer_key_hash, &tbs),
            };
            Entry {
                identity,
                signed: SignedEntry::Precert {
                    issuer_key_hash,
                    tbs,
                },
                precertificate: Some(leaf),
                issuers,
            }
        }
    })
}

/// Checks that no certificate is repeated.
fn check_once(chain: &Chain) -> Result<(), Rejection> {
    for (index, certificate) in chain.iter().enumerate().skip(1) {
        if let Some(first) = chain.iter().take(index).position(|it| it == certificate) {
            let detail = format!(
                "the same certificate as certificate {first}; expected each \
                                  certificate once"
            );
            return Err(Rejection::of(index, Code::DuplicateCertificate, detail));
        }
    }
    Ok(())
}

/// Returns the cache key: the bytes after the leaf, and the ends of its certificates. Keys are
/// compared byte for byte, so that the cache may use a fast hash. The hash is seeded, so that an
/// attacker cannot choose colliding intermediates.
fn cache_key(chain: &Chain) -> Vec<u8> {
    let (bytes, ends) = chain.tail();
    let mut key = Vec::with_capacity(bytes.len() + 4 * ends.len());
    key.extend_from_slice(bytes);
    for pair in ends.windows(2) {
        key.extend_from_slice(&(pair[1] - pair[0]).to_be_bytes());
    }
    key
}

fn seeded() -> Xxh3Builder {
    let mut seed = [0; 8];
    // Without random numbers the seed is known, and a collision costs a comparison.
    let _ = aws_lc_rs::rand::fill(&mut seed);
    Xxh3Builder::new().with_seed(u64::from_ne_bytes(seed))
}

#[cfg(test)]
mod tests {
    use lucarne_mint::Authority;
    use lucarne_mint::testing::Pki;
    use lucarne_x509::der::{push_header, tag};

    use super::*;
    use crate::ChainLimits;

    fn validator() -> Validator {
        let (roots, _) = Roots::from_pem(Pki::shared().root.certificate_pem().as_bytes());
        Validator::new(Arc::new(roots), Policy::default())
    }

    fn chain(certificates: Vec<Vec<u8>>) -> Chain {
        let json = lucarne_mint::Chain::new(certificates).to_json();
        Chain::decode_json(json.as_bytes(), &ChainLimits::default()).unwrap()
    }

    fn below(issuer: &Authority, leaf: Vec<u8>) -> Vec<Vec<u8>> {
        issuer.chain(leaf).into_certificates()
    }

    fn flipped(mut der: Vec<u8>) -> Vec<u8> {
        *der.last_mut().unwrap() ^= 1;
        der
    }

    fn refused(judged: Result<EntryKind, Rejection>) -> (Code, String) {
        let rejection = judged.unwrap_err();
        (rejection.code, rejection.to_string())
    }

    #[test]
    fn a_tail_is_remembered_once_a_leaf_below_it_has_verified() {
        let (validator, ca) = (validator(), &Pki::shared().rsa);
        let leaf = ca.issue(&Pki::shared().leaf("www.example.com")).unwrap();
        let remembered = || {
            validator.verified.run_pending_tasks();
            validator.verified.entry_count()
        };
        let forged = chain(below(ca, flipped(leaf.clone())));
        assert_eq!(
            refused(validator.judge(&forged, 0)).0,
            Code::InvalidSignature
        );
        assert_eq!(remembered(), 0);
        let good = chain(below(ca, leaf));
        assert_eq!(validator.judge(&good, 0).unwrap(), EntryKind::X509);
        assert_eq!(remembered(), 1);
    }

    #[test]
    fn a_chain_is_judged_by_its_leafs_kind_and_with_all_signatures() {
        let (validator, ca) = (validator(), &Pki::shared().p256);
        let leaf = || Pki::shared().leaf("www.example.com");
        for (leaf, kind) in [
            (leaf().precertificate(), EntryKind::Precert),
            (leaf(), EntryKind::X509),
        ] {
            let der = ca.issue(&leaf).unwrap();
            let good = chain(below(ca, der.clone()));
            // The result is the same after the tail was cached.
            for _ in 0..2 {
                assert_eq!(validator.judge(&good, 0).unwrap(), kind);
                let forged = chain(below(ca, flipped(der.clone())));
                assert_eq!(
                    refused(validator.judge(&forged, 0)).0,
                    Code::InvalidSignature
                );
            }
            let mut forged = below(ca, der);
            forged[1] = flipped(forged[1].clone());
            let forged = chain(forged);
            assert_eq!(
                refused(validator.judge(&forged, 0)).0,
                Code::InvalidSignature
            );
        }
    }

    /// Bytes can be in the signed part, but in no field of it. Logs that accept them sign a
    /// TBSCertificate without them, which differs from that of the final certificate.
    #[test]
    fn bytes_behind_the_list_of_extensions_are_refused() {
        let ca = &Pki::shared().p256;
        let leaf = ca.issue(&Pki::shared().leaf("www.example.com")).unwrap();
        let (code, said) = refused(validator().judge(&chain(below(ca, with_more(&leaf))), 0));
        assert_eq!(code, Code::InvalidCertificate);
        assert!(said.contains("extensions"), "{said}");
    }

    /// Returns the certificate with a NULL after the list in `[3]`.
    fn with_more(der: &[u8]) -> Vec<u8> {
        let certificate = Certificate::parse(der).unwrap();
        let tlv = |tag, value: &[u8]| {
            let mut out = Vec::new();
            push_header(tag, value.len(), &mut out);
            out.extend_from_slice(value);
            out
        };
        let (tbs, (wrapper, list)) = (certificate.tbs_tlv(), certificate.extensions_tlv().unwrap());
        let fields = &der[tbs.end() - tbs.value.len()..wrapper.start()];
        let extensions = tlv(wrapper.tag, &[list.raw, &[tag::NULL, 0]].concat());
        let signed = tlv(tag::SEQUENCE, &[fields, &extensions].concat());
        tlv(tag::SEQUENCE, &[&signed, &der[tbs.end()..]].concat())
    }
}

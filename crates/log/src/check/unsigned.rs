//! The parts of an entry that its leaf hash does not cover: the precertificate and the chain.
//!
//! These parts are correct if a submission of the same chain would lead to the same entry. The
//! validator of submissions therefore verifies these parts, with every signature up to a root.
//!
//! A check of a log's own tiles ([`Chains`]) uses the last certificate of a chain as its root,
//! because the accepted roots change over time. A chain from another source ([`Accepted`]) must
//! lead to a root that the log accepts.

mod completion;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use lucarne_ct::{
    Certificate, Chain, Code, EntryKind, Fingerprint, Policy, Rejection, Require, Roots,
    SignedEntryRef, TileEntries, TileEntry, TileLeafRef, Validator, Verification,
    tbs_without_poison, tbs_without_poison_for,
};
use lucarne_ctread::Source;
use lucarne_x509::der::{Reader, tag};
use moka::sync::Cache;
use parking_lot::Mutex;

pub(crate) use self::completion::{OnlyMention, is_damaged_form};
use crate::read::single_flight::SingleFlight;

/// Bytes of issuers kept during a check.
const ISSUER_BYTES: u64 = 32 << 20;

/// Roots whose validators are kept during a check.
const MAX_ROOTS: u64 = 4096;

/// Maximum number of differing bits, of 256, between a damaged fingerprint and the correct
/// fingerprint. The fingerprints of two certificates differ in about 128 bits.
const MAX_FLIPPED: u32 = 64;

/// Maximum number of missing issuers that a check searches under 256 other names each. If more
/// issuers are missing, the whole directory of issuers is probably missing.
const MAX_SEARCHES: u32 = 16;

/// The known issuers of a tile, by their fingerprints.
pub(crate) type Issuers = HashMap<Fingerprint, Bytes>;

/// The reason why the unsigned parts of an entry are wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    /// A certificate of the chain is unknown.
    #[error("issuer/{0} of its chain is missing")]
    NoIssuer(Fingerprint),
    /// The validator rejects the chain.
    #[error("invalid chain: {0}")]
    Rejected(#[from] Rejection),
    /// The precertificate does not match the `TBSCertificate` that the tree has hashed.
    #[error("the TBSCertificate of its precertificate does not match the leaf hash in the tree")]
    Precertificate,
    /// The issuer's key does not match the `issuer_key_hash` that the tree has hashed.
    #[error("the key of its issuer does not match issuer_key_hash in the entry")]
    IssuerKey,
    /// The chain continues after an accepted root, or ends before one.
    #[error("its chain does not lead from its issuer to an accepted root")]
    Chain,
    /// A fingerprint that names no certificate, and differs from the fingerprint of a known
    /// certificate in a few bits.
    #[error(
        "names issuer/{found}, which is missing; expected issuer/{expected}, which differs in a few bits"
    )]
    Fingerprint {
        /// The fingerprint in the entry.
        found: Fingerprint,
        /// The fingerprint of the known certificate.
        expected: Fingerprint,
    },
    /// A fingerprint that agrees in half of its bytes with the only certificate of the log that
    /// completes the chain.
    #[error("names issuer/{found}, which is missing; only issuer/{expected} completes its chain")]
    Completed {
        /// The fingerprint in the entry.
        found: Fingerprint,
        /// The certificate that completes the chain.
        expected: Fingerprint,
    },
}

impl PartsError {
    /// Returns whether only damage or forgery explains this error. A chain that other software has
    /// accepted, and that the validator cannot verify, is not damage. The tree covers the
    /// certificate of an X.509 entry, and the fingerprint covers every issuer.
    fn is_proof(&self, kind: EntryKind) -> bool {
        match self {
            PartsError::NoIssuer(_) | PartsError::Chain => false,
            PartsError::Precertificate
            | PartsError::IssuerKey
            | PartsError::Fingerprint { .. }
            | PartsError::Completed { .. } => true,
            PartsError::Rejected(rejection) => {
                match (rejection.code, rejection.certificate_index) {
                    (Code::InvalidSignature | Code::WrongOrder | Code::MissingIssuer, _) => true,
                    (
                        Code::InvalidCertificate
                        | Code::AlgorithmMismatch
                        | Code::CertificateOnAddPreChain
                        | Code::InvalidPoison,
                        Some(0),
                    ) => kind == EntryKind::Precert,
                    _ => false,
                }
            }
        }
    }
}

/// Returns the kind of an entry, and the certificate that was submitted for it.
fn submitted<'a>(leaf: &TileLeafRef<'a>) -> (EntryKind, &'a [u8]) {
    match leaf.signed {
        SignedEntryRef::X509 { certificate } => (EntryKind::X509, certificate),
        SignedEntryRef::Precert { .. } => {
            (EntryKind::Precert, leaf.precertificate.unwrap_or_default())
        }
    }
}

/// Returns the chain of an entry, as submitted.
fn chain(leaf: &TileLeafRef<'_>, issuers: &Issuers) -> Result<Chain, PartsError> {
    let mut ders = vec![submitted(leaf).1];
    for fingerprint in leaf.fingerprints {
        let der = issuers.get(&fingerprint);
        ders.push(der.ok_or(PartsError::NoIssuer(fingerprint))?);
    }
    Ok(Chain::from_ders(ders)?)
}

/// Verifies that the log would log exactly this entry for this chain.
fn verify(
    validator: &Validator,
    leaf: &TileLeafRef<'_>,
    issuers: &Issuers,
) -> Result<(), PartsError> {
    let chain = chain(leaf, issuers)?;
    let examined = validator.examine(&chain, submitted(leaf).0, 0)?;
    let entry = validator.verify(examined)?;
    match (leaf.signed, SignedEntryRef::from(&entry.signed)) {
        (logged, found) if logged == found => {}
        (
            SignedEntryRef::Precert { tbs: logged, .. },
            SignedEntryRef::Precert { tbs: found, .. },
        ) if logged == found => return Err(PartsError::IssuerKey),
        _ => return Err(PartsError::Precertificate),
    }
    let issuers = entry.issuers.iter().map(|issuer| issuer.fingerprint);
    if issuers.eq(leaf.fingerprints) {
        Ok(())
    } else {
        Err(PartsError::Chain)
    }
}

/// Creates a validator of all chains to these roots.
fn validator(roots: Arc<Roots>, verification: Arc<Verification>) -> Validator {
    let policy = Policy {
        require: Require::Any,
        max_chain: usize::MAX,
        ..Policy::default()
    };
    Validator::sharing(roots, policy, verification)
}

/// Verifies entries from other sources, against the roots that the log accepts.
pub(crate) struct Accepted(Validator);

impl Accepted {
    pub(crate) fn new(roots: Arc<Roots>) -> Self {
        Accepted(validator(roots, Arc::default()))
    }

    /// Verifies the unsigned parts of an entry.
    ///
    /// # Errors
    /// If the unsigned parts are wrong, or the chain does not lead to an accepted root.
    pub(crate) fn verify(
        &self,
        leaf: &TileLeafRef<'_>,
        issuers: &Issuers,
    ) -> Result<(), PartsError> {
        verify(&self.0, leaf, issuers)
    }
}

/// Verifies the entries of a log's own tiles.
pub(crate) struct Chains {
    files: Arc<dyn Source>,
    verification: Arc<Verification>,
    /// The validators, by the fingerprint of their root.
    validators: Cache<Fingerprint, Arc<Validator>>,
    issuers: Cache<Fingerprint, Bytes>,
    /// The issuers that are being read. Tiles that are checked concurrently name the same issuers.
    reads: SingleFlight<Fingerprint, Option<Bytes>>,
    /// The issuers that were looked up, and whether each exists.
    known: Mutex<HashMap<Fingerprint, bool>>,
    /// Number of missing issuers that were looked up under other names.
    searches: AtomicU32,
}

/// The first entry of a tile with wrong unsigned parts.
pub(crate) struct WrongParts {
    /// The position in the tile.
    pub(crate) entry: u64,
    /// The byte at which the entry begins.
    pub(crate) offset: u64,
    pub(crate) error: PartsError,
}

impl Chains {
    pub(crate) fn of(files: Arc<dyn Source>) -> Self {
        let weight = |_: &Fingerprint, der: &Bytes| der.len() as u32 + 64;
        Chains {
            files,
            verification: Arc::default(),
            validators: Cache::new(MAX_ROOTS),
            issuers: Cache::builder()
                .max_capacity(ISSUER_BYTES)
                .weigher(weight)
                .build(),
            reads: SingleFlight::default(),
            known: Mutex::default(),
            searches: AtomicU32::new(0),
        }
    }

    /// Reads the certificates with these fingerprints. Omits missing and damaged certificates.
    pub(crate) async fn issuers(&self, of: impl IntoIterator<Item = Fingerprint>) -> Issuers {
        let mut issuers = Issuers::new();
        for fingerprint in of {
            let der = match self.issuers.get(&fingerprint) {
                None => {
                    let files = self.files.clone();
                    let read = async move { issuer(&*files, &fingerprint).await };
                    self.reads.join(fingerprint, read).await
                }
                kept => kept,
            };
            if let Some(der) = der {
                self.issuers.insert(fingerprint, der.clone());
                issuers.insert(fingerprint, der);
            }
        }
        issuers
    }

    /// Verifies the unsigned parts of an entry.
    ///
    /// # Errors
    /// If these parts are certainly damaged or forged.
    pub(crate) fn check(
        &self,
        leaf: &TileLeafRef<'_>,
        issuers: &Issuers,
    ) -> Result<(), PartsError> {
        let kind = submitted(leaf).0;
        match self.verify(leaf, issuers) {
            Err(error) if error.is_proof(kind) => Err(error),
            // The signature cannot be verified, but the certificate can be compared.
            Err(error) => {
                if is_precertificate_right(leaf, issuers) {
                    Ok(())
                } else {
                    Err(error)
                }
            }
            Ok(()) => Ok(()),
        }
    }

    fn verify(&self, leaf: &TileLeafRef<'_>, issuers: &Issuers) -> Result<(), PartsError> {
        let Some(root) = leaf.fingerprints.last() else {
            return match submitted(leaf).0 {
                // The entry is an accepted root itself.
                EntryKind::X509 => Ok(()),
                EntryKind::Precert => Err(PartsError::Precertificate),
            };
        };
        let validator = match self.validators.get(&root) {
            Some(validator) => validator,
            None => {
                let der = issuers.get(&root).ok_or(PartsError::NoIssuer(root))?;
                let mut roots = Roots::new();
                // A root that is not a certificate verifies nothing: the chain is rejected.
                let _ = roots.add(der);
                let validator = validator(Arc::new(roots), self.verification.clone());
                let validator = Arc::new(validator);
                self.validators.insert(root, validator.clone());
                validator
            }
        };
        verify(&validator, leaf, issuers)
    }

    /// Returns the first of `count` entries of a data tile whose unsigned parts are wrong.
    pub(crate) fn first_wrong(
        &self,
        entries: &[u8],
        count: usize,
        issuers: &Issuers,
    ) -> Option<WrongParts> {
        TileEntries::first(entries, 0, count as u64)
            .map_while(Result::ok)
            .find_map(|TileEntry { index, bytes, leaf }| {
                let error = self.check(&leaf, issuers).err()?;
                Some(WrongParts {
                    entry: index,
                    offset: bytes.start as u64,
                    error,
                })
            })
    }

    pub(crate) fn files(&self) -> &dyn Source {
        &*self.files
    }

    /// Returns whether the certificate with this fingerprint was looked up before.
    pub(crate) fn is_known(&self, fingerprint: &Fingerprint) -> bool {
        self.known.lock().contains_key(fingerprint)
    }

    /// Records whether the certificate with this fingerprint exists.
    pub(crate) fn note(&self, fingerprint: Fingerprint, is_present: bool) {
        self.known.lock().insert(fingerprint, is_present);
    }

    /// Returns a similar fingerprint of an existing certificate of the log. The fingerprint differs
    /// in a few bits if earlier tiles name the certificate, and otherwise in exactly one bit.
    pub(crate) async fn near(&self, fingerprint: &Fingerprint) -> Option<Fingerprint> {
        match self.nearly(fingerprint) {
            None => self.one_bit_away(fingerprint).await,
            near => near,
        }
    }

    /// Looks up a certificate under each fingerprint that differs from this fingerprint in one bit.
    async fn one_bit_away(&self, fingerprint: &Fingerprint) -> Option<Fingerprint> {
        if self.searches.fetch_add(1, Ordering::Relaxed) >= MAX_SEARCHES {
            return None;
        }
        for bit in 0..8 * fingerprint.0.len() {
            let mut other = *fingerprint;
            other.0[bit / 8] ^= 1 << (bit % 8);
            if issuer(&*self.files, &other).await.is_some() {
                return Some(other);
            }
        }
        None
    }

    /// Returns the fingerprint of a certificate in earlier tiles that differs in a few bits.
    fn nearly(&self, fingerprint: &Fingerprint) -> Option<Fingerprint> {
        let known = self.known.lock();
        let mut present = known.iter().filter(|(_, is_present)| **is_present);
        let near = present.find(|(other, _)| is_near(fingerprint, other));
        near.map(|(other, _)| *other)
    }
}

/// Returns the issuers that entries name, up to the first entry that cannot be parsed.
pub(crate) fn named(entries: &[u8]) -> BTreeSet<Fingerprint> {
    TileEntries::all(entries, 0)
        .map_while(Result::ok)
        .flat_map(|entry| entry.leaf.fingerprints)
        .collect()
}

/// Returns the certificate with this fingerprint, if it exists and is intact.
pub(crate) async fn issuer(files: &dyn Source, fingerprint: &Fingerprint) -> Option<Bytes> {
    lucarne_ctread::issuer(files, *fingerprint).await.ok()
}

/// Returns whether two fingerprints differ, but in at most [`MAX_FLIPPED`] bits.
pub(crate) fn is_near(one: &Fingerprint, other: &Fingerprint) -> bool {
    let bits = one.0.iter().zip(&other.0);
    let flipped: u32 = bits.map(|(a, b)| (a ^ b).count_ones()).sum();
    (1..=MAX_FLIPPED).contains(&flipped)
}

/// Returns the identifier and the parameters in an `AlgorithmIdentifier`. Absent parameters are
/// empty.
fn identifier(algorithm: &[u8]) -> Option<(&[u8], &[u8])> {
    let sequence = Reader::new(algorithm).any("AlgorithmIdentifier").ok()?;
    let mut fields = sequence.reader();
    let oid = fields.expect(tag::OID, "algorithm").ok()?;
    let parameters: &[u8] = if fields.is_empty() {
        &[]
    } else {
        fields.any("parameters").ok()?.raw
    };
    Some((oid.value, parameters))
}

/// Returns whether other software accepts the unsigned algorithm of the signature. The encoding may
/// differ from the encoding of the signed algorithm (RFC 5280, section 4.1.1.2), and the parameters
/// may be absent or NULL.
fn is_algorithm_right(precertificate: &Certificate<'_>) -> bool {
    let outer = identifier(precertificate.algorithm());
    match (outer, identifier(precertificate.tbs_algorithm())) {
        (Some((outer, parameters)), Some((inner, signed))) => {
            outer == inner && (parameters == signed || matches!(parameters, [] | [tag::NULL, 0]))
        }
        (outer, inner) => outer == inner,
    }
}

/// Compares the precertificate with the `TBSCertificate` that the tree has hashed, without
/// verifying its signature.
fn is_precertificate_right(leaf: &TileLeafRef<'_>, issuers: &Issuers) -> bool {
    let (SignedEntryRef::Precert { tbs, .. }, Some(der)) = (leaf.signed, leaf.precertificate)
    else {
        return true;
    };
    let Ok(precertificate) = Certificate::parse(der) else {
        return false;
    };
    // The last byte before the signature is the number of unused bits, which is zero.
    let end = der.len() - precertificate.signature().len();
    let unused = end.checked_sub(1).and_then(|place| der.get(place));
    if unused.is_some_and(|unused| *unused != 0) {
        return false;
    }
    if !is_algorithm_right(&precertificate) {
        return false;
    }
    let mut fingerprints = leaf.fingerprints;
    let signer = fingerprints.next().and_then(|first| issuers.get(&first));
    let signer = signer.and_then(|der| Certificate::parse(der).ok());
    tbs_without_poison(&precertificate) == tbs
        || signer.is_none_or(|signer| tbs_without_poison_for(&precertificate, &signer) == tbs)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use futures_util::future::join;
    use lucarne_ct::{Entry, SignedEntry, TileLeaf};
    use lucarne_ctread::SourceError;
    use lucarne_mint::testing::Pki;

    use super::*;

    /// A source of one issuer that counts its reads.
    struct OneIssuer(AtomicU32);

    #[async_trait]
    impl Source for OneIssuer {
        async fn read(&self, _path: &str) -> Result<Option<Bytes>, SourceError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(Some(Bytes::from_static(b"issuer")))
        }
    }

    #[tokio::test]
    async fn concurrent_checks_read_an_issuer_once() {
        let (files, of) = (Arc::new(OneIssuer(0.into())), Fingerprint::of(b"issuer"));
        let chains = Chains::of(files.clone());
        let (one, two) = join(chains.issuers([of]), chains.issuers([of])).await;
        assert_eq!((one.len(), two.len()), (1, 1));
        assert_eq!(files.0.load(Ordering::Relaxed), 1);
    }

    /// Returns an entry with an RSA precertificate, and the offset of the NULL parameters beside
    /// the signature. The issuer of the entry cannot be read, so no signature is verified.
    fn entry() -> (Vec<u8>, usize) {
        let pki = Pki::shared();
        let chain = pki.precertificate(&pki.rsa, "null.example").unwrap();
        let der = Bytes::from(chain.into_certificates().swap_remove(0));
        let parsed = Certificate::parse(&der).unwrap();
        let tbs = tbs_without_poison(&parsed).into();
        let signed = SignedEntry::Precert {
            issuer_key_hash: [1; 32],
            tbs,
        };
        let at = parsed.algorithm().as_ptr_range().end as usize - der.as_ptr() as usize - 2;
        let entry = Entry {
            identity: signed.identity(),
            signed,
            precertificate: Some(der.clone()),
            issuers: Arc::from([]),
        };
        let mut leaf = Vec::new();
        TileLeaf::encode(7, &entry, 0, &mut leaf);
        let start = leaf.windows(der.len()).position(|it| it == der).unwrap();
        (leaf, start + at)
    }

    /// The parameters of RSA are NULL. Other software may omit them, but writes no other
    /// parameters.
    #[test]
    fn no_flipped_bit_in_the_null_beside_a_signature_is_an_encoding() {
        let (mut leaf, null) = entry();
        assert_eq!(leaf[null..null + 2], [tag::NULL, 0]);
        let is_right = |leaf: &[u8]| {
            let leaf = TileLeafRef::read(&mut &leaf[..]).unwrap();
            is_precertificate_right(&leaf, &Issuers::new())
        };
        assert!(is_right(&leaf));
        for bit in 0..16 {
            leaf[null + bit / 8] ^= 1 << (bit % 8);
            assert!(!is_right(&leaf), "bit {bit}");
            leaf[null + bit / 8] ^= 1 << (bit % 8);
        }
    }
}

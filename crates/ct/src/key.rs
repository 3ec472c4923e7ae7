//! The private keys of logs: ECDSA on P-256 with SHA-256, the only type that signs entries of
//! static CT logs. A key from a seed has a second key, ML-DSA-44, for checkpoints.

use std::fmt;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::agreement;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Signature};
use lucarne_tlog::{Checkpoint, Cosigner, Hash, NoteSignature, SignedNote};
use lucarne_x509::der::{Reader, tag};
use lucarne_x509::{oid::content, pem};

use crate::checkpoint::{TREE_HEAD, tree_head};
use crate::entry::{SignedEntry, sha256};
use crate::leaf::{MerkleTreeLeafRef, leaf_index_extension};
use crate::public_key::{KeyError, LogId, PublicKey, SHA256_ECDSA};
use crate::sct::{Sct, signed_data};
use crate::seed;

/// The bytes before the point in the SubjectPublicKeyInfo of a P-256 key.
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The private key of a log.
pub struct LogKey {
    pair: EcdsaKeyPair,
    spki: Vec<u8>,
    log_id: LogId,
    /// Seed of the ML-DSA-44 key; `None` for a key that is not derived from a seed.
    ml_dsa_seed: Option<[u8; 32]>,
    /// The expanded ML-DSA-44 key, with the first requested origin as its name.
    cosigner: OnceLock<Arc<Cosigner>>,
}

/// The cosigner of an origin; `None` if the key has none. An error if the origin cannot be the name
/// of a cosigner, because it has more than 255 bytes.
pub type OptionalCosigner = Result<Option<Arc<Cosigner>>, lucarne_tlog::KeyError>;

impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogKey({})", self.log_id)
    }
}

impl LogKey {
    /// Derives the key of a Sunlight seed file of 32 bytes.
    ///
    /// # Errors
    /// [`KeyError::SeedLength`], [`KeyError::Derivation`].
    pub fn from_seed(seed: &[u8]) -> Result<Self, KeyError> {
        let found = seed.len();
        let seed = seed
            .try_into()
            .map_err(|_| KeyError::SeedLength { found })?;
        let scalar = seed::log_scalar(seed).ok_or(KeyError::Derivation)?;
        let ml_dsa_seed = seed::ml_dsa_seed(seed);
        Ok(Self {
            ml_dsa_seed,
            ..Self::from_scalar(&scalar)?
        })
    }

    /// Reads the first private key of a PEM file: SEC 1 (`EC PRIVATE KEY`, used by
    /// `openssl ecparam` and TesseraCT) or PKCS #8 (`PRIVATE KEY`), on P-256.
    ///
    /// # Errors
    /// If the text has no private key, or if the key is encrypted, damaged, unsupported or not on
    /// P-256.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let named = |label: &str| matches!(label, "EC PRIVATE KEY" | "PRIVATE KEY");
        let mut blocks = pem::blocks(text.as_bytes());
        let Some(at) = blocks.iter().position(|block| named(&block.label)) else {
            let mut labels = blocks.iter().map(|block| &block.label);
            return Err(if labels.any(|label| label == "ENCRYPTED PRIVATE KEY") {
                KeyError::Encrypted
            } else {
                KeyError::NoPem
            });
        };
        let block = blocks.swap_remove(at);
        let line = block.line;
        let der = block.contents.map_err(|why| KeyError::Pem { line, why })?;
        let scalar = match block.label.as_str() {
            "PRIVATE KEY" => read_pkcs8(&der)?,
            _ => read_sec1(&der)?,
        };
        Self::from_scalar(&scalar)
    }

    fn from_scalar(scalar: &[u8; 32]) -> Result<Self, KeyError> {
        let point = agreement::PrivateKey::from_private_key(&agreement::ECDH_P256, scalar)
            .map_err(|_| KeyError::NotP256)?
            .compute_public_key()
            .map_err(|_| KeyError::NotP256)?;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            scalar,
            point.as_ref(),
        )
        .map_err(|_| KeyError::NotP256)?;
        let spki = [&SPKI_PREFIX, point.as_ref()].concat();
        let log_id = LogId(sha256(&[&spki]));
        Ok(Self {
            pair,
            spki,
            log_id,
            ml_dsa_seed: None,
            cosigner: OnceLock::new(),
        })
    }

    /// Returns the log ID: SHA-256 of [`public_key_spki`](Self::public_key_spki).
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// Returns the public key as a SubjectPublicKeyInfo in DER.
    pub fn public_key_spki(&self) -> &[u8] {
        &self.spki
    }

    /// Returns the public key, which verifies the signatures of this key.
    pub fn public_key(&self) -> Result<PublicKey, KeyError> {
        PublicKey::from_spki(&self.spki)
    }

    /// Returns a DigitallySigned over `message`.
    fn digitally_sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        Ok(digitally_signed(self.signature(message)?.as_ref()))
    }

    fn signature(&self, message: &[u8]) -> Result<Signature, KeyError> {
        let signature = self.pair.sign(&SystemRandom::new(), message);
        signature.map_err(|_| KeyError::Signing)
    }

    /// Returns the cosigner that also signs the checkpoints of this log, as in Sunlight; `None` for
    /// a key that is not derived from a seed.
    ///
    /// # Errors
    /// See [`OptionalCosigner`].
    pub fn cosigner(&self, origin: &str) -> OptionalCosigner {
        let Some(seed) = &self.ml_dsa_seed else {
            return Ok(None);
        };
        let known = self.cosigner.get();
        if let Some(known) = known.filter(|known| known.verifier().name() == origin) {
            return Ok(Some(known.clone()));
        }
        let new = Arc::new(Cosigner::ml_dsa_44(origin, seed)?);
        // A key signs for one log; for a second one, the key is expanded each time.
        let _ = self.cosigner.set(new.clone());
        Ok(Some(new))
    }

    /// Signs a tree head and returns the complete `checkpoint` file.
    ///
    /// `origin` is the submission prefix without scheme and trailing slash. `timestamp` is in
    /// milliseconds since 1970.
    ///
    /// # Errors
    /// [`KeyError::Signing`].
    pub fn sign_checkpoint(
        &self,
        origin: &str,
        size: u64,
        root: &Hash,
        timestamp: u64,
    ) -> Result<String, KeyError> {
        KeyHolder::sign_checkpoint(self, origin, size, root, timestamp)
    }

    /// Signs the SCT of an entry.
    ///
    /// `timestamp` is in milliseconds since 1970. `index` is the index of the entry in the tree.
    ///
    /// # Errors
    /// [`KeyError::Signing`].
    pub fn sign_sct(
        &self,
        timestamp: u64,
        signed: &SignedEntry,
        index: u64,
    ) -> Result<Sct, KeyError> {
        let message = signed_data(timestamp, signed, &leaf_index_extension(index));
        Ok(self.signed_sct(timestamp, index, self.digitally_sign(&message)?))
    }

    /// Recreates the SCT of [`sign_sct`](Self::sign_sct) from its signature.
    pub fn signed_sct(&self, timestamp: u64, index: u64, signature: Vec<u8>) -> Sct {
        Sct::signed(self.log_id(), timestamp, index, signature)
    }
}

/// The holder of the private key of a log: this process, or a token.
pub trait KeyHolder: fmt::Debug + Send + Sync {
    /// Returns the log ID.
    fn log_id(&self) -> LogId;

    /// Returns the public key as a SubjectPublicKeyInfo in DER.
    fn public_key_spki(&self) -> &[u8];

    /// Signs SHA-256 of `message` and returns the signature in DER.
    ///
    /// # Errors
    /// [`KeyError::Signing`].
    fn ecdsa(&self, message: &[u8]) -> Result<Vec<u8>, KeyError>;

    /// Returns the cosigner that also signs the checkpoints of this log, if the key has one.
    ///
    /// # Errors
    /// See [`OptionalCosigner`].
    fn cosigner(&self, _origin: &str) -> OptionalCosigner {
        Ok(None)
    }

    /// Signs a tree head and returns the complete `checkpoint` file.
    ///
    /// # Errors
    /// [`KeyError::Signing`].
    fn sign_checkpoint(
        &self,
        origin: &str,
        size: u64,
        root: &Hash,
        timestamp: u64,
    ) -> Result<String, KeyError> {
        let signature = self.ecdsa(&tree_head(timestamp, size, root))?;
        let digitally_signed = digitally_signed(&signature);
        let checkpoint = Checkpoint {
            origin: origin.to_owned(),
            size,
            root: *root,
        };
        let mut note = SignedNote {
            text: checkpoint.to_string(),
            signatures: vec![NoteSignature {
                name: origin.to_owned(),
                key_id: lucarne_tlog::note::key_id(origin, TREE_HEAD, &self.log_id().0),
                signature: [&timestamp.to_be_bytes(), &digitally_signed[..]].concat(),
            }],
        };
        // The log reports an error of the cosigner when it is opened.
        if let Ok(Some(cosigner)) = self.cosigner(origin) {
            // Cosignatures have whole seconds, and no zero.
            let signed = cosigner.cosign(&note.text, (timestamp / 1000).max(1));
            note.signatures.push(signed.map_err(|_| KeyError::Signing)?);
            // Only the first signature is verified again before a commit.
            let verified = cosigner.verifier().verify(&note);
            verified.map_err(|_| KeyError::Signing)?;
        }
        Ok(note.encode())
    }

    /// Signs the SCT of an entry, given as its MerkleTreeLeaf, which has the same bytes as the
    /// signed input of the SCT. Returns the DigitallySigned.
    ///
    /// # Errors
    /// [`KeyError::Signing`].
    fn sign_leaf(&self, leaf: MerkleTreeLeafRef<'_>) -> Result<Vec<u8>, KeyError> {
        Ok(digitally_signed(&self.ecdsa(leaf.as_bytes())?))
    }
}

impl KeyHolder for LogKey {
    fn log_id(&self) -> LogId {
        self.log_id
    }

    fn public_key_spki(&self) -> &[u8] {
        &self.spki
    }

    fn ecdsa(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        Ok(self.signature(message)?.as_ref().to_vec())
    }

    fn cosigner(&self, origin: &str) -> OptionalCosigner {
        self.cosigner(origin)
    }
}

/// Returns a DigitallySigned (RFC 5246, section 4.7): SHA-256, ECDSA, the length and the DER
/// signature.
fn digitally_signed(signature: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + signature.len());
    out.extend_from_slice(&SHA256_ECDSA);
    out.extend_from_slice(&(signature.len() as u16).to_be_bytes());
    out.extend_from_slice(signature);
    out
}

/// Returns the SubjectPublicKeyInfo of the public key with this uncompressed point of P-256; `None`
/// if the point is invalid.
pub fn p256_public_key(point: &[u8]) -> Option<Vec<u8>> {
    let spki = [&SPKI_PREFIX, point].concat();
    PublicKey::from_spki(&spki).ok().map(|_| spki)
}

/// Reads an ECPrivateKey (RFC 5915).
fn read_sec1(der: &[u8]) -> Result<[u8; 32], KeyError> {
    let mut fields = Reader::new(der)
        .expect(tag::SEQUENCE, "ECPrivateKey")?
        .reader();
    fields.expect(tag::INTEGER, "version")?;
    let scalar = fields.expect(tag::OCTET_STRING, "privateKey")?.value;
    if let Some(parameters) = fields.optional(tag::context(0), "parameters")? {
        let curve = parameters.reader().expect(tag::OID, "namedCurve")?;
        if curve.value != content::P256 {
            return Err(KeyError::NotP256);
        }
    }
    left_padded(scalar).ok_or(KeyError::NotP256)
}

/// Reads a PrivateKeyInfo (RFC 5958).
fn read_pkcs8(der: &[u8]) -> Result<[u8; 32], KeyError> {
    let mut fields = Reader::new(der)
        .expect(tag::SEQUENCE, "PrivateKeyInfo")?
        .reader();
    fields.expect(tag::INTEGER, "version")?;
    let mut algorithm = fields
        .expect(tag::SEQUENCE, "privateKeyAlgorithm")?
        .reader();
    let kind = algorithm.expect(tag::OID, "algorithm")?;
    let is_p256 = kind.value == content::EC_PUBLIC_KEY
        && algorithm.expect(tag::OID, "namedCurve")?.value == content::P256;
    if is_p256 {
        read_sec1(fields.expect(tag::OCTET_STRING, "privateKey")?.value)
    } else {
        Err(KeyError::NotP256)
    }
}

/// Restores leading zeros of the scalar, which some writers omit.
fn left_padded(scalar: &[u8]) -> Option<[u8; 32]> {
    let mut padded = [0; 32];
    let start = padded.len().checked_sub(scalar.len())?;
    padded[start..].copy_from_slice(scalar);
    Some(padded)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn base64(bytes: &[u8]) -> String {
        base64_simd::STANDARD.encode_to_string(bytes)
    }

    /// The expected keys were created with `sunlight-keygen`, and the IDs of the ML-DSA-44 keys for
    /// the name `log.example/2026h2` with OpenSSL.
    #[test]
    fn sunlight_seeds() {
        let counted: Vec<u8> = (0..32).collect();
        for (seed, log_id, ml_dsa, spki) in [
            (
                &counted[..],
                "vajQ/CaKPdKwq3De7U+r1exMHdq4cu1OxwlURya7KaI=",
                0x0b4c_2b6e_u32,
                "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJYiFX1XUJTOISfsKZeBUvOun+vC8k8a8XclPz5nki3AJNivyNffzHlczWPzCYGKmfS8oGZkHhQmSq+mp7ItrOA==",
            ),
            (
                &[0xff; 32],
                "hMAax0PPdyDMAkBH9XSfq7Hl2MPuF1P0Vzmde/AxFUQ=",
                0xb8e6_426c,
                "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE9PM/NakueWnU2izD1jwdEgEr93ZA/fAB49i94ezvBa3V5ofHFSNTxf13rmY/4XIQ33FKluafqqgRQ9TV+n8FUA==",
            ),
        ] {
            let key = LogKey::from_seed(seed).unwrap();
            assert_eq!(key.log_id().to_string(), log_id);
            let cosigner = key.cosigner("log.example/2026h2").unwrap().unwrap();
            let again = key.cosigner("log.example/2026h2").unwrap().unwrap();
            assert!(Arc::ptr_eq(&cosigner, &again));
            let other = key.cosigner("log.example/2027h1").unwrap().unwrap();
            assert_eq!(other.verifier().name(), "log.example/2027h1");
            assert!(key.cosigner(&"a".repeat(256)).is_err());
            assert_eq!(u32::from_be_bytes(cosigner.verifier().id()), ml_dsa);
            assert_eq!(base64(key.public_key_spki()), spki);
            assert_eq!(key.public_key().unwrap().log_id(), key.log_id());
        }
        assert_eq!(
            LogKey::from_seed(&[0; 16]).unwrap_err(),
            KeyError::SeedLength { found: 16 }
        );
    }

    /// A key that openssl created for this test, as SEC 1 and as PKCS #8.
    pub(crate) const SEC1: &str = "-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIFjUUjJOXmgL+FKcnUk76mbhNXlSNgXMqhFJ0YKDtOgUoAoGCCqGSM49
AwEHoUQDQgAEUjFaoCUqOS7UZl9NqcpiA9F1ipIuQEy/2Wz50XJb0m2ctw96AFec
hCM/gwCTbvO7CD/48PiCjYHCr1W3awbSag==
-----END EC PRIVATE KEY-----
";
    const PKCS8: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgWNRSMk5eaAv4Upyd
STvqZuE1eVI2BcyqEUnRgoO06BShRANCAARSMVqgJSo5LtRmX02pymID0XWKki5A
TL/ZbPnRclvSbZy3D3oAV5yEIz+DAJNu87sIP/jw+IKNgcKvVbdrBtJq
-----END PRIVATE KEY-----
";
    const SPKI: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEUjFaoCUqOS7UZl9NqcpiA9F1ipIuQEy/2Wz50XJb0m2ctw96AFechCM/gwCTbvO7CD/48PiCjYHCr1W3awbSag==";

    #[test]
    fn a_leaf_is_signed_as_the_entry_is() {
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let certificate = bytes::Bytes::from_static(b"a certificate");
        let signed = SignedEntry::X509 { certificate };
        let mut leaf = Vec::new();
        crate::merkle_tree_leaf(1000, &signed, 5, &mut leaf);
        let parsed = MerkleTreeLeafRef::parse(&leaf).unwrap();
        assert_eq!((parsed.timestamp, parsed.index), (1000, 5));
        let signature = key.sign_leaf(parsed).unwrap();
        let point = &key.public_key_spki()[SPKI_PREFIX.len()..];
        assert_eq!(p256_public_key(point).unwrap(), key.public_key_spki());
        assert_eq!(p256_public_key(&[4; 65]), None);
        let sct = Sct::signed(key.log_id(), 1000, 5, signature);
        sct.verify(&key.public_key().unwrap(), &signed).unwrap();

        for at in 0..leaf.len() {
            assert!(MerkleTreeLeafRef::parse(&leaf[..at]).is_err(), "{at}");
        }
        let longer = [&leaf[..], &[0]].concat();
        assert!(MerkleTreeLeafRef::parse(&longer).is_err());
        // A tree head is not a leaf.
        let head = tree_head(1000, 5, &Hash([0; 32]));
        assert!(MerkleTreeLeafRef::parse(&head).is_err());
    }

    #[test]
    fn pem_in_both_forms() {
        for pem in [SEC1, PKCS8] {
            let key = LogKey::from_pem(pem).unwrap();
            assert_eq!(base64(key.public_key_spki()), SPKI);
        }
    }

    #[test]
    fn what_is_no_log_key() {
        let error = |pem: &str| LogKey::from_pem(pem).unwrap_err();
        assert_eq!(error("no PEM at all"), KeyError::NoPem);
        let encrypted = pem::encode("ENCRYPTED PRIVATE KEY", b"k");
        assert_eq!(error(&encrypted), KeyError::Encrypted);
        assert!(LogKey::from_pem(&format!("{encrypted}{PKCS8}")).is_ok());
        let damaged = PKCS8.replace('M', "?");
        assert!(matches!(error(&damaged), KeyError::Pem { line: 1, .. }));
        // Another curve, and no key at all.
        let other = PKCS8.replace(
            "MBMGByqGSM49AgEGCCqGSM49AwEH",
            "MBMGByqGSM49AgEGCCqGSM49AwEG",
        );
        assert_ne!(other, PKCS8);
        assert_eq!(error(&other), KeyError::NotP256);
        let empty = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----";
        assert!(matches!(error(empty), KeyError::Der(_)));
        assert!(PublicKey::from_spki(b"").is_err());
    }
}

use std::fmt;

use aws_lc_rs::{
    encoding::AsDer,
    rand::SystemRandom,
    rsa::{self, KeySize},
    signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _},
};

use crate::{Der, MintError, Oid, algorithm, oid};

/// Kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// ECDSA on NIST P-256.
    EcdsaP256,
    /// ECDSA on NIST P-384.
    EcdsaP384,
    /// ECDSA on NIST P-521.
    EcdsaP521,
    /// RSA with a modulus of this many bits: 2048, 3072, 4096 or 8192.
    Rsa(u32),
    /// Ed25519.
    Ed25519,
}

/// Formats the name for configurations and files: `p256`, `rsa2048`, `ed25519`.
impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyType::EcdsaP256 => f.write_str("p256"),
            KeyType::EcdsaP384 => f.write_str("p384"),
            KeyType::EcdsaP521 => f.write_str("p521"),
            KeyType::Rsa(bits) => write!(f, "rsa{bits}"),
            KeyType::Ed25519 => f.write_str("ed25519"),
        }
    }
}

impl std::str::FromStr for KeyType {
    type Err = UnknownKeyType;

    fn from_str(name: &str) -> Result<Self, UnknownKeyType> {
        const KINDS: [KeyType; 7] = [
            KeyType::EcdsaP256,
            KeyType::EcdsaP384,
            KeyType::EcdsaP521,
            KeyType::Rsa(2048),
            KeyType::Rsa(3072),
            KeyType::Rsa(4096),
            KeyType::Ed25519,
        ];
        let plain = name.to_ascii_lowercase().replace('-', "");
        let found = KINDS.into_iter().find(|kind| kind.to_string() == plain);
        found.ok_or_else(|| UnknownKeyType(name.to_owned()))
    }
}

/// A name that is not a kind of key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a kind of key: use p256, p384, p521, rsa2048, rsa3072, rsa4096 or ed25519")]
pub struct UnknownKeyType(pub String);

/// Signature algorithms of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum SignatureAlgorithm {
    RsaSha256,
    RsaSha384,
    RsaSha512,
    RsaPssSha256,
    RsaPssSha384,
    RsaPssSha512,
    EcdsaSha256,
    EcdsaSha384,
    EcdsaSha512,
    Ed25519,
}

impl SignatureAlgorithm {
    /// Returns the AlgorithmIdentifier in DER (RFC 3279, 4055, 5758, 8410).
    pub fn identifier(self) -> Vec<u8> {
        let null = |oid: &Oid| algorithm(oid, Der::null);
        let bare = |oid: &Oid| algorithm(oid, |_| ());
        match self {
            Self::RsaSha256 => null(&oid::SHA256_WITH_RSA),
            Self::RsaSha384 => null(&oid::SHA384_WITH_RSA),
            Self::RsaSha512 => null(&oid::SHA512_WITH_RSA),
            Self::RsaPssSha256 => pss(&oid::SHA256, 32),
            Self::RsaPssSha384 => pss(&oid::SHA384, 48),
            Self::RsaPssSha512 => pss(&oid::SHA512, 64),
            Self::EcdsaSha256 => bare(&oid::ECDSA_WITH_SHA256),
            Self::EcdsaSha384 => bare(&oid::ECDSA_WITH_SHA384),
            Self::EcdsaSha512 => bare(&oid::ECDSA_WITH_SHA512),
            Self::Ed25519 => bare(&oid::ED25519),
        }
    }

    fn rsa_encoding(self) -> Option<&'static dyn signature::RsaEncoding> {
        Some(match self {
            Self::RsaSha256 => &signature::RSA_PKCS1_SHA256,
            Self::RsaSha384 => &signature::RSA_PKCS1_SHA384,
            Self::RsaSha512 => &signature::RSA_PKCS1_SHA512,
            Self::RsaPssSha256 => &signature::RSA_PSS_SHA256,
            Self::RsaPssSha384 => &signature::RSA_PSS_SHA384,
            Self::RsaPssSha512 => &signature::RSA_PSS_SHA512,
            _ => return None,
        })
    }
}

/// Returns the AlgorithmIdentifier of RSASSA-PSS (RFC 4055, section 3.1), with `hash` for message
/// and MGF1 and a salt of `salt` bytes.
fn pss(hash: &Oid, salt: u8) -> Vec<u8> {
    let hash = algorithm(hash, Der::null);
    algorithm(&oid::RSA_PSS, |der| {
        der.sequence(|der| {
            der.context(0, |der| der.raw(&hash));
            der.context(1, |der| {
                der.raw(&algorithm(&oid::MGF1, |der| der.raw(&hash)))
            });
            der.context(2, |der| der.integer(salt));
        });
    })
}

/// A private key that signs certificates, with its public key as a SubjectPublicKeyInfo.
pub struct KeyPair {
    kind: KeyType,
    private: Private,
    spki: Vec<u8>,
    id: [u8; 20],
}

enum Private {
    Ecdsa(EcdsaKeyPair),
    Rsa(Box<rsa::KeyPair>),
    Ed25519(Ed25519KeyPair),
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl KeyPair {
    /// Generates a key. ECDSA takes microseconds, RSA tenths of a second.
    ///
    /// # Errors
    /// If aws-lc does not generate RSA keys of this size.
    pub fn generate(kind: KeyType) -> Result<Self, MintError> {
        let failed = |_| MintError::Crypto("key generation");
        let private = match kind {
            KeyType::Rsa(bits) => {
                let size = match bits {
                    2048 => KeySize::Rsa2048,
                    3072 => KeySize::Rsa3072,
                    4096 => KeySize::Rsa4096,
                    8192 => KeySize::Rsa8192,
                    _ => return Err(MintError::RsaSize(bits)),
                };
                Private::Rsa(Box::new(rsa::KeyPair::generate(size).map_err(failed)?))
            }
            KeyType::Ed25519 => Private::Ed25519(Ed25519KeyPair::generate().map_err(failed)?),
            KeyType::EcdsaP256 | KeyType::EcdsaP384 | KeyType::EcdsaP521 => {
                Private::Ecdsa(EcdsaKeyPair::generate(ecdsa(kind)).map_err(failed)?)
            }
        };
        Ok(Self::new(kind, private))
    }

    fn new(kind: KeyType, private: Private) -> Self {
        let (algorithm, key) = match &private {
            Private::Ecdsa(pair) => {
                let curve = match kind {
                    KeyType::EcdsaP384 => oid::P384,
                    KeyType::EcdsaP521 => oid::P521,
                    _ => oid::P256,
                };
                let algorithm = algorithm(&oid::EC_PUBLIC_KEY, |der| der.oid(&curve));
                (algorithm, pair.public_key().as_ref())
            }
            Private::Rsa(pair) => {
                let algorithm = algorithm(&oid::RSA_ENCRYPTION, Der::null);
                (algorithm, pair.public_key().as_ref())
            }
            Private::Ed25519(pair) => {
                (algorithm(&oid::ED25519, |_| ()), pair.public_key().as_ref())
            }
        };
        let spki = Der::build(|der| {
            der.sequence(|der| {
                der.raw(&algorithm);
                der.bit_string(key);
            });
        });
        let id = key_id(key);
        Self {
            kind,
            private,
            spki,
            id,
        }
    }

    /// Parses a key of any supported kind from PKCS#8 DER.
    ///
    /// # Errors
    /// If the bytes are not a supported key.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, MintError> {
        if let Ok(pair) = rsa::KeyPair::from_pkcs8(pkcs8) {
            let bits = pair.public_modulus_len() as u32 * 8;
            return Ok(Self::new(KeyType::Rsa(bits), Private::Rsa(Box::new(pair))));
        }
        for kind in [KeyType::EcdsaP256, KeyType::EcdsaP384, KeyType::EcdsaP521] {
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(ecdsa(kind), pkcs8) {
                return Ok(Self::new(kind, Private::Ecdsa(pair)));
            }
        }
        Ed25519KeyPair::from_pkcs8(pkcs8)
            .map(|pair| Self::new(KeyType::Ed25519, Private::Ed25519(pair)))
            .map_err(|_| {
                MintError::Crypto(
                    "reading a PKCS#8 private key (RSA, P-256, P-384, P-521 or Ed25519)",
                )
            })
    }

    /// Returns the private key as PKCS#8 DER.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn to_pkcs8(&self) -> Result<Vec<u8>, MintError> {
        let failed = |_| MintError::Crypto("writing a PKCS#8 private key");
        Ok(match &self.private {
            Private::Ecdsa(pair) => pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec(),
            Private::Ed25519(pair) => pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec(),
            Private::Rsa(pair) => AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&**pair)
                .map_err(failed)?
                .as_ref()
                .to_vec(),
        })
    }

    /// Returns the kind of the key.
    pub fn kind(&self) -> KeyType {
        self.kind
    }

    /// Returns the public key as a SubjectPublicKeyInfo in DER.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// Returns the key identifier for SKI and AKI (RFC 7093, method 1: the first 160 bits of the
    /// SHA-256 of the public key).
    pub fn id(&self) -> &[u8; 20] {
        &self.id
    }

    /// Returns the default signature algorithm of this key.
    pub fn default_algorithm(&self) -> SignatureAlgorithm {
        match self.kind {
            KeyType::EcdsaP256 => SignatureAlgorithm::EcdsaSha256,
            KeyType::EcdsaP384 => SignatureAlgorithm::EcdsaSha384,
            KeyType::EcdsaP521 => SignatureAlgorithm::EcdsaSha512,
            KeyType::Rsa(_) => SignatureAlgorithm::RsaSha256,
            KeyType::Ed25519 => SignatureAlgorithm::Ed25519,
        }
    }

    /// Signs `message`.
    ///
    /// # Errors
    /// If the algorithm does not fit the key. Each curve signs only with the hash of its own size.
    pub fn sign(
        &self,
        algorithm: SignatureAlgorithm,
        message: &[u8],
    ) -> Result<Vec<u8>, MintError> {
        let failed = |_| MintError::Crypto("signing");
        match (&self.private, algorithm.rsa_encoding()) {
            (Private::Rsa(pair), Some(encoding)) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &SystemRandom::new(), message, &mut signature)
                    .map_err(failed)?;
                Ok(signature)
            }
            (Private::Ecdsa(pair), None) if algorithm == self.default_algorithm() => {
                let signature = pair.sign(&SystemRandom::new(), message).map_err(failed)?;
                Ok(signature.as_ref().to_vec())
            }
            (Private::Ed25519(pair), None) if algorithm == SignatureAlgorithm::Ed25519 => {
                Ok(pair.sign(message).as_ref().to_vec())
            }
            _ => Err(MintError::Algorithm {
                key: self.kind,
                algorithm,
            }),
        }
    }
}

fn ecdsa(kind: KeyType) -> &'static EcdsaSigningAlgorithm {
    match kind {
        KeyType::EcdsaP384 => &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
        KeyType::EcdsaP521 => &signature::ECDSA_P521_SHA512_ASN1_SIGNING,
        _ => &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
    }
}

fn key_id(public_key: &[u8]) -> [u8; 20] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, public_key);
    let mut id = [0; 20];
    id.copy_from_slice(&digest.as_ref()[..20]);
    id
}

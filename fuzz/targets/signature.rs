//! Compares Lucarne's own verification with that of aws-lc-rs: a message is signed, then the
//! signature, digest or key is changed. Both give the same verdict, and accept unchanged
//! signatures.
//!
//! The input is the kind of key (P-256, P-384, RSA of 2048, 3072, 4096 bits), the key that signs,
//! the key that verifies, the number of changes, the changes (part and kind of change, position,
//! value), and the message. Signatures differ in each run; a failure prints all values that
//! reproduce it.

use std::sync::LazyLock;

use aws_lc_rs::digest::{self, Digest, SHA256, SHA384, SHA512};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{self as aws, EcdsaKeyPair, KeyPair, RsaKeyPair, UnparsedPublicKey};
use lucarne_ecdsa::Claim;
use lucarne_rsa::Hash;

/// Number of keys of each curve.
const KEYS: usize = 4;

enum Signer {
    Ecdsa(EcdsaKeyPair, lucarne_ecdsa::KnownKey),
    /// The second field is `None` if the processor lacks the instructions.
    Rsa(Box<RsaKeyPair>, Option<lucarne_rsa::KnownKey>),
}

/// Digests by index: the first three of ECDSA and of RSA are the same.
static HASHES: [&digest::Algorithm; 3] = [&SHA256, &SHA384, &SHA512];
static P256: [&dyn aws::VerificationAlgorithm; 3] = [
    &aws::ECDSA_P256_SHA256_ASN1,
    &aws::ECDSA_P256_SHA384_ASN1,
    &aws::ECDSA_P256_SHA512_ASN1,
];
static P384: [&dyn aws::VerificationAlgorithm; 3] = [
    &aws::ECDSA_P384_SHA256_ASN1,
    &aws::ECDSA_P384_SHA384_ASN1,
    &aws::ECDSA_P384_SHA512_ASN1,
];
static RSA: [&dyn aws::VerificationAlgorithm; 3] = [
    &aws::RSA_PKCS1_2048_8192_SHA256,
    &aws::RSA_PKCS1_2048_8192_SHA384,
    &aws::RSA_PKCS1_2048_8192_SHA512,
];
static RSA_PADDING: [&aws::RsaSignatureEncoding; 3] = [
    &aws::RSA_PKCS1_SHA256,
    &aws::RSA_PKCS1_SHA384,
    &aws::RSA_PKCS1_SHA512,
];
const RSA_HASHES: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

/// Signers by kind, with new keys in every process.
static SIGNERS: LazyLock<[Vec<Signer>; 5]> = LazyLock::new(|| {
    let ecdsa = |algorithm, known: fn(&[u8]) -> Option<lucarne_ecdsa::KnownKey>| {
        let signer = |_| {
            let pair = EcdsaKeyPair::generate(algorithm).expect("a key");
            let known = known(pair.public_key().as_ref()).expect("a point of the curve");
            Signer::Ecdsa(pair, known)
        };
        (0..KEYS).map(signer).collect()
    };
    let rsa = |size| {
        let pair = RsaKeyPair::generate(size).expect("a key");
        let known = lucarne_rsa::KnownKey::new(pair.public_key().as_ref());
        vec![Signer::Rsa(Box::new(pair), known)]
    };
    [
        ecdsa(
            &aws::ECDSA_P256_SHA256_ASN1_SIGNING,
            lucarne_ecdsa::KnownKey::p256,
        ),
        ecdsa(
            &aws::ECDSA_P384_SHA384_ASN1_SIGNING,
            lucarne_ecdsa::KnownKey::p384,
        ),
        rsa(KeySize::Rsa2048),
        rsa(KeySize::Rsa3072),
        rsa(KeySize::Rsa4096),
    ]
});

impl Signer {
    /// Returns the index in [`HASHES`] of the digest that this signer signs.
    fn hash(&self, kind: usize, wanted: usize) -> usize {
        match self {
            // aws-lc-rs signs with the digest of the curve's length.
            Self::Ecdsa(..) => kind,
            Self::Rsa(..) => wanted,
        }
    }

    fn sign(&self, hash: usize, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Ecdsa(pair, _) => pair.sign(&random, message).expect("signed").as_ref().into(),
            Self::Rsa(pair, _) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(RSA_PADDING[hash], &random, message, &mut signature)
                    .expect("signed");
                signature
            }
        }
    }

    fn public(&self) -> &[u8] {
        match self {
            Self::Ecdsa(pair, _) => pair.public_key().as_ref(),
            Self::Rsa(pair, _) => pair.public_key().as_ref(),
        }
    }

    fn accepts(&self, hash: usize, digest: &[u8], signature: &[u8]) -> Option<bool> {
        match self {
            Self::Ecdsa(_, known) => Some(accepts(known, digest, signature)),
            Self::Rsa(_, known) => known
                .as_ref()
                .map(|known| known.accepts(RSA_HASHES[hash], digest, signature)),
        }
    }
}

/// Digests and their signatures.
type Signatures = Vec<(Vec<u8>, Vec<u8>)>;

/// Valid signatures by kind, to verify in the same batch as the signature of the input.
static COMPANY: LazyLock<[Signatures; 2]> = LazyLock::new(|| {
    [0, 1].map(|kind| {
        let sign = |(number, signer): (usize, &Signer)| {
            let hash = signer.hash(kind, 0);
            let digest = digest::digest(HASHES[hash], &[number as u8]);
            (digest.as_ref().to_vec(), signer.sign(hash, &[number as u8]))
        };
        SIGNERS[kind].iter().enumerate().map(sign).collect()
    })
});

/// Checks that a signature has the same verdict alone and in any lane, and that its neighbours are
/// accepted.
fn accepts(known: &lucarne_ecdsa::KnownKey, digest: &[u8], signature: &[u8]) -> bool {
    let alone = known.accepts(digest, signature);
    let claim = Claim {
        key: known,
        digest,
        signature,
    };
    let (mut claims, mut expected) = (Vec::new(), Vec::new());
    for (signers, company) in SIGNERS.iter().zip(&*COMPANY) {
        for (signer, (digest, signature)) in signers.iter().zip(company) {
            if let Signer::Ecdsa(_, key) = signer {
                claims.extend([
                    claim,
                    Claim {
                        key,
                        digest,
                        signature,
                    },
                ]);
                expected.extend([alone, true]);
            }
        }
    }
    assert_eq!(lucarne_ecdsa::accept_all(&claims), expected);
    alone
}

/// Changes, inserts or removes one byte.
fn change(bytes: &mut Vec<u8>, how: u8, at: u8, with: u8) {
    let at = usize::from(at) * bytes.len() / 256;
    match how % 3 {
        0 if at < bytes.len() => bytes[at] ^= with,
        1 => bytes.insert(at, with),
        _ if at < bytes.len() => drop(bytes.remove(at)),
        _ => {}
    }
}

pub(crate) fn run(input: &[u8]) {
    let Some((&[kind, signing, verifying, count], rest)) = input.split_first_chunk() else {
        return;
    };
    let (changes, message) = rest.split_at(rest.len().min(usize::from(count % 4) * 3));
    let kind = usize::from(kind) % SIGNERS.len();
    let [signer, verifier] = [signing, verifying]
        .map(|number| &SIGNERS[kind][usize::from(number) % SIGNERS[kind].len()]);
    let hash = signer.hash(kind, usize::from(signing) % HASHES.len());
    let algorithm = [&P256, &P384, &RSA, &RSA, &RSA][kind][hash];

    let mut signature = signer.sign(hash, message);
    let mut digest = digest::digest(HASHES[hash], message).as_ref().to_vec();
    let mut public = verifier.public().to_vec();
    let unchanged = (signature.clone(), digest.clone(), signer.public().to_vec());
    for triple in changes.chunks_exact(3) {
        let &[what, at, with] = triple else { continue };
        match what % 8 {
            // The length never changes, because the algorithm determines it.
            0 => change(&mut digest, 0, at, with),
            1 => change(&mut public, what / 8, at, with),
            _ => change(&mut signature, what / 8, at, with),
        }
    }

    let imported = Digest::import_less_safe(&digest, HASHES[hash]).expect("of this length");
    let theirs = UnparsedPublicKey::new(algorithm, &public)
        .verify_digest(&imported, &signature)
        .is_ok();
    let ours = if public == verifier.public() {
        verifier.accepts(hash, &digest, &signature)
    } else {
        match kind {
            0 => lucarne_ecdsa::KnownKey::p256(&public),
            1 => lucarne_ecdsa::KnownKey::p384(&public),
            _ => None,
        }
        .map(|known| accepts(&known, &digest, &signature))
        .or_else(|| {
            let known = lucarne_rsa::KnownKey::new(&public)?;
            Some(known.accepts(RSA_HASHES[hash], &digest, &signature))
        })
    };
    let seen = || format!("key {public:02x?}, digest {digest:02x?}, signature {signature:02x?}");
    if let Some(ours) = ours {
        assert_eq!(ours, theirs, "{}", seen());
    }
    if unchanged.0 == signature && unchanged.1 == digest && unchanged.2 == public {
        assert!(theirs && ours != Some(false), "{}", seen());
    }
}

//! Sunlight's derivation of the keys of a log or of a witness from a seed file: HKDF, then C2SP
//! det-keygen for ECDSA. The output of HKDF for Ed25519 and ML-DSA-44 is the seed of the key.

use aws_lc_rs::{hkdf, hmac};
use lucarne_tlog::Cosigner;

use crate::public_key::KeyError;

/// Length of Sunlight's seed files in bytes.
pub(crate) const SEED_LEN: usize = 32;

/// Salt of the keys of a log.
const LOG: &[u8] = b"sunlight";

/// The order of P-256.
const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// Derives the P-256 scalar of the log key from a Sunlight seed. Returns `None` with probability
/// 2^-64, if the seed gives no key.
pub(crate) fn log_scalar(seed: &[u8; SEED_LEN]) -> Option<[u8; 32]> {
    det_keygen(&stretch(seed, LOG, b"ECDSA P-256 log key")?)
}

/// Derives the seed of the ML-DSA-44 key, which also signs the checkpoints.
pub(crate) fn ml_dsa_seed(seed: &[u8; SEED_LEN]) -> Option<[u8; 32]> {
    stretch(seed, LOG, b"ML-DSA-44 log key")
}

/// Derives the cosigners of the witness with this name: Ed25519, then ML-DSA-44.
///
/// # Errors
/// [`KeyError::Derivation`]; [`KeyError::Cosigner`] if the name is not allowed.
pub fn witness_cosigners(seed: &[u8; SEED_LEN], name: &str) -> Result<[Cosigner; 2], KeyError> {
    let derived = |salt: &[u8]| stretch(seed, salt, name.as_bytes()).ok_or(KeyError::Derivation);
    let ed25519 = derived(b"sunlight Ed25519 witness key")?;
    let ml_dsa_44 = derived(b"sunlight ML-DSA-44 witness key")?;
    Ok([
        Cosigner::ed25519(name, &ed25519)?,
        Cosigner::ml_dsa_44(name, &ml_dsa_44)?,
    ])
}

/// Derives the cosigner of the mirror with this name, and the secret of its tickets.
///
/// # Errors
/// See [`witness_cosigners`].
pub fn mirror_cosigner(
    seed: &[u8; SEED_LEN],
    name: &str,
) -> Result<(Cosigner, [u8; 32]), KeyError> {
    let derived = |salt: &[u8]| stretch(seed, salt, name.as_bytes()).ok_or(KeyError::Derivation);
    let key = derived(b"sunlight ML-DSA-44 mirror key")?;
    Ok((
        Cosigner::ml_dsa_44(name, &key)?,
        derived(b"lucarne mirror tickets")?,
    ))
}

/// HKDF-SHA-256.
fn stretch(seed: &[u8], salt: &[u8], info: &[u8]) -> Option<[u8; 32]> {
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, salt);
    let mut out = [0; 32];
    salt.extract(seed)
        .expand(&[info], hkdf::HKDF_SHA256)
        .ok()?
        .fill(&mut out)
        .ok()?;
    Some(out)
}

/// Computes C2SP det-keygen for P-256: the first output of HMAC_DRBG that is a valid scalar, of at
/// most two.
fn det_keygen(seed: &[u8]) -> Option<[u8; 32]> {
    let material = [seed, b"det ECDSA key gen P-256"].concat();
    let mut generator = HmacDrbg::new(&material);
    let first = generator.generate();
    let candidate = if first < ORDER {
        first
    } else {
        generator.reseed_empty();
        generator.generate()
    };
    (candidate < ORDER && candidate != [0; 32]).then_some(candidate)
}

/// HMAC_DRBG with SHA-256 (NIST SP 800-90A section 10.1.2), as RFC 6979 uses it.
struct HmacDrbg {
    k: [u8; 32],
    v: [u8; 32],
}

impl HmacDrbg {
    fn new(material: &[u8]) -> Self {
        let mut this = Self {
            k: [0; 32],
            v: [1; 32],
        };
        this.k = this.hmac(&[&this.v, &[0], material]);
        this.v = this.hmac(&[&this.v]);
        this.k = this.hmac(&[&this.v, &[1], material]);
        this.v = this.hmac(&[&this.v]);
        this
    }

    fn generate(&mut self) -> [u8; 32] {
        self.v = self.hmac(&[&self.v]);
        self.v
    }

    fn reseed_empty(&mut self) {
        self.k = self.hmac(&[&self.v, &[0]]);
        self.v = self.hmac(&[&self.v]);
    }

    fn hmac(&self, parts: &[&[u8]]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.k);
        let mut context = hmac::Context::with_key(&key);
        for part in parts {
            context.update(part);
        }
        let mut out = [0; 32];
        out.copy_from_slice(context.sign().as_ref());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are computed with Go's `crypto/hkdf` and `crypto/ed25519`.
    #[test]
    fn keys_of_a_witness() {
        let name = "witness.example.com";
        let [ed25519, ml_dsa_44] = witness_cosigners(&[7; 32], name).unwrap();
        let key = "witness.example.com+671ac1fa+BHoCFiTOpCCZ4oh6kR1LZkuyrZrAbi419eVHudDf9esG";
        assert_eq!(ed25519.verifier().to_string(), key);
        let seed = "a2d3d571573b061ee6de4ff5fbdef7e834201be4718b94bb001064e73f9db09c";
        let seed = hex::decode(seed).unwrap().try_into().unwrap();
        let same = Cosigner::ml_dsa_44(name, &seed).unwrap();
        assert_eq!(ml_dsa_44.verifier(), same.verifier());
        let error = witness_cosigners(&[7; 32], "a b").unwrap_err();
        assert!(matches!(error, KeyError::Cosigner(_)));
    }

    /// This seed, from the authors of det-keygen, has a first candidate that is not below the
    /// order.
    #[test]
    fn the_second_candidate_is_taken() {
        let seed = hex::decode("b432f9be30890480298218510559aed7").unwrap();
        let material = [&seed[..], b"det ECDSA key gen P-256"].concat();
        assert!(HmacDrbg::new(&material).generate() >= ORDER);
        assert_eq!(hex::encode(det_keygen(&seed).unwrap()), SECOND_CANDIDATE);
    }

    /// Computed with Python's `hmac` from the description of det-keygen.
    const SECOND_CANDIDATE: &str =
        "8e33078565bd7d1f9f81011fa8b788632af840074ab0eb31f8022b77547d61f3";
}

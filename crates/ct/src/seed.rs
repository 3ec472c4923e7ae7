//! Sunlight's derivation of the keys of a log from a seed file: HKDF, then C2SP det-keygen for
//! ECDSA. The output of HKDF for ML-DSA-44 is the seed of FIPS 204.

use aws_lc_rs::{hkdf, hmac};

/// Length of Sunlight's seed files in bytes.
pub(crate) const SEED_LEN: usize = 32;

/// The order of P-256.
const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// Derives the P-256 scalar of the log key from a Sunlight seed. Returns `None` with probability
/// 2^-64, if the seed gives no key.
pub(crate) fn log_scalar(seed: &[u8; SEED_LEN]) -> Option<[u8; 32]> {
    det_keygen(&stretch(seed, b"ECDSA P-256 log key")?)
}

/// Derives the seed of the ML-DSA-44 key, which also signs the checkpoints.
pub(crate) fn ml_dsa_seed(seed: &[u8; SEED_LEN]) -> Option<[u8; 32]> {
    stretch(seed, b"ML-DSA-44 log key")
}

/// HKDF-SHA-256 with Sunlight's salt.
fn stretch(seed: &[u8], info: &[u8]) -> Option<[u8; 32]> {
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"sunlight");
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

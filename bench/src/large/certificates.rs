//! Millions of certificates: copies of a certificate that a CA has signed, with different bytes
//! where real certificates differ.

use std::{fs, ops::Range, path::Path};

use anyhow::{Context, Result, ensure};
use lucarne_ct::{Identity, SignedEntry};
use lucarne_mint::testing::Pki;

/// Placeholder of a host's name in the template.
const NAME: &str = "nameofahost0";
/// Bytes before the 64 bytes of a P-256 point: the curve's identifier, the head of a bit string,
/// and the form of the point.
const BEFORE_POINT: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04";
/// Bytes before a subject key identifier of 20 bytes.
const BEFORE_KEY_ID: &[u8] = b"\x06\x03\x55\x1d\x0e\x04\x16\x04\x14";
/// Length of an RSA-2048 signature in bytes.
const SIGNATURE: usize = 256;

/// A certificate of an RSA CA for a P-256 key, and the places where its copies differ: serial
/// number, names, key and signature. The copies compress like real certificates, and their
/// signatures are invalid.
pub(super) struct Template {
    der: Vec<u8>,
    /// Places of arbitrary bytes.
    random: Vec<Range<usize>>,
    names: Vec<Range<usize>>,
}

impl Template {
    /// Reads the template from `file`, or creates and stores a new one. The template keeps the
    /// dates of the day on which it was minted.
    pub(super) fn kept(pki: &Pki, file: &Path) -> Result<Self> {
        if !file.exists() {
            let leaf = pki.leaf(&format!("{NAME}.example.test"));
            fs::write(file, pki.rsa.issue(&leaf)?)?;
        }
        Self::of(fs::read(file)?)
    }

    fn of(der: Vec<u8>) -> Result<Self> {
        let found = |what: &[u8]| -> Vec<usize> {
            let windows = der.windows(what.len()).enumerate();
            windows
                .filter_map(|(at, bytes)| (bytes == what).then_some(at))
                .collect()
        };
        let after = |what: &[u8], length: usize| {
            let at = found(what).first().map(|at| at + what.len());
            at.map(|at| at..at + length)
        };
        let names = found(NAME.as_bytes());
        ensure!(!names.is_empty(), "the template has no name");
        let mut random = vec![
            serial(&der).context("the template has no serial number")?,
            after(BEFORE_POINT, 64).context("the template has no P-256 key")?,
            der.len() - SIGNATURE..der.len(),
        ];
        random.extend(after(BEFORE_KEY_ID, 20));
        Ok(Self {
            random,
            names: names.into_iter().map(|at| at..at + NAME.len()).collect(),
            der,
        })
    }

    /// Returns certificate `number`, always with the same bytes.
    pub(super) fn certificate(&self, number: u64) -> Vec<u8> {
        let mut random = Random(number << 8);
        let mut der = self.der.clone();
        for range in &self.random {
            random.fill(&mut der[range.clone()]);
        }
        let mut name = [0; NAME.len()];
        random.fill(&mut name);
        name.iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
        for range in &self.names {
            der[range.clone()].copy_from_slice(&name);
        }
        der
    }

    pub(super) fn signed(&self, number: u64) -> SignedEntry {
        SignedEntry::X509 {
            certificate: self.certificate(number).into(),
        }
    }
}

/// Returns the place of the serial number, without its first byte, which has the sign.
fn serial(der: &[u8]) -> Option<Range<usize>> {
    // [0] { INTEGER 2 }, then the serial number.
    let version = b"\xa0\x03\x02\x01\x02\x02";
    let windows = der.windows(version.len());
    let at = windows.into_iter().position(|bytes| bytes == version)? + version.len();
    let length = usize::from(*der.get(at)?);
    Some(at + 2..at + 1 + length)
}

/// Returns the identity of an entry that does not exist.
pub(super) fn identity(number: u64) -> Identity {
    let mut identity = Identity([0; 32]);
    Random(number << 8).fill(&mut identity.0);
    identity
}

/// SplitMix64: fast, and random enough.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next().to_be_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_certificate_is_its_own_and_always_the_same() {
        let pki = Pki::shared();
        let der = pki.rsa.issue(&pki.leaf(&format!("{NAME}.example.test")));
        let template = Template::of(der.unwrap()).unwrap();
        let all: HashSet<_> = (0..1000).map(|n| template.certificate(n)).collect();
        assert_eq!(all.len(), 1000);
        assert_eq!(template.certificate(7), template.certificate(7));
        let read = lucarne_ct::Chain::from_ders([template.certificate(7)]).unwrap();
        assert_eq!(read.leaf().len(), template.der.len());
    }

    #[test]
    fn identities_differ() {
        let all: HashSet<_> = (0..10_000).map(identity).collect();
        assert_eq!(all.len(), 10_000);
    }
}

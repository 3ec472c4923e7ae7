//! Data of a submission that a log must store but does not sign.

use std::collections::BTreeSet;
use std::sync::Arc;

use lucarne_ct::Fingerprint;

/// The part of a submission that the tree's hash does not cover (`extra_data` in RFC 6962, section
/// 4.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraData {
    /// SHA-256 of the precertificate; `None` for a final certificate.
    pub precertificate: Option<Fingerprint>,
    /// Chain above the certificate.
    pub issuers: Arc<IssuerChain>,
}

/// Chain above a submitted certificate, as a log must store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerChain {
    /// Fingerprints, the issuer first.
    pub chain: Vec<Fingerprint>,
    /// Whether `chain` ends with the accepted root. Otherwise, a stored chain has one more
    /// fingerprint: that of the root.
    pub complete: bool,
}

/// The reasons why a stored chain differs from the submitted chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainMismatch {
    /// Certificates are missing at the end of the stored chain.
    #[error("the chain ends after {found} of {expected} certificates, short of the accepted root")]
    Short {
        /// Number of stored certificates.
        found: usize,
        /// Number of certificates up to the accepted root.
        expected: usize,
    },
    /// The stored chain has the same certificates in another order.
    #[error("the chain is not in the order of the submission")]
    Order,
    /// The stored chain has other certificates.
    #[error("the chain differs from the submitted chain")]
    Other,
}

impl IssuerChain {
    /// Compares the fingerprints of an entry with this chain.
    ///
    /// # Errors
    /// The difference between the chains.
    pub fn compare(&self, found: &[Fingerprint]) -> Result<(), ChainMismatch> {
        let expected = self.chain.len() + usize::from(!self.complete);
        if found.len() == expected && found.starts_with(&self.chain) {
            return Ok(());
        }
        let sorted = |chain: &[Fingerprint]| chain.iter().copied().collect::<BTreeSet<_>>();
        Err(match found.len().cmp(&expected) {
            std::cmp::Ordering::Less => {
                let found = found.len();
                ChainMismatch::Short { found, expected }
            }
            _ if sorted(found) == sorted(&self.chain) => ChainMismatch::Order,
            _ => ChainMismatch::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_compared_whole() {
        let print = |number| Fingerprint([number; 32]);
        let issuers = |complete| IssuerChain {
            chain: vec![print(1), print(2), print(3)],
            complete,
        };
        let compare = |found: &[u8], complete| {
            let found: Vec<_> = found.iter().copied().map(print).collect();
            issuers(complete).compare(&found)
        };
        assert_eq!(compare(&[1, 2, 3], true), Ok(()));
        assert_eq!(compare(&[1, 2, 3, 9], false), Ok(()));
        let short = |found, expected| ChainMismatch::Short { found, expected };
        for (found, complete, mismatch) in [
            (&[1, 2][..], true, short(2, 3)),
            (&[1, 2, 3], false, short(3, 4)),
            (&[2, 1, 3], true, ChainMismatch::Order),
            (&[1, 2, 4], true, ChainMismatch::Other),
            (&[1, 2, 3, 4], true, ChainMismatch::Other),
            (&[], true, short(0, 3)),
        ] {
            assert_eq!(compare(found, complete), Err(mismatch), "{found:?}");
        }
    }
}

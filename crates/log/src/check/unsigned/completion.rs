//! Damaged fingerprints in a data tile, and the issuers that complete their chains.
//!
//! Nothing signs a fingerprint. If many of its bits are damaged, it looks like the fingerprint of
//! a missing issuer. A certificate of the log replaces this issuer only if both fingerprints agree
//! in half of their bytes, and if every signature of the chain verifies with it. The chain alone
//! is not enough: an authority may have several certificates with the same name and key, and one
//! of them may be missing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use lucarne_ct::{Certificate, Fingerprint, TileEntries, TileEntry, TileLeafRef};
use tokio::task::spawn_blocking;

use super::{Chains, Issuers, MAX_SEARCHES, submitted};

/// Minimum number of equal bytes of a damaged fingerprint and the correct fingerprint. The
/// fingerprints of two certificates have this many equal bytes with a probability of about 2⁻⁹⁹.
const MIN_EQUAL_BYTES: usize = 16;

/// The only place of a data tile that names an issuer.
pub(crate) struct OnlyMention {
    /// The byte at which the entry begins.
    entry: usize,
    /// The byte at which the fingerprint begins.
    fingerprint: usize,
    /// Position of the issuer in the chain above the entry.
    position: usize,
}

impl OnlyMention {
    /// Finds the place. Returns `None` if several entries name the issuer: damage does not repeat,
    /// so the issuer existed.
    pub(crate) fn of(issuer: &Fingerprint, entries: &[u8]) -> Option<Self> {
        let mut only = None;
        for entry in TileEntries::all(entries, 0) {
            let TileEntry { bytes, leaf, .. } = entry.ok()?;
            let count = leaf.fingerprints.len();
            for (position, fingerprint) in leaf.fingerprints.enumerate() {
                let mention = OnlyMention {
                    entry: bytes.start,
                    fingerprint: bytes.end - issuer.0.len() * (count - position),
                    position,
                };
                if fingerprint == *issuer && only.replace(mention).is_some() {
                    return None;
                }
            }
        }
        only
    }

    /// Returns the tile with the fingerprint of another issuer in this place.
    pub(crate) fn replaced(&self, by: &Fingerprint, entries: &[u8]) -> Option<Vec<u8>> {
        let mut entries = entries.to_vec();
        let place = entries.get_mut(self.fingerprint..self.fingerprint + by.0.len())?;
        place.copy_from_slice(&by.0);
        Some(entries)
    }

    /// Reads the entry of this place.
    pub(crate) fn leaf<'e>(&self, entries: &'e [u8]) -> Option<TileLeafRef<'e>> {
        let mut rest = entries.get(self.entry..)?;
        TileLeafRef::read(&mut rest).ok()
    }

    /// Returns the certificate that the issuer has signed: the next lower certificate of the chain.
    fn below<'c>(&self, entries: &'c [u8], issuers: &'c Issuers) -> Option<&'c [u8]> {
        let leaf = self.leaf(entries)?;
        let Some(position) = self.position.checked_sub(1) else {
            return Some(submitted(&leaf).1);
        };
        let mut fingerprints = leaf.fingerprints;
        let der = issuers.get(&fingerprints.nth(position)?)?;
        Some(der)
    }
}

impl Chains {
    /// Finds the issuer that completes the chain of an entry in place of a `missing` issuer. `None`
    /// if no present issuer completes the chain, or if several issuers do.
    pub(crate) async fn completion(
        self: &Arc<Self>,
        missing: Fingerprint,
        entries: Bytes,
    ) -> Option<Fingerprint> {
        if self.searches.load(Ordering::Relaxed) > MAX_SEARCHES {
            return None;
        }
        let candidates = self.candidates(&missing);
        if candidates.is_empty() {
            return None;
        }
        let mention = OnlyMention::of(&missing, &entries)?;
        let chain: Vec<_> = mention.leaf(&entries)?.fingerprints.collect();
        let issuers = self.issuers(candidates.into_iter().chain(chain)).await;
        let chains = self.clone();
        let search = move || chains.only_completion(missing, &mention, &entries, &issuers);
        spawn_blocking(search).await.ok().flatten()
    }

    /// Returns the issuers found so far whose damaged fingerprint may be the `missing` fingerprint.
    fn candidates(&self, missing: &Fingerprint) -> Vec<Fingerprint> {
        let known = self.known.lock();
        let present = known.iter().filter(|(_, is_present)| **is_present);
        let candidates = present.filter(|(candidate, _)| is_damaged_form(missing, candidate));
        candidates.map(|(candidate, _)| *candidate).collect()
    }

    fn only_completion(
        &self,
        missing: Fingerprint,
        mention: &OnlyMention,
        entries: &[u8],
        issuers: &Issuers,
    ) -> Option<Fingerprint> {
        let below = Certificate::parse(mention.below(entries, issuers)?).ok()?;
        let mut completions = issuers.iter().filter(|(candidate, der)| {
            let issuer = Certificate::parse(der);
            is_damaged_form(&missing, candidate)
                && issuer.is_ok_and(|issuer| issuer.subject() == below.issuer())
                && self.is_completion(candidate, mention, entries, issuers)
        });
        let (only, _) = completions.next()?;
        completions.next().is_none().then_some(*only)
    }

    /// Returns whether the chain of the entry verifies with this issuer.
    fn is_completion(
        &self,
        candidate: &Fingerprint,
        mention: &OnlyMention,
        entries: &[u8],
        issuers: &Issuers,
    ) -> bool {
        let entries = mention.replaced(candidate, entries);
        let leaf = entries.as_deref().and_then(|entries| mention.leaf(entries));
        leaf.is_some_and(|leaf| self.verify(&leaf, issuers).is_ok())
    }
}

/// Returns whether only damage explains that these fingerprints differ. An attacker can create two
/// certificates whose fingerprints differ in a few dozen bits, but not two that agree in half of
/// the bytes.
pub(crate) fn is_damaged_form(damaged: &Fingerprint, right: &Fingerprint) -> bool {
    equal_bytes(damaged, right) >= MIN_EQUAL_BYTES
}

/// Returns the number of positions at which two fingerprints have the same byte.
fn equal_bytes(one: &Fingerprint, other: &Fingerprint) -> usize {
    let pairs = one.0.iter().zip(&other.0);
    pairs.filter(|(one, other)| one == other).count()
}

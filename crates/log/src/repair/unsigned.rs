//! The parts of an entry that no hash covers: the precertificate, and the chain.
//!
//! A place that offers entries could give them others. So the precertificate must be
//! the one that its signed entry comes from, each certificate of the chain be named as
//! the issuer of the one before it, and the last one name itself.

use std::collections::HashMap;

use bytes::Bytes;
use lucarne_ct::{
    Certificate, Fingerprint, SignedEntryRef, TileLeafRef, is_issued_by, names_match,
    tbs_without_poison, tbs_without_poison_for,
};

use crate::Files;

/// Returns whether these parts belong to the first `count` entries of a data tile. Issuers
/// are read from the log itself, or else from who offers the entries.
pub(super) async fn is_right(
    own: &dyn Files,
    offering: &dyn Files,
    entries: &[u8],
    count: u16,
) -> bool {
    let mut issuers = HashMap::new();
    let mut rest = entries;
    for _ in 0..count {
        let Ok(leaf) = TileLeafRef::read(&mut rest) else {
            return false;
        };
        for fingerprint in leaf.fingerprints {
            if issuers.contains_key(&fingerprint) {
                continue;
            }
            let Some(der) = issuer(&[own, offering], &fingerprint).await else {
                return false;
            };
            issuers.insert(fingerprint, der);
        }
        if !belongs(&leaf, &issuers).unwrap_or(false) {
            return false;
        }
    }
    true
}

async fn issuer(places: &[&dyn Files], fingerprint: &Fingerprint) -> Option<Bytes> {
    for files in places {
        let read = files.read(&format!("issuer/{fingerprint}")).await;
        if let Ok(Some(der)) = read
            && Fingerprint::of(&der) == *fingerprint
        {
            return Some(der);
        }
    }
    None
}

/// `None` if a certificate of the chain cannot be read.
fn belongs(leaf: &TileLeafRef<'_>, issuers: &HashMap<Fingerprint, Bytes>) -> Option<bool> {
    let mut chain = Vec::new();
    for fingerprint in leaf.fingerprints {
        chain.push(Certificate::parse(issuers.get(&fingerprint)?).ok()?);
    }
    let submitted = match (leaf.signed, leaf.precertificate) {
        (SignedEntryRef::X509 { certificate }, None) => Certificate::parse(certificate).ok()?,
        (SignedEntryRef::Precert { tbs, .. }, Some(der)) => {
            let precertificate = Certificate::parse(der).ok()?;
            let signer = chain.first()?;
            let from_it = tbs_without_poison(&precertificate) == tbs
                || tbs_without_poison_for(&precertificate, signer) == tbs;
            if !from_it || !is_issued_by(&precertificate, signer) {
                return Some(false);
            }
            precertificate
        }
        _ => return Some(false),
    };
    let mut below = &submitted;
    for issuer in &chain {
        if !names_match(below.issuer(), issuer.subject()) {
            return Some(false);
        }
        below = issuer;
    }
    // A chain ends with a root, and is not cut short before.
    Some(!chain.is_empty() && names_match(below.issuer(), below.subject()))
}

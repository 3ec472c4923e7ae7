//! What the tree's hash does not cover of a data tile, changed.

use bytes::Bytes;
use lucarne_ct::TileLeafRef;

/// A data tile with every precertificate changed by a bit.
pub(crate) fn other_precertificates(tile: &Bytes) -> Bytes {
    let mut changed = tile.to_vec();
    each(tile, |entry, start, _| {
        let Some(precertificate) = entry.precertificate else {
            return;
        };
        let bytes = &tile[start..];
        let at = bytes
            .windows(precertificate.len())
            .position(|window| window == precertificate);
        // In its signature, which its TBSCertificate has nothing to do with.
        changed[start + at.unwrap() + precertificate.len() - 1] ^= 1;
    });
    changed.into()
}

/// A data tile whose chains begin with their second certificate.
pub(crate) fn shuffled(tile: &Bytes) -> Bytes {
    let mut changed = tile.to_vec();
    each(tile, |entry, _, end| {
        let count = entry.fingerprints.into_iter().count();
        if count > 1 {
            changed[end - 32 * count..][..64].rotate_left(32);
        }
    });
    changed.into()
}

/// A data tile whose chains lack their last certificate.
pub(crate) fn without_roots(tile: &Bytes) -> Bytes {
    let mut changed = Vec::with_capacity(tile.len());
    each(tile, |entry, start, end| {
        let length = 32 * entry.fingerprints.into_iter().count();
        let before = &tile[start..end - length - 2];
        changed.extend_from_slice(before);
        changed.extend_from_slice(&(length as u16 - 32).to_be_bytes());
        changed.extend_from_slice(&tile[end - length..end - 32]);
    });
    changed.into()
}

/// Every entry, with where it begins and ends.
fn each(tile: &Bytes, mut what: impl FnMut(&TileLeafRef<'_>, usize, usize)) {
    let mut rest = &tile[..];
    while !rest.is_empty() {
        let start = tile.len() - rest.len();
        // What is no data tile (an error page) is left alone.
        let Ok(entry) = TileLeafRef::read(&mut rest) else {
            return;
        };
        what(&entry, start, tile.len() - rest.len());
    }
}

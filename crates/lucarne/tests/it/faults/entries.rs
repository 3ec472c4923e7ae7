//! Changes of the parts of a data tile that no hash covers.

use bytes::Bytes;
use lucarne_ct::TileLeafRef;

/// Returns the data tile with one flipped bit in every precertificate.
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
        // The signature, which is not part of the `TBSCertificate`.
        changed[start + at.unwrap() + precertificate.len() - 1] ^= 1;
    });
    changed.into()
}

/// Returns the data tile with the first two certificates of every chain swapped.
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

/// Returns the data tile without the last certificate of every chain.
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

/// Calls `what` for every entry, with its start and end.
fn each(tile: &Bytes, mut what: impl FnMut(&TileLeafRef<'_>, usize, usize)) {
    let mut rest = &tile[..];
    while !rest.is_empty() {
        let start = tile.len() - rest.len();
        // Bytes that are not a data tile (an error page) stay unchanged.
        let Ok(entry) = TileLeafRef::read(&mut rest) else {
            return;
        };
        what(&entry, start, tile.len() - rest.len());
    }
}

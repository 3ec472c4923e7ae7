//! How data tiles are compressed: gzip as stored, zstd for readers who ask.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// First bytes of a gzip stream. A `TileLeaf` starts with a 64-bit timestamp,
/// which would have to lie 71 million years ahead to be mistaken for it.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Most bytes that a data tile may have: 256 entries of the largest
/// certificate and precertificate (2^24 each) would be more, but no submission
/// is that large.
const MAX_TILE_BYTES: u64 = 1 << 30;

/// Compresses at the fastest level: the next one takes half as long again and
/// saves a twentieth of the size.
pub(crate) fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// The bytes as they were before compression, if they are compressed.
pub(crate) fn gunzip(bytes: Bytes) -> std::io::Result<Bytes> {
    if !is_gzip(&bytes) {
        return Ok(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len() * 4);
    MultiGzDecoder::new(bytes.as_ref())
        .take(MAX_TILE_BYTES)
        .read_to_end(&mut out)?;
    Ok(out.into())
}

/// Whether `packed` unpacks to `plain`: compared piece by piece, in a buffer that stays in the
/// cache.
pub(crate) fn unpacks_to(packed: &[u8], mut plain: &[u8]) -> std::io::Result<bool> {
    let mut unpacking = MultiGzDecoder::new(packed);
    let mut piece = vec![0; 32 << 10];
    loop {
        let length = unpacking.read(&mut piece)?;
        match plain.strip_prefix(&piece[..length]) {
            Some([]) if length == 0 => return Ok(true),
            Some(rest) if length > 0 => plain = rest,
            _ => return Ok(false),
        }
    }
}

pub(crate) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&GZIP_MAGIC)
}

/// Compresses for readers who prefer zstd.
pub(crate) fn zstd(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    zstd::bulk::compress(bytes, zstd::DEFAULT_COMPRESSION_LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_round_trips_and_plain_bytes_pass() {
        let plain = Bytes::from(b"certificate ".repeat(1000));
        let packed = Bytes::from(gzip(&plain).unwrap());
        assert!(is_gzip(&packed) && packed.len() < plain.len() / 10);
        assert_eq!(gunzip(packed).unwrap(), plain);
        assert_eq!(gunzip(plain.clone()).unwrap(), plain);
    }

    #[test]
    fn what_is_not_the_same_does_not_unpack_to_it() {
        // Longer than a piece, and not a multiple of it.
        let plain = b"certificate ".repeat(10_000);
        let packed = gzip(&plain).unwrap();
        assert!(unpacks_to(&packed, &plain).unwrap());
        let mut other = plain.clone();
        other[100_000] ^= 1;
        assert!(!unpacks_to(&packed, &other).unwrap());
        assert!(!unpacks_to(&packed, &plain[1..]).unwrap());
        assert!(!unpacks_to(&packed, &plain[..plain.len() - 1]).unwrap());
        assert!(!unpacks_to(&packed, &[&plain[..], b"c"].concat()).unwrap());
        assert!(!unpacks_to(&packed, b"").unwrap());
        assert!(unpacks_to(&gzip(b"").unwrap(), b"").unwrap());
        assert!(unpacks_to(&packed[..packed.len() - 1], &plain).is_err());
    }

    #[test]
    fn a_cut_stream_is_an_error() {
        let packed = Bytes::from(gzip(&b"certificate ".repeat(1000)).unwrap());
        assert!(gunzip(packed.slice(..packed.len() - 1)).is_err());
    }
}

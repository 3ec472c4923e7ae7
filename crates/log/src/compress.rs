//! Compression of data tiles: gzip as stored, zstd for readers who ask.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;

/// First bytes of a gzip stream. A `TileLeaf` starts with a 64-bit timestamp,
/// which would have to lie 71 million years ahead to be mistaken for it.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Most bytes that a data tile may have: 256 entries, in each of which a
/// certificate of the longest body that can be configured (2 MiB) lies twice.
/// Whatever unpacks to more is not unpacked further.
const MAX_TILE_BYTES: u64 = 1 << 30;

/// Compresses at the fastest level: the next one takes half as long again and
/// saves a twentieth of the size.
pub(crate) fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Returns the bytes of a data tile as they were before compression, if they are compressed.
///
/// # Errors
/// Unless they are one gzip stream, whole, and nothing else, or if they unpack
/// to more than any data tile has.
pub fn gunzip(bytes: Bytes) -> std::io::Result<Bytes> {
    match is_gzip(&bytes) {
        true => unpack(&bytes, MAX_TILE_BYTES).map(Bytes::from),
        false => Ok(bytes),
    }
}

fn unpack(packed: &[u8], most: u64) -> std::io::Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(packed.len() * 4);
    let mut unpacking = GzDecoder::new(packed).take(most + 1);
    unpacking.read_to_end(&mut plain)?;
    if plain.len() as u64 > most {
        return Err(invalid(format!("unpacks to more than {most} bytes")));
    }
    nothing_after(unpacking.into_inner())?;
    Ok(plain)
}

/// Refuses bytes after the end of a gzip stream: a second one, or anything else.
fn nothing_after(unpacked: GzDecoder<&[u8]>) -> std::io::Result<()> {
    match unpacked.into_inner().len() {
        0 => Ok(()),
        extra => Err(invalid(format!(
            "{extra} bytes after the end of the stream"
        ))),
    }
}

fn invalid(problem: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, problem)
}

/// Returns whether `packed` unpacks to `plain`: compared piece by piece, in a buffer that stays in
/// the cache.
pub(crate) fn unpacks_to(packed: &[u8], mut plain: &[u8]) -> std::io::Result<bool> {
    let mut unpacking = GzDecoder::new(packed);
    let mut piece = vec![0; 32 << 10];
    loop {
        let length = unpacking.read(&mut piece)?;
        match plain.strip_prefix(&piece[..length]) {
            Some([]) if length == 0 => return nothing_after(unpacking).map(|()| true),
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
    fn only_one_stream_is_unpacked() {
        let packed = gzip(b"certificate").unwrap();
        for extra in [&b"\0"[..], b"\x1f\x8b", &packed] {
            let twice = [&packed, extra].concat();
            let error = gunzip(twice.clone().into()).unwrap_err().to_string();
            assert!(error.contains("after the end"), "{error}");
            assert!(unpacks_to(&twice, b"certificate").is_err());
        }
    }

    #[test]
    fn what_unpacks_without_end_is_not_unpacked() {
        let bomb = gzip(&[0; 1 << 20]).unwrap();
        assert!(bomb.len() < 1 << 15);
        let error = unpack(&bomb, (1 << 20) - 1).unwrap_err().to_string();
        assert!(error.contains("more than 1048575 bytes"), "{error}");
        assert_eq!(unpack(&bomb, 1 << 20).unwrap().len(), 1 << 20);
    }

    #[test]
    fn a_cut_stream_is_an_error() {
        let packed = Bytes::from(gzip(&b"certificate ".repeat(1000)).unwrap());
        assert!(gunzip(packed.slice(..packed.len() - 1)).is_err());
    }
}

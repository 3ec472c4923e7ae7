//! Data tiles as they were before compression, and zstd for readers who ask.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::GzDecoder;

use crate::gzip::check_sum;

/// First bytes of a gzip stream. A `TileLeaf` starts with a 64-bit timestamp,
/// which would have to lie 71 million years ahead to be mistaken for it.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Most bytes that a data tile may have: 256 entries, in each of which a
/// certificate of the longest body that can be configured (2 MiB) lies twice.
/// Whatever unpacks to more is not unpacked further.
const MAX_TILE_BYTES: u64 = 1 << 30;

/// Returns the bytes of a data tile as they were before compression, if they are compressed.
///
/// # Errors
/// Unless they are one gzip stream, whole, the one that the sum in its header is of if it has
/// one, and nothing else, or if they unpack to more than any data tile has.
pub fn gunzip(bytes: Bytes) -> std::io::Result<Bytes> {
    if !is_gzip(&bytes) {
        return Ok(bytes);
    }
    let mut plain = Vec::with_capacity(bytes.len() * 4);
    gunzip_into(&bytes, &mut plain)?;
    Ok(plain.into())
}

/// The same with `room` for what was compressed.
///
/// # Errors
/// As [`gunzip`].
pub(crate) fn gunzip_into<'r>(bytes: &'r [u8], room: &'r mut Vec<u8>) -> std::io::Result<&'r [u8]> {
    if !is_gzip(bytes) {
        return Ok(bytes);
    }
    room.clear();
    unpack(bytes, MAX_TILE_BYTES, room)?;
    check_sum(bytes)?;
    Ok(room)
}

fn unpack(packed: &[u8], most: u64, plain: &mut Vec<u8>) -> std::io::Result<()> {
    let mut unpacking = GzDecoder::new(packed).take(most + 1);
    unpacking.read_to_end(plain)?;
    if plain.len() as u64 > most {
        return Err(invalid(format!("unpacks to more than {most} bytes")));
    }
    nothing_after(unpacking.into_inner())
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
    use crate::gzip::gzip;

    #[test]
    fn gzip_round_trips_and_plain_bytes_pass() {
        let plain = Bytes::from(b"certificate ".repeat(1000));
        let packed = gzip(&plain).unwrap();
        assert!(is_gzip(&packed) && packed.len() < plain.len() / 10);
        assert_eq!(gunzip(packed).unwrap(), plain);
        assert_eq!(gunzip(plain.clone()).unwrap(), plain);
    }

    #[test]
    fn only_one_stream_is_unpacked() {
        let packed = gzip(b"certificate").unwrap();
        for extra in [&b"\0"[..], b"\x1f\x8b", &packed] {
            let twice = [&packed, extra].concat();
            let error = gunzip(twice.into()).unwrap_err().to_string();
            assert!(error.contains("after the end"), "{error}");
        }
    }

    #[test]
    fn what_unpacks_without_end_is_not_unpacked() {
        let bomb = gzip(&[0; 1 << 20]).unwrap();
        assert!(bomb.len() < 1 << 15);
        let mut plain = Vec::new();
        let refused = unpack(&bomb, (1 << 20) - 1, &mut plain);
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("more than 1048575 bytes"), "{error}");
        plain.clear();
        unpack(&bomb, 1 << 20, &mut plain).unwrap();
        assert_eq!(plain.len(), 1 << 20);
    }

    #[test]
    fn a_cut_stream_is_an_error() {
        let packed = gzip(&b"certificate ".repeat(1000)).unwrap();
        assert!(gunzip(packed.slice(..packed.len() - 1)).is_err());
    }
}

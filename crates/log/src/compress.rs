//! Data tiles as they were before compression, and zstd for readers who ask.

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use lucarne_ct::{TileLeafError, TileLeafRef};

use crate::gzip::check_sum;

/// First bytes of a gzip stream. A `TileLeaf` starts with a 64-bit timestamp,
/// which would have to lie 71 million years ahead to be mistaken for it.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Most bytes that a data tile may have: 256 entries, in each of which a
/// certificate of the longest body that can be configured (2 MiB) lies twice.
/// Whatever unpacks to more is not unpacked further.
const MAX_TILE_BYTES: u64 = 768 << 20;

/// Bytes that are unpacked before the entries in them are read.
const CHUNK: u64 = 256 << 10;

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
    let length = said_length(packed);
    if length > most {
        return Err(invalid(format!("unpacks to more than {most} bytes")));
    }
    // Exactly as much memory as the stream says that it needs.
    plain.reserve_exact(length as usize + 1);
    let mut unpacking = GzDecoder::new(packed).take(length + 1);
    unpacking.read_to_end(plain)?;
    if plain.len() as u64 > length {
        return Err(invalid(format!(
            "unpacks to more than the {length} bytes it says"
        )));
    }
    nothing_after(unpacking.into_inner())
}

/// The length that a gzip stream says it unpacks to: its last four bytes (RFC 1952, ISIZE).
fn said_length(packed: &[u8]) -> u64 {
    packed
        .last_chunk()
        .map_or(0, |length| u32::from_le_bytes(*length).into())
}

/// Unpacks a data tile of `count` entries as [`gunzip`] does, and keeps no more than its entries
/// as far as they can be read: whatever another place serves in its name costs little memory.
///
/// # Errors
/// As [`gunzip`].
pub(crate) fn gunzip_entries(bytes: Bytes, count: u16) -> std::io::Result<Bytes> {
    if !is_gzip(&bytes) {
        return Ok(bytes);
    }
    let mut unpacking = GzDecoder::new(&bytes[..]);
    let (mut plain, mut entries, mut read) = (Vec::new(), 0, 0);
    loop {
        let before = plain.len();
        (&mut unpacking).take(CHUNK).read_to_end(&mut plain)?;
        if plain.len() == before {
            nothing_after(unpacking)?;
            check_sum(&bytes)?;
            return Ok(plain.into());
        }
        while entries < count {
            let mut rest = &plain[read..];
            match TileLeafRef::read(&mut rest) {
                Ok(_) => (entries, read) = (entries + 1, plain.len() - rest.len()),
                Err(TileLeafError::Truncated(_)) => break,
                Err(_) => return without_rest(&bytes, unpacking, plain),
            }
        }
        if plain.len() as u64 > MAX_TILE_BYTES {
            return Err(invalid(format!(
                "unpacks to more than {MAX_TILE_BYTES} bytes"
            )));
        }
        if entries == count && plain.len() - read > CHUNK as usize {
            return without_rest(&bytes, unpacking, plain);
        }
    }
}

/// The bytes that were unpacked to where they are no entries, if the stream is whole: then it is
/// not damaged, but something else.
fn without_rest(
    bytes: &[u8],
    unpacking: GzDecoder<&[u8]>,
    plain: Vec<u8>,
) -> std::io::Result<Bytes> {
    let left = MAX_TILE_BYTES.saturating_sub(plain.len() as u64);
    let mut rest = unpacking.take(left + 1);
    if std::io::copy(&mut rest, &mut std::io::sink())? > left {
        return Err(invalid(format!(
            "unpacks to more than {MAX_TILE_BYTES} bytes"
        )));
    }
    nothing_after(rest.into_inner())?;
    check_sum(bytes)?;
    Ok(plain.into())
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
            // The end of the second one is taken for the length of the first.
            let is_right = error.contains("after the end") || error.contains("unpacks to more");
            assert!(is_right, "{error}");
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
        // One that says less than it unpacks to.
        let mut liar = bomb.to_vec();
        let length = liar.len() - 4;
        liar[length..].copy_from_slice(&1000_u32.to_le_bytes());
        plain.clear();
        let error = unpack(&liar, 1 << 20, &mut plain).unwrap_err().to_string();
        assert!(
            error.contains("more than the 1000 bytes it says"),
            "{error}"
        );
        assert!(plain.capacity() < 1 << 16);
        plain.clear();
        unpack(&bomb, 1 << 20, &mut plain).unwrap();
        assert_eq!(plain.len(), 1 << 20);
    }

    /// A tile of another place is unpacked as far as its entries can be read.
    #[test]
    fn a_bomb_in_the_place_of_entries_costs_little() {
        let bomb = gzip(&vec![0; 64 << 20]).unwrap();
        assert!(bomb.len() < 1 << 20);
        let plain = gunzip_entries(bomb.clone(), 256).unwrap();
        assert!(plain.len() as u64 <= CHUNK, "{}", plain.len());
        // What is damaged is no bomb.
        let mut damaged = bomb.to_vec();
        let sum = damaged.len() - 7;
        damaged[sum] ^= 1;
        assert!(gunzip_entries(damaged.into(), 256).is_err());
    }

    #[test]
    fn a_cut_stream_is_an_error() {
        let packed = gzip(&b"certificate ".repeat(1000)).unwrap();
        assert!(gunzip(packed.slice(..packed.len() - 1)).is_err());
    }
}

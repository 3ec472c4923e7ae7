//! Decompression of data tiles.

use std::io::Read;

use bytes::Bytes;
use flate2::Crc;
use flate2::bufread::GzDecoder;
use lucarne_ct::{TileEntries, TileLeafError};
use lucarne_x509::text::counted;

/// First bytes of a gzip stream. An uncompressed tile starts with a 64-bit timestamp in
/// milliseconds. A timestamp with these first bytes would be 72 million years in the future.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The header of the streams that Lucarne writes (RFC 1952, 2.3): deflate, no name, no time,
/// fastest level, unknown system. Its extra field of eight bytes has a CRC-32 of the rest of the
/// stream with the ID `Lu`.
#[rustfmt::skip]
pub const GZIP_HEADER: [u8; 16] = [
    0x1f, 0x8b, 8, EXTRA, 0, 0, 0, 0, 4, 255,
    8, 0, b'L', b'u', 4, 0,
];

/// The flag of an extra field, and the offset of the flags.
const EXTRA: u8 = 4;
const FLAGS: usize = 3;

/// Maximum length of a data tile in bytes: 256 entries, each with two copies of a certificate of
/// the largest configurable request body (2 MiB). Decompression stops beyond this length.
const MAX_TILE_BYTES: u64 = 768 << 20;

/// Bytes to decompress before the next attempt to read entries.
const CHUNK: u64 = 256 << 10;

/// Decompresses the bytes of a data tile; returns uncompressed bytes unchanged.
///
/// # Errors
/// If the bytes are not exactly one complete gzip stream, if they do not match the checksum that
/// the header may have, or if they decompress to more bytes than any data tile has.
///
/// # Examples
///
/// ```
/// use lucarne_ctread::gunzip;
///
/// // Plain tiles of other software are returned as they are.
/// let plain = gunzip(vec![0, 0, 1].into())?;
/// assert_eq!(plain, [0, 0, 1][..]);
/// assert!(gunzip(vec![0x1f, 0x8b, 8].into()).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn gunzip(bytes: Bytes) -> std::io::Result<Bytes> {
    if !is_gzip(&bytes) {
        return Ok(bytes);
    }
    let mut plain = Vec::with_capacity(bytes.len() * 4);
    gunzip_into(&bytes, &mut plain)?;
    Ok(plain.into())
}

/// Decompresses like [`gunzip`], into the buffer `room`.
///
/// # Errors
/// See [`gunzip`].
pub fn gunzip_into<'r>(bytes: &'r [u8], room: &'r mut Vec<u8>) -> std::io::Result<&'r [u8]> {
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
        return Err(invalid(format!("decompresses to more than {most} bytes")));
    }
    // Allocates the length that the stream declares, and one byte more to detect a longer stream.
    plain.reserve_exact(length as usize + 1);
    let mut unpacking = GzDecoder::new(packed).take(length + 1);
    unpacking.read_to_end(plain)?;
    if plain.len() as u64 > length {
        return Err(invalid(format!(
            "decompresses to more than the expected {length} bytes"
        )));
    }
    nothing_after(unpacking.into_inner())
}

/// Returns the decompressed length that a gzip stream declares in its last four bytes (RFC 1952,
/// ISIZE).
fn said_length(packed: &[u8]) -> u64 {
    packed
        .last_chunk()
        .map_or(0, |length| u32::from_le_bytes(*length).into())
}

/// Decompresses a data tile of `count` entries like [`gunzip`], but keeps only the readable entries
/// and a short rest in memory. A large file that is not a data tile therefore needs little memory.
///
/// # Errors
/// See [`gunzip`].
pub fn gunzip_entries(bytes: Bytes, count: u16) -> std::io::Result<Bytes> {
    if !is_gzip(&bytes) {
        return Ok(bytes);
    }
    let mut unpacking = GzDecoder::new(&bytes[..]);
    let (mut plain, mut entries, mut read) = (Vec::new(), 0, 0);
    let count = u64::from(count);
    loop {
        let before = plain.len();
        (&mut unpacking).take(CHUNK).read_to_end(&mut plain)?;
        if plain.len() == before {
            nothing_after(unpacking)?;
            check_sum(&bytes)?;
            return Ok(plain.into());
        }
        let mut new = TileEntries::first(&plain[read..], entries, count - entries);
        for entry in new.by_ref() {
            match entry {
                Ok(_) => entries += 1,
                Err(TileLeafError::Truncated(_)) => {}
                Err(_) => return without_rest(&bytes, unpacking, plain),
            }
        }
        read += new.read();
        if plain.len() as u64 > MAX_TILE_BYTES {
            return Err(invalid(format!(
                "decompresses to more than {MAX_TILE_BYTES} bytes"
            )));
        }
        if entries == count && plain.len() - read > CHUNK as usize {
            return without_rest(&bytes, unpacking, plain);
        }
    }
}

/// Returns the bytes that were decompressed up to the first invalid entry, if the stream is
/// complete. The stream is then not damaged, but is not a data tile.
fn without_rest(
    bytes: &[u8],
    unpacking: GzDecoder<&[u8]>,
    plain: Vec<u8>,
) -> std::io::Result<Bytes> {
    let left = MAX_TILE_BYTES.saturating_sub(plain.len() as u64);
    let mut rest = unpacking.take(left + 1);
    if std::io::copy(&mut rest, &mut std::io::sink())? > left {
        return Err(invalid(format!(
            "decompresses to more than {MAX_TILE_BYTES} bytes"
        )));
    }
    nothing_after(rest.into_inner())?;
    check_sum(bytes)?;
    Ok(plain.into())
}

/// Rejects bytes after the end of a gzip stream, including a second stream.
fn nothing_after(unpacked: GzDecoder<&[u8]>) -> std::io::Result<()> {
    match unpacked.into_inner().len() {
        0 => Ok(()),
        extra => Err(invalid(format!(
            "{} after the end of the gzip stream",
            counted(extra, "extra byte")
        ))),
    }
}

fn invalid(problem: impl Into<String>) -> std::io::Error {
    let problem: String = problem.into();
    std::io::Error::new(std::io::ErrorKind::InvalidData, problem)
}

/// Returns whether the bytes of a stored tile are compressed.
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&GZIP_MAGIC)
}

/// Verifies the checksum in the header of a stream. Streams of other software have no checksum and
/// no extra field, and pass.
///
/// # Errors
/// If the checksum does not match.
fn check_sum(stream: &[u8]) -> std::io::Result<()> {
    if stream.get(FLAGS).is_none_or(|flags| flags & EXTRA == 0) {
        return Ok(());
    }
    let ours = stream.strip_prefix(&GZIP_HEADER);
    let (sum, packed) = ours
        .and_then(<[u8]>::split_first_chunk)
        .ok_or_else(|| invalid("unknown header: expected the header of the log's own tiles"))?;
    let mut crc = Crc::new();
    crc.update(packed);
    if crc.sum() == u32::from_le_bytes(*sum) {
        Ok(())
    } else {
        Err(invalid("the bytes do not match the checksum in the header"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(plain: &[u8]) -> std::io::Result<Bytes> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(plain)?;
        Ok(gzip.finish()?.into())
    }

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
            // The last bytes of the second stream are read as the length of the first.
            let is_right =
                error.contains("after the end") || error.contains("decompresses to more");
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
        // The stream declares a smaller length than it decompresses to.
        let mut liar = bomb.to_vec();
        let length = liar.len() - 4;
        liar[length..].copy_from_slice(&1000_u32.to_le_bytes());
        plain.clear();
        let error = unpack(&liar, 1 << 20, &mut plain).unwrap_err().to_string();
        assert!(
            error.contains("more than the expected 1000 bytes"),
            "{error}"
        );
        assert!(plain.capacity() < 1 << 16);
        plain.clear();
        unpack(&bomb, 1 << 20, &mut plain).unwrap();
        assert_eq!(plain.len(), 1 << 20);
    }

    /// The function keeps at most [`CHUNK`] bytes of a stream without readable entries.
    #[test]
    fn a_bomb_in_the_place_of_entries_costs_little() {
        let bomb = gzip(&vec![0; 64 << 20]).unwrap();
        assert!(bomb.len() < 1 << 20);
        let plain = gunzip_entries(bomb.clone(), 256).unwrap();
        assert!(plain.len() as u64 <= CHUNK, "{}", plain.len());
        // A damaged stream is an error.
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

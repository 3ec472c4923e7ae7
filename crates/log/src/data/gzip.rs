//! The gzip stream of a growing data tile.
//!
//! Each round publishes the whole partial tile with a few new entries. Compressing the whole tile
//! each time would cost a log with small rounds more than all its signatures. A deflate stream (RFC
//! 1951) is a sequence of blocks. A tile is therefore compressed in chunks of a fixed size, and
//! chunks that were complete in the last round are reused.
//!
//! The stream depends only on the entries, not on the rounds that added them. A replay, a second
//! instance and a repair produce the same bytes, so clients need not fetch the file again.
//!
//! Deflate has bits without meaning: the padding of a block's last byte. A change in these bits is
//! not visible in the decompressed tile, but changes the file. The header therefore has a checksum
//! of the rest of the stream, in an extra field that other software skips.
//!
//! Chunks that are kept between rounds may be corrupted in memory, so their checksum is verified
//! before each reuse. New chunks are decompressed and compared.

use std::io;

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress};
use lucarne_ctread::GZIP_HEADER;

/// Size of a chunk in bytes. A round recompresses half a chunk on average. Smaller chunks compress
/// worse, because each starts a new block.
const CHUNK: usize = 32 << 10;

/// Maximum distance of references from a chunk to earlier chunks, in bytes. The maximum of deflate,
/// 32 KiB, would save another 1% of the size at a fifth of the speed.
const WINDOW: usize = 16 << 10;

/// The last block: empty, with fixed codes. Blocks before it end at a byte boundary.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Compresses a data tile.
///
/// # Errors
/// If the compressed bytes do not decompress to `plain`.
pub(crate) fn gzip(plain: &[u8]) -> io::Result<Bytes> {
    GrowingGzip::default().grow(0, plain)
}

/// The compressed part of the newest data tile.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrowingGzip {
    /// The index of the tile.
    tile: u64,
    /// The blocks of all complete chunks.
    packed: Bytes,
    /// CRC-32 of `packed`.
    packed_sum: u32,
    /// Length of the tile at the last round, in bytes.
    length: usize,
    /// CRC-32 of the first `length` bytes of the tile.
    sum: u32,
}

impl GrowingGzip {
    /// Compresses the data tile with this index and all its entries `plain`. The result equals the
    /// result of [`gzip`].
    ///
    /// # Errors
    /// If the state of the last round has changed in memory, or the compressed bytes do not
    /// decompress to `plain`.
    pub(crate) fn grow(&mut self, tile: u64, plain: &[u8]) -> io::Result<Bytes> {
        if self.tile != tile {
            *self = Self {
                tile,
                ..Self::default()
            };
        }
        let changed = || invalid("the input of the compression has changed in memory");
        let (old, new) = plain.split_at_checked(self.length).ok_or_else(changed)?;
        let (mut sum, mut packed_sum) = (crc(old), crc(&self.packed));
        if (sum.sum(), packed_sum.sum()) != (self.sum, self.packed_sum) {
            return Err(changed());
        }
        sum.update(new);

        let mut stream = Vec::with_capacity(self.packed.len() + new.len() / 2 + CHUNK);
        stream.extend_from_slice(&GZIP_HEADER);
        stream.extend_from_slice(&[0; 4]);
        let blocks = stream.len();
        stream.extend_from_slice(&self.packed);
        let new_blocks = stream.len();
        let whole = plain.len() / CHUNK * CHUNK;
        for start in (self.length / CHUNK * CHUNK..whole).step_by(CHUNK) {
            stream.extend(chunk(&plain[..start + CHUNK], start)?);
        }
        let kept = stream.len();
        packed_sum.update(&stream[new_blocks..kept]);
        let kept_sum = packed_sum.sum();
        stream.extend(chunk(plain, whole)?);
        stream.extend_from_slice(&LAST_BLOCK);
        stream.extend_from_slice(&sum.sum().to_le_bytes());
        stream.extend_from_slice(&(plain.len() as u32).to_le_bytes());
        packed_sum.update(&stream[kept..]);
        stream[GZIP_HEADER.len()..blocks].copy_from_slice(&packed_sum.sum().to_le_bytes());

        let stream = Bytes::from(stream);
        *self = Self {
            tile,
            packed: stream.slice(blocks..kept),
            packed_sum: kept_sum,
            length: plain.len(),
            sum: sum.sum(),
        };
        Ok(stream)
    }
}

fn crc(bytes: &[u8]) -> Crc {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc
}

/// Compresses the bytes from `start` on to blocks, and verifies that the blocks decompress to the
/// same bytes.
fn chunk(plain: &[u8], start: usize) -> io::Result<Vec<u8>> {
    let (before, plain) = plain.split_at(start);
    if plain.is_empty() {
        return Ok(Vec::new());
    }
    let window = &before[before.len().saturating_sub(WINDOW)..];
    let blocks = deflate_behind(window, plain)?;
    if inflates_to(window, &blocks, plain)? {
        Ok(blocks)
    } else {
        Err(invalid(
            "the compressed bytes do not decompress to the original bytes",
        ))
    }
}

/// Compresses to blocks that follow the bytes `window`, at the fastest level. The next level takes
/// 50 % longer and saves 5 % of the size.
///
/// Each call uses a new compressor: after a reset, a compressor still has old bytes beyond the end
/// of its window, and finds other matches because of these bytes.
fn deflate_behind(window: &[u8], plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut deflate = Compress::new(Compression::fast(), false);
    if !window.is_empty() {
        deflate.set_dictionary(window)?;
    }
    let mut blocks = Vec::with_capacity(plain.len() / 2 + 1024);
    loop {
        let rest = &plain[deflate.total_in() as usize..];
        deflate.compress_vec(rest, &mut blocks, FlushCompress::Sync)?;
        // A flush that fills the buffer may have more output.
        if blocks.len() < blocks.capacity() && deflate.total_in() as usize == plain.len() {
            return Ok(blocks);
        }
        blocks.reserve(plain.len() / 4 + 1024);
    }
}

/// Returns whether these blocks decompress to `plain` after the bytes `window`.
fn inflates_to(window: &[u8], blocks: &[u8], plain: &[u8]) -> io::Result<bool> {
    let mut inflate = Decompress::new(false);
    if !window.is_empty() {
        inflate.set_dictionary(window)?;
    }
    // The buffer has room for one extra byte, so that output that is too long is detected.
    let mut unpacked = Vec::with_capacity(plain.len() + 1);
    inflate.decompress_vec(blocks, &mut unpacked, FlushDecompress::Sync)?;
    Ok(inflate.total_in() as usize == blocks.len() && unpacked == plain)
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucarne_ctread::gunzip;
    use proptest::prelude::*;

    /// Returns entries as similar as certificates, with random parts like keys and signatures.
    fn entries(count: usize) -> Vec<u8> {
        let entry = |_| {
            [
                &b"certificate of an authority ".repeat(20)[..],
                &rand::random::<[u8; 32]>().repeat(8),
            ]
            .concat()
        };
        (0..count).flat_map(entry).collect()
    }

    proptest! {
        // A case compresses up to eleven tiles of up to 33 chunks.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn depends_on_the_entries_and_not_on_the_rounds(
            rounds in prop::collection::vec(0..3 * CHUNK, 1..12), noise: bool,
        ) {
            let whole: usize = rounds.iter().sum();
            let tile = if noise {
                (0..whole).map(|_| rand::random()).collect()
            } else {
                entries(whole / 800 + 1)
            };
            let (mut growing, mut length) = (GrowingGzip::default(), 0);
            for round in rounds {
                length += round;
                let plain = &tile[..length];
                let stream = growing.grow(7, plain).unwrap();
                prop_assert_eq!(&stream, &gzip(plain).unwrap());
                prop_assert_eq!(&gunzip(stream).unwrap()[..], plain);
            }
        }
    }

    /// Flips all bits, including the bits that do not affect the entries.
    #[test]
    fn any_flipped_bit_is_noticed() {
        let tile = entries(3 * CHUNK / 1000);
        let stream = gzip(&tile).unwrap();
        let (header, bits) = (8 * (GZIP_HEADER.len() + 4), 8 * stream.len());
        for bit in (0..header).chain((header..bits).step_by(31)) {
            let mut flipped = stream.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let unpacked = gunzip(flipped.clone().into());
            // A flip in the magic bytes makes the file an uncompressed tile, which is invalid.
            let is_plain = unpacked.as_ref().is_ok_and(|plain| *plain == flipped);
            assert!(unpacked.is_err() || is_plain && bit < 16, "{bit}");
        }
    }

    /// A compressor hashes the last three bytes of its dictionary together with the next byte. This
    /// byte is not set yet, so the compressor uses an old byte.
    #[test]
    fn what_was_compressed_before_hides_no_matches() {
        let mut tile: Vec<u8> = (0..2 * CHUNK).map(|_| rand::random()).collect();
        tile[CHUNK] = !tile[WINDOW];
        let before = CHUNK - WINDOW / 2;
        tile.copy_within(CHUNK - 3..CHUNK, before);
        tile[before + 3] = tile[WINDOW];
        tile.copy_within(before..before + 12, CHUNK + WINDOW / 2);
        let mut growing = GrowingGzip::default();
        growing.grow(0, &tile[..CHUNK]).unwrap();
        assert_eq!(growing.grow(0, &tile).unwrap(), gzip(&tile).unwrap());
    }

    #[test]
    fn a_seam_is_no_round() {
        let tile = entries(3 * CHUNK / 800);
        for round in [CHUNK, CHUNK - 1, CHUNK + 1, CHUNK / 2, WINDOW] {
            let mut growing = GrowingGzip::default();
            for end in (round..=tile.len()).step_by(round) {
                let stream = growing.grow(0, &tile[..end]).unwrap();
                assert_eq!(stream, gzip(&tile[..end]).unwrap());
            }
        }
    }

    #[test]
    fn chunks_cost_little_space() {
        use std::io::Write;
        let tile = entries(256);
        let mut at_once = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
        at_once.write_all(&tile).unwrap();
        let (chunks, at_once) = (gzip(&tile).unwrap().len(), at_once.finish().unwrap().len());
        assert!(chunks < at_once * 103 / 100, "{chunks} {at_once}");
    }

    #[test]
    fn another_tile_begins_anew() {
        let mut growing = GrowingGzip::default();
        growing.grow(0, b"first").unwrap();
        assert_eq!(
            growing.grow(1, b"second").unwrap(),
            GrowingGzip::default().grow(1, b"second").unwrap()
        );
    }

    #[test]
    fn what_changed_in_memory_is_noticed() {
        let tile = entries(200);
        let (old, bits) = (CHUNK + CHUNK / 2, 0..8u32);
        for (place, bit) in [0, 1, CHUNK - 1, CHUNK, old - 1]
            .into_iter()
            .zip(bits.cycle())
        {
            let mut growing = GrowingGzip::default();
            growing.grow(0, &tile[..old]).unwrap();
            let mut flipped = tile.clone();
            flipped[place] ^= 1 << bit;
            let error = growing.clone().grow(0, &flipped).unwrap_err().to_string();
            assert!(error.contains("has changed in memory"), "{error}");
            let mut packed = growing.packed.to_vec();
            let place = place % packed.len();
            packed[place] ^= 1 << bit;
            growing.packed = packed.into();
            let error = growing.grow(0, &tile).unwrap_err().to_string();
            assert!(error.contains("has changed in memory"), "{error}");
        }
        // A tile cannot become shorter either.
        let mut growing = GrowingGzip::default();
        growing.grow(0, &tile).unwrap();
        assert!(growing.grow(0, &tile[..old]).is_err());
    }

    #[test]
    fn what_does_not_unpack_to_the_entries_is_noticed() {
        let tile = entries(4);
        let (old, new) = tile.split_at(tile.len() / 2);
        let blocks = deflate_behind(old, new).unwrap();
        assert!(inflates_to(old, &blocks, new).unwrap());
        assert!(!inflates_to(old, &blocks, &new[1..]).unwrap());
        assert!(!inflates_to(old, &blocks, &tile).unwrap());
        let cut = inflates_to(old, &blocks[..blocks.len() / 2], new);
        assert!(!cut.is_ok_and(|same| same));
        let more = [&blocks[..], &deflate_behind(new, b"more").unwrap()].concat();
        assert!(!inflates_to(old, &more, new).is_ok_and(|same| same));
    }
}

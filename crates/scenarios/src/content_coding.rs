//! Decoding of content codings (RFC 9110, section 8.4.1).

use std::io::{self, Read};

/// Requests memory for so many more bytes. The error [`FileTooLarge`](io::ErrorKind::FileTooLarge)
/// refuses the memory.
pub(crate) type Grow<'a> = dyn FnMut(usize) -> io::Result<()> + 'a;

/// Returns a limit of `most` bytes.
pub(crate) fn at_most(most: u64) -> impl FnMut(usize) -> io::Result<()> {
    let mut left = most;
    move |more| {
        left = left
            .checked_sub(more as u64)
            .ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(())
    }
}

/// Decodes a body, as far as `grow` permits. Returns `None` if the coding is unknown.
pub(crate) fn decode(
    coding: &str,
    body: &[u8],
    grow: &mut Grow<'_>,
) -> Option<io::Result<Vec<u8>>> {
    let mut plain = Vec::with_capacity(body.len().saturating_mul(4).min(1 << 20));
    let read = match coding.to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => all(flate2::read::MultiGzDecoder::new(body), grow, &mut plain),
        // zlib, as specified, or raw deflate, which some servers send.
        "deflate" => match all(flate2::read::ZlibDecoder::new(body), grow, &mut plain) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(error),
            Err(_) => {
                plain.clear();
                all(flate2::read::DeflateDecoder::new(body), grow, &mut plain)
            }
        },
        "zstd" => zstd::stream::read::Decoder::new(body)
            .and_then(|decoder| all(decoder, grow, &mut plain)),
        _ => return None,
    };
    Some(read.map(|()| {
        plain.shrink_to_fit();
        plain
    }))
}

fn all(mut decoder: impl Read, grow: &mut Grow<'_>, plain: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 16 << 10];
    loop {
        let read = decoder.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        grow(read)?;
        plain.extend_from_slice(&piece[..read]);
    }
}

/// Describes the error of decoding a body.
pub(crate) fn problem(coding: &str, error: &io::Error, most: u64) -> String {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            format!(
                "the body is larger than {} MiB when it is decoded ({coding})",
                most >> 20
            )
        }
        _ => format!("the body is not {coding}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    #[test]
    fn every_coding_and_no_more_than_allowed() {
        let plain = b"{\"data\": []}".repeat(50);
        let fast = Compression::fast();
        let mut gzip = GzEncoder::new(Vec::new(), fast);
        let mut zlib = ZlibEncoder::new(Vec::new(), fast);
        let mut raw = DeflateEncoder::new(Vec::new(), fast);
        gzip.write_all(&plain).unwrap();
        zlib.write_all(&plain).unwrap();
        raw.write_all(&plain).unwrap();
        let zstd = zstd::encode_all(&plain[..], 1).unwrap();
        for (coding, body) in [
            ("gzip", gzip.finish().unwrap()),
            ("deflate", zlib.finish().unwrap()),
            ("Deflate", raw.finish().unwrap()),
            ("zstd", zstd),
        ] {
            let decoded = |most| decode(coding, &body, &mut at_most(most)).unwrap();
            assert_eq!(decoded(600).unwrap(), plain, "{coding}");
            let too_large = decoded(599).unwrap_err().kind();
            assert_eq!(too_large, io::ErrorKind::FileTooLarge, "{coding}");
            assert!(
                decode(coding, b"no such thing", &mut at_most(600))
                    .unwrap()
                    .is_err()
            );
        }
        assert!(decode("br", &plain, &mut at_most(600)).is_none());
    }
}

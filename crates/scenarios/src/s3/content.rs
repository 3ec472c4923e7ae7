/// Content of the objects of a run: a distinct header, then random bytes that all objects share. So
/// sending needs no copy, and a store cannot compress the content.
#[derive(Debug)]
pub(super) struct Content {
    noise: Vec<u8>,
}

/// Header of one object.
pub(super) type Header = [u8; 32];

/// The reasons why a store does not return the written object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ContentError {
    #[error("expected {expected} bytes, found {found}")]
    Length { expected: u64, found: u64 },
    /// Index of the first wrong byte.
    #[error("the content differs from byte {0} on")]
    Differs(u64),
    /// The `Content-Length` in a response to HEAD is wrong or missing.
    #[error("expected Content-Length {expected}, found {}", .found.as_deref().unwrap_or("none"))]
    ContentLength {
        expected: u64,
        found: Option<String>,
    },
}

impl Content {
    /// Creates content for objects of up to `size` bytes.
    pub(super) fn new(seed: u64, size: u64) -> Self {
        let words = size.div_ceil(8);
        let noise = (0..words).flat_map(|word| mix(seed.wrapping_add(word)).to_le_bytes());
        Self {
            noise: noise.collect(),
        }
    }

    /// Returns the two parts of the object with this header.
    pub(super) fn parts<'a>(&'a self, header: &'a Header, size: u64) -> [&'a [u8]; 2] {
        let size = (size as usize).min(self.noise.len());
        let cut = header.len().min(size);
        [&header[..cut], &self.noise[cut..size]]
    }

    /// Begins the comparison of a body with the object with this header.
    pub(super) fn comparison<'a>(&'a self, header: &'a Header, size: u64) -> Comparison<'a> {
        Comparison {
            rest: self.parts(header, size),
            expected: size,
            found: 0,
            differs: None,
        }
    }
}

/// Comparison of a body with an object, piece by piece.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    /// Parts of the object that are not compared yet.
    rest: [&'a [u8]; 2],
    expected: u64,
    /// Bytes of the body so far.
    found: u64,
    /// Index of the first wrong byte.
    differs: Option<u64>,
}

impl Comparison<'_> {
    /// Compares the next piece of the body.
    pub(super) fn read(&mut self, mut piece: &[u8]) {
        for rest in &mut self.rest {
            let length = rest.len().min(piece.len());
            let ((now, later), (expected, after)) = (piece.split_at(length), rest.split_at(length));
            if self.differs.is_none() && now != expected {
                let at = now.iter().zip(expected).position(|(a, b)| a != b);
                self.differs = at.map(|at| self.found + at as u64);
            }
            self.found += length as u64;
            (piece, *rest) = (later, after);
        }
        self.found += piece.len() as u64;
    }

    /// Returns the result after the last piece.
    pub(super) fn result(&self) -> Result<(), ContentError> {
        let (expected, found) = (self.expected, self.found);
        match self.differs {
            _ if found != expected => Err(ContentError::Length { expected, found }),
            Some(at) => Err(ContentError::Differs(at)),
            None => Ok(()),
        }
    }
}

/// Returns the header for an object's purpose, number and writer.
pub(super) fn header(seed: u64, purpose: &str, number: u64, writer: u64) -> Header {
    let purpose = purpose
        .bytes()
        .fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
    let mut header = [0; 32];
    let words = [seed, purpose, number, writer];
    for (bytes, word) in header.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&mix(word).to_le_bytes());
    }
    // Small objects contain only the beginning of the header.
    let all = mix(words.into_iter().fold(0, |hash, word| mix(hash ^ word)));
    header[..8].copy_from_slice(&all.to_le_bytes());
    header
}

/// Mixes the bits of a number (the step of SplitMix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_recognised_and_nothing_else() {
        let content = Content::new(1, 1000);
        let (one, other) = (header(1, "get", 1, 0), header(1, "get", 2, 0));
        let compare = |body: &[u8], header: &Header, size: u64| {
            let results = [1, 7, 5000].map(|length| {
                let mut comparison = content.comparison(header, size);
                body.chunks(length).for_each(|piece| comparison.read(piece));
                comparison.result()
            });
            assert!(
                results.iter().all(|result| *result == results[0]),
                "{results:?}"
            );
            results.into_iter().next().unwrap()
        };
        for size in [0, 1, 8, 31, 32, 33, 1000] {
            let mut body = content.parts(&one, size).concat();
            assert_eq!(body.len() as u64, size);
            assert_eq!(compare(&body, &one, size), Ok(()));
            assert_eq!(compare(&body, &other, size).is_ok(), size == 0);
            if let Some(last) = body.last_mut() {
                *last ^= 1;
                let differs = ContentError::Differs(size - 1);
                assert_eq!(compare(&body, &one, size), Err(differs));
                body.pop();
                let (expected, found) = (size, body.len() as u64);
                let short = ContentError::Length { expected, found };
                assert_eq!(compare(&body, &one, size), Err(short));
            }
        }
    }
}

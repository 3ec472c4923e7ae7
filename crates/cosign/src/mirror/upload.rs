//! The body of `add-entries`, read in pieces (C2SP tlog-mirror, main of 2026-07-22).

use std::ops::Range;

use lucarne_tlog::Hash;
pub use lucarne_tlog::upload::{MirrorInfo, package_leaves};

/// Maximum number of hashes in the proof of a package.
const MAX_PROOF: u8 = 63;

/// The beginning of a request: the entries that it uploads, and the ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadHead {
    /// Origin of the log.
    pub origin: String,
    /// Index of the first entry.
    pub start: u64,
    /// Size of the checkpoint that the packages are proven with, and the end of the entries.
    pub end: u64,
    /// Ticket from an earlier response; empty if the client has none.
    pub ticket: Vec<u8>,
}

/// Entries of one entry bundle, with the proof that they are in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Indices of the entries.
    pub leaves: Range<u64>,
    /// The entries as in an entry bundle: each has a length prefix of two bytes.
    pub entries: Vec<u8>,
    /// End of each entry in `entries`.
    pub ends: Vec<usize>,
    /// Consistency proof from the subtree that ends with these entries.
    pub proof: Vec<Hash>,
}

/// The reasons why a body is not a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedUpload {
    /// The origin is not UTF-8.
    #[error("the origin is not UTF-8")]
    Origin,
    /// The interval of entries is invalid.
    #[error("the entries start at {start} and end at {end}: the start must not be after the end")]
    Range {
        /// `upload_start`.
        start: u64,
        /// `upload_end`.
        end: u64,
    },
    /// The proof of a package is too long.
    #[error("the proof of a package has {0} hashes; the maximum is {MAX_PROOF}")]
    Proof(u8),
}

/// Splits a body, which arrives in pieces of any size, into its head and its packages. Only one
/// package is buffered: at most 256 entries of 65,535 bytes each, if the caller reads each package
/// before it [adds](Self::push) the next piece.
#[derive(Debug, Default)]
pub struct UploadReader {
    buffer: Vec<u8>,
    /// Ends of the entries of the next package that are complete.
    ends: Vec<usize>,
}

impl UploadReader {
    /// Adds a piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// Returns the number of bytes that wait for the rest of their package.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the head, once; `None` if it is not complete.
    ///
    /// # Errors
    /// See [`MalformedUpload`].
    pub fn head(&mut self) -> Result<Option<UploadHead>, MalformedUpload> {
        let mut rest = &self.buffer[..];
        let mut parse = || {
            let origin = take_prefixed(&mut rest)?;
            let (start, end) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
            Some((origin, start, end, take_prefixed(&mut rest)?))
        };
        let Some((origin, start, end, ticket)) = parse() else {
            return Ok(None);
        };
        let origin = std::str::from_utf8(origin).map_err(|_| MalformedUpload::Origin)?;
        if start > end {
            return Err(MalformedUpload::Range { start, end });
        }
        let head = UploadHead {
            origin: origin.to_owned(),
            start,
            end,
            ticket: ticket.to_vec(),
        };
        let length = self.buffer.len() - rest.len();
        self.buffer.drain(..length);
        Ok(Some(head))
    }

    /// Returns the package with these leaves; `None` if it is not complete. Entries that were found
    /// before are not searched again.
    ///
    /// # Errors
    /// See [`MalformedUpload`].
    pub fn package(&mut self, leaves: &Range<u64>) -> Result<Option<Package>, MalformedUpload> {
        let count = (leaves.end - leaves.start) as usize;
        let mut rest = &self.buffer[self.ends.last().copied().unwrap_or(0)..];
        while self.ends.len() < count {
            if take_prefixed(&mut rest).is_none() {
                return Ok(None);
            }
            self.ends.push(self.buffer.len() - rest.len());
        }
        let Some((&hashes, rest)) = rest.split_first() else {
            return Ok(None);
        };
        if hashes > MAX_PROOF {
            return Err(MalformedUpload::Proof(hashes));
        }
        let Some((proof, rest)) = rest.split_at_checked(usize::from(hashes) * Hash::LENGTH) else {
            return Ok(None);
        };
        let (proof, _) = proof.as_chunks::<{ Hash::LENGTH }>();
        let proof = proof.iter().copied().map(Hash).collect();
        let rest = rest.to_vec();
        let mut entries = std::mem::replace(&mut self.buffer, rest);
        let ends = std::mem::take(&mut self.ends);
        entries.truncate(ends.last().copied().unwrap_or(0));
        Ok(Some(Package {
            leaves: leaves.clone(),
            entries,
            ends,
            proof,
        }))
    }
}

fn take<'b>(rest: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    let bytes = take(rest, 8)?.try_into().ok()?;
    Some(u64::from_be_bytes(bytes))
}

/// Takes a string of bytes after its length, an integer of two bytes.
fn take_prefixed<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let mut left = *rest;
    let length = take(&mut left, 2)?.try_into().ok()?;
    let taken = take(&mut left, u16::from_be_bytes(length).into())?;
    *rest = left;
    Some(taken)
}

/// Returns the ends of the first `count` entries of a bundle; `None` if there are fewer.
#[must_use]
pub fn entry_ends(bundle: &[u8], count: usize) -> Option<Vec<usize>> {
    let mut rest = bundle;
    let mut end = || {
        take_prefixed(&mut rest)?;
        Some(bundle.len() - rest.len())
    };
    (0..count).map(|_| end()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(origin: &[u8], start: u64, end: u64, ticket: &[u8]) -> Vec<u8> {
        let length = |bytes: &[u8]| (bytes.len() as u16).to_be_bytes();
        let (start, end) = (start.to_be_bytes(), end.to_be_bytes());
        [
            &length(origin)[..],
            origin,
            &start,
            &end,
            &length(ticket),
            ticket,
        ]
        .concat()
    }

    fn read(body: &[u8]) -> Result<Option<UploadHead>, MalformedUpload> {
        let mut reader = UploadReader::default();
        reader.push(body);
        reader.head()
    }

    #[test]
    fn heads() {
        let whole = head(b"log.example", 7, 300, b"t");
        let parsed = read(&whole).unwrap().unwrap();
        assert_eq!((parsed.start, parsed.end), (7, 300));
        assert_eq!(
            (&*parsed.origin, &*parsed.ticket),
            ("log.example", &b"t"[..])
        );
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Ok(None), "{length}");
        }
        for (body, error) in [
            (head(b"\xff", 0, 0, b""), MalformedUpload::Origin),
            (
                head(b"o", 2, 1, b""),
                MalformedUpload::Range { start: 2, end: 1 },
            ),
        ] {
            assert_eq!(read(&body), Err(error));
        }
    }

    #[test]
    fn packages_arrive_in_pieces_of_any_size() {
        let mut body = Vec::new();
        for (entry, hashes) in [(&b"first"[..], 0), (&[b'x'; 65_535], 63)] {
            body.extend_from_slice(&(entry.len() as u16).to_be_bytes());
            body.extend_from_slice(entry);
            body.extend_from_slice(b"\0\0");
            body.push(hashes);
            body.resize(body.len() + usize::from(hashes) * Hash::LENGTH, 7);
        }
        for size in [1, 3, 1000, body.len()] {
            let mut reader = UploadReader::default();
            let mut packages = Vec::new();
            for piece in body.chunks(size) {
                reader.push(piece);
                let next = |n| 2 * n as u64..2 * n as u64 + 2;
                while let Some(package) = reader.package(&next(packages.len())).unwrap() {
                    packages.push(package);
                }
            }
            assert_eq!((packages.len(), reader.buffered()), (2, 0));
            let [first, second] = &packages[..] else {
                panic!("two packages");
            };
            assert_eq!(first.entries, b"\0\x05first\0\0");
            assert_eq!((&*first.ends, first.proof.len()), (&[7, 9][..], 0));
            assert_eq!(
                (&*second.ends, second.proof.len()),
                (&[65_537, 65_539][..], 63)
            );
        }
    }

    #[test]
    fn proofs_have_at_most_63_hashes() {
        let mut reader = UploadReader::default();
        reader.push(&[0, 0, 64]);
        assert_eq!(reader.package(&(0..1)), Err(MalformedUpload::Proof(64)));
    }
}

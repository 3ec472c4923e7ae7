//! The protocol on the socket: frames with a prefix of four bytes for the length. Each frame is a
//! request or its response. Integers are big-endian. Numbers in parentheses are lengths in bytes.
//!
//! | request | after version, kind and log ID |
//! |---|---|
//! | 1 last | nothing |
//! | 2 head | size (8), root (32), timestamp (8), consistency proof |
//! | 3 range | size of the tree before (8), the roots of its perfect subtrees, number of leaves (4), leaves |
//! | 4 leaf | size of the tree (8), index (8), inclusion proof, leaf |
//!
//! A list of hashes begins with the number of its elements (2). A leaf is its length (4) and its
//! bytes, or the length 0 and its hash. A response is the version and a status. If the status is 0,
//! a note follows, or a list of signatures, each after its length (2); otherwise a text follows.

use lucarne_ct::LogId;
use lucarne_tlog::{Frontier, Hash};

use crate::guard::{Head, Leaf};

const VERSION: u8 = 1;

/// Maximum length of a frame in bytes. A client sends large rounds in parts.
pub const LONGEST_FRAME: usize = 16 << 20;

const LAST: u8 = 1;
const HEAD: u8 = 2;
const RANGE: u8 = 3;
const LEAF: u8 = 4;

/// A request for a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// ID of the log.
    pub log_id: LogId,
    /// The requested object.
    pub wish: Wish<'a>,
}

/// The kinds of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish<'a> {
    /// The last signed note.
    Last,
    /// A signed tree head.
    Head {
        /// The tree head to sign.
        head: Head,
        /// The consistency proof from the last head.
        proof: Vec<Hash>,
    },
    /// The SCTs of the last leaves of a tree.
    Range {
        /// The tree before these leaves.
        before: Frontier,
        /// All leaves up to the end of the tree.
        leaves: Vec<Leaf<'a>>,
    },
    /// The SCT of one leaf.
    Leaf {
        /// Size of the tree.
        size: u64,
        /// Index of the leaf.
        index: u64,
        /// Inclusion proof of the leaf.
        proof: Vec<Hash>,
        /// The encoded MerkleTreeLeaf (RFC 6962, section 3.4).
        leaf: &'a [u8],
    },
}

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Success; the result follows.
    Done = 0,
    /// The signer refuses to sign; a text with the reason follows.
    Refused = 1,
    /// The signer cannot sign now.
    Failed = 2,
    /// The signer does not remember a tree head of the given size.
    UnknownTree = 3,
    /// The request is malformed, has another version, or is for an unknown log.
    BadRequest = 4,
}

/// The reasons why bytes are not a frame of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The frame is too short or too long, or its numbers are inconsistent.
    #[error("not a message of this protocol: {0}")]
    Malformed(&'static str),
    /// The version is unknown.
    #[error("version {0} of the protocol is unknown")]
    Version(u8),
}

/// A parser that accepts only frames in the form of the encoder.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let ends = WireError::Malformed("unexpected end");
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ends)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn number(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }

    fn short(&mut self) -> Result<usize, WireError> {
        self.array().map(u16::from_be_bytes).map(usize::from)
    }

    fn length(&mut self) -> Result<usize, WireError> {
        self.array().map(|bytes| u32::from_be_bytes(bytes) as usize)
    }

    fn hash(&mut self) -> Result<Hash, WireError> {
        self.array().map(Hash)
    }

    fn hashes(&mut self) -> Result<Vec<Hash>, WireError> {
        let count = self.short()?;
        (0..count).map(|_| self.hash()).collect()
    }

    fn leaf(&mut self) -> Result<Leaf<'a>, WireError> {
        match self.length()? {
            0 => self.hash().map(Leaf::Hash),
            length => self.take(length).map(Leaf::Whole),
        }
    }

    fn range(&mut self) -> Result<Wish<'a>, WireError> {
        let size = self.number()?;
        let before = Frontier::from_subtrees(size, self.hashes()?);
        let before = before.ok_or(WireError::Malformed("no tree has these subtrees"))?;
        let count = self.length()?;
        let leaves = (0..count).map(|_| self.leaf());
        Ok(Wish::Range {
            before,
            leaves: leaves.collect::<Result<_, _>>()?,
        })
    }

    fn wish(&mut self, kind: u8) -> Result<Wish<'a>, WireError> {
        Ok(match kind {
            LAST => Wish::Last,
            HEAD => Wish::Head {
                head: Head {
                    size: self.number()?,
                    root: self.hash()?,
                    timestamp_ms: self.number()?,
                },
                proof: self.hashes()?,
            },
            RANGE => self.range()?,
            LEAF => Wish::Leaf {
                size: self.number()?,
                index: self.number()?,
                proof: self.hashes()?,
                leaf: match self.leaf()? {
                    Leaf::Whole(leaf) => leaf,
                    Leaf::Hash(_) => return Err(WireError::Malformed("a hash is not a leaf")),
                },
            },
            _ => return Err(WireError::Malformed("an unknown kind of request")),
        })
    }

    fn end(&self) -> Result<(), WireError> {
        match self.0 {
            [] => Ok(()),
            _ => Err(WireError::Malformed("unexpected bytes after the end")),
        }
    }
}

impl<'a> Request<'a> {
    /// Decodes a frame.
    ///
    /// # Errors
    /// If the frame is not a request.
    pub fn decode(frame: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader(frame);
        let [version, kind] = reader.array()?;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let log_id = LogId(reader.array()?);
        let wish = reader.wish(kind)?;
        reader.end()?;
        Ok(Self { log_id, wish })
    }

    /// Encodes the frame, including its length.
    pub fn encode(&self) -> Vec<u8> {
        let kind = match self.wish {
            Wish::Last => LAST,
            Wish::Head { .. } => HEAD,
            Wish::Range { .. } => RANGE,
            Wish::Leaf { .. } => LEAF,
        };
        let mut out = vec![0, 0, 0, 0, VERSION, kind];
        out.extend_from_slice(&self.log_id.0);
        match &self.wish {
            Wish::Last => {}
            Wish::Head { head, proof } => {
                out.extend_from_slice(&head.size.to_be_bytes());
                out.extend_from_slice(&head.root.0);
                out.extend_from_slice(&head.timestamp_ms.to_be_bytes());
                push_hashes(proof, &mut out);
            }
            Wish::Range { before, leaves } => {
                out.extend_from_slice(&before.size().to_be_bytes());
                push_hashes(before.subtrees(), &mut out);
                out.extend_from_slice(&(leaves.len() as u32).to_be_bytes());
                leaves.iter().for_each(|leaf| push_leaf(leaf, &mut out));
            }
            Wish::Leaf {
                size,
                index,
                proof,
                leaf,
            } => {
                out.extend_from_slice(&size.to_be_bytes());
                out.extend_from_slice(&index.to_be_bytes());
                push_hashes(proof, &mut out);
                push_leaf(&Leaf::Whole(leaf), &mut out);
            }
        }
        framed(out)
    }
}

fn push_hashes(hashes: &[Hash], out: &mut Vec<u8>) {
    out.extend_from_slice(&(hashes.len() as u16).to_be_bytes());
    hashes
        .iter()
        .for_each(|hash| out.extend_from_slice(&hash.0));
}

fn push_leaf(leaf: &Leaf<'_>, out: &mut Vec<u8>) {
    match leaf {
        Leaf::Whole(bytes) => {
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        Leaf::Hash(hash) => {
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&hash.0);
        }
    }
}

/// Writes the length into the four bytes reserved for it.
fn framed(mut frame: Vec<u8>) -> Vec<u8> {
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Encodes a response with a note or a text, including its length.
pub fn encode_response(status: Status, rest: &[u8]) -> Vec<u8> {
    framed([&[0, 0, 0, 0, VERSION, status as u8], rest].concat())
}

/// Encodes the list of signatures of a response.
pub fn encode_signatures(signatures: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(signatures.len() * 80);
    for signature in signatures {
        out.extend_from_slice(&(signature.len() as u16).to_be_bytes());
        out.extend_from_slice(signature);
    }
    out
}

/// Decodes a list of signatures.
///
/// # Errors
/// If the bytes are not a list of signatures.
pub fn decode_signatures(bytes: &[u8]) -> Result<Vec<Vec<u8>>, WireError> {
    let mut reader = Reader(bytes);
    let mut signatures = Vec::new();
    while !reader.0.is_empty() {
        let length = reader.short()?;
        signatures.push(reader.take(length)?.to_vec());
    }
    Ok(signatures)
}

/// Decodes a response into its status and the rest.
///
/// # Errors
/// If the frame is not a response.
pub fn decode_response(frame: &[u8]) -> Result<(Status, &[u8]), WireError> {
    let mut reader = Reader(frame);
    let [version, status] = reader.array()?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let known = [
        Status::Done,
        Status::Refused,
        Status::Failed,
        Status::UnknownTree,
        Status::BadRequest,
    ];
    let status = known.into_iter().find(|known| *known as u8 == status);
    let status = status.ok_or(WireError::Malformed("an unknown status"))?;
    Ok((status, reader.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hashes(max: usize) -> impl Strategy<Value = Vec<Hash>> {
        prop::collection::vec(any::<[u8; 32]>().prop_map(Hash), 0..max)
    }

    fn round_trips(log_id: [u8; 32], wish: Wish<'_>) {
        let log_id = LogId(log_id);
        let request = Request { log_id, wish };
        let frame = request.encode();
        assert_eq!(frame[..4], (frame.len() as u32 - 4).to_be_bytes());
        assert_eq!(Request::decode(&frame[4..]), Ok(request.clone()));
        for end in 4..frame.len() {
            assert!(Request::decode(&frame[4..end]).is_err());
        }
        let longer = [&frame[4..], &[0]].concat();
        assert!(Request::decode(&longer).is_err());
    }

    proptest! {
        #[test]
        fn heads_and_leaves(
            id: [u8; 32], size: u64, timestamp_ms: u64, root: [u8; 32], proof in hashes(50),
            leaf in prop::collection::vec(any::<u8>(), 1..200),
        ) {
            let head = Head { size, root: Hash(root), timestamp_ms };
            round_trips(id, Wish::Last);
            round_trips(id, Wish::Head { head, proof: proof.clone() });
            round_trips(id, Wish::Leaf { size, index: timestamp_ms, proof, leaf: &leaf });
        }

        #[test]
        fn ranges(id: [u8; 32], size in 0..1u64 << 40, leaves in prop::collection::vec(
            prop::collection::vec(any::<u8>(), 0..50), 0..20,
        )) {
            let subtrees = vec![Hash([1; 32]); size.count_ones() as usize];
            let before = Frontier::from_subtrees(size, subtrees).unwrap();
            let leaf = |bytes: &'_ Vec<u8>| {
                if bytes.is_empty() {
                    Leaf::Hash(Hash([2; 32]))
                } else {
                    Leaf::Whole(Vec::leak(bytes.clone()))
                }
            };
            let leaves = leaves.iter().map(leaf).collect();
            round_trips(id, Wish::Range { before, leaves });
        }

        /// Decoding any bytes causes no panic.
        #[test]
        fn garbage(frame in prop::collection::vec(any::<u8>(), 0..300), kind in 0..6u8) {
            let _ = Request::decode(&frame);
            let _ = decode_signatures(&frame);
            let _ = decode_response(&frame);
            let well_begun = [&[VERSION, kind][..], &[7; 32], &frame].concat();
            let _ = Request::decode(&well_begun);
        }

        #[test]
        fn signatures(list in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..9)) {
            prop_assert_eq!(decode_signatures(&encode_signatures(&list)), Ok(list));
        }
    }
}

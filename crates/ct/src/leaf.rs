//! MerkleTreeLeaf (RFC 6962, section 3.4) and TileLeaf (static-ct-api, "Log Entries").
//!
//! Both structures contain a TimestampedEntry. A MerkleTreeLeaf is `00 00` and the
//! TimestampedEntry: the tree hashes these bytes, and the signature of the SCT covers the same
//! bytes. A TileLeaf is the TimestampedEntry, the precertificate (if any) and the fingerprints of
//! the chain. A data tile has its TileLeafs one after the other.

use std::ops::Range;

use lucarne_tlog::{Hash, leaf_hash};
use lucarne_x509::Fingerprint;

use crate::entry::{Entry, Identity, SignedEntry};

/// Type and length of the `leaf_index` extension, before its five bytes.
const LEAF_INDEX_HEADER: [u8; 3] = [0, 0, 5];
/// Version v1, and the leaf type of a timestamped entry.
const LEAF_V1: [u8; 2] = [0, 0];
/// Length of the extensions that this log writes.
const EXTENSIONS_LEN: u16 = 8;

/// Returns the extensions of an SCT and of a leaf: only the `leaf_index` (static-ct-api, "SCT
/// Extension"). Indexes are below 2^40.
pub(crate) fn leaf_index_extension(index: u64) -> [u8; EXTENSIONS_LEN as usize] {
    let [_, _, _, a, b, c, d, e] = index.to_be_bytes();
    let [kind, high, low] = LEAF_INDEX_HEADER;
    [kind, high, low, a, b, c, d, e]
}

/// Returns the index in a list of extensions; `None` if the list has no `leaf_index`, has two
/// extensions of one type, or is malformed (static-ct-api, "SCT Extension").
pub(crate) fn leaf_index(mut extensions: &[u8]) -> Option<u64> {
    let mut seen = [false; 256];
    let mut index = None;
    while let Some((kind, mut rest)) = extensions.split_first() {
        let length = take(&mut rest, 2)?;
        let length = usize::from(length[0]) << 8 | usize::from(length[1]);
        let value = take(&mut rest, length)?;
        if std::mem::replace(&mut seen[usize::from(*kind)], true) {
            return None;
        }
        if *kind == 0 {
            let value: [u8; 5] = value.try_into().ok()?;
            index = Some(
                value
                    .iter()
                    .fold(0, |index, byte| index << 8 | u64::from(*byte)),
            );
        }
        extensions = rest;
    }
    index
}

/// Appends the MerkleTreeLeaf of an entry. The tree hashes these bytes, and the SCT has a signature
/// over them.
///
/// `timestamp` is in milliseconds since 1970. `index` is the index of the entry in the tree.
pub fn merkle_tree_leaf<'a>(
    timestamp: u64,
    signed: impl Into<SignedEntryRef<'a>>,
    index: u64,
    out: &mut Vec<u8>,
) {
    let signed = signed.into();
    out.reserve(2 + timestamped_entry_len(signed));
    out.extend_from_slice(&LEAF_V1);
    timestamped_entry(timestamp, signed, &leaf_index_extension(index), out);
}

fn timestamped_entry_len(signed: SignedEntryRef<'_>) -> usize {
    let body = match signed {
        SignedEntryRef::X509 { certificate } => certificate.len(),
        SignedEntryRef::Precert { tbs, .. } => 32 + tbs.len(),
    };
    8 + 2 + 3 + body + 2 + usize::from(EXTENSIONS_LEN)
}

/// Appends the TimestampedEntry: timestamp, entry type, entry, extensions.
pub(crate) fn timestamped_entry(
    timestamp: u64,
    signed: SignedEntryRef<'_>,
    extensions: &[u8],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&timestamp.to_be_bytes());
    match signed {
        SignedEntryRef::X509 { certificate } => {
            out.extend_from_slice(&[0, 0]);
            push_u24(certificate, out);
        }
        SignedEntryRef::Precert {
            issuer_key_hash,
            tbs,
        } => {
            out.extend_from_slice(&[0, 1]);
            out.extend_from_slice(issuer_key_hash);
            push_u24(tbs, out);
        }
    }
    out.extend_from_slice(&(extensions.len() as u16).to_be_bytes());
    out.extend_from_slice(extensions);
}

/// Appends `opaque<1..2^24-1>`. The limits on a body keep all submitted data far below 2^24.
pub(crate) fn push_u24(bytes: &[u8], out: &mut Vec<u8>) {
    debug_assert!(bytes.len() < 1 << 24);
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(bytes);
}

/// An encoder of TileLeaf structures, the elements of a data tile.
#[derive(Debug)]
pub struct TileLeaf;

impl TileLeaf {
    /// Appends the TileLeaf of an entry. `timestamp` is in milliseconds since 1970.
    pub fn encode(timestamp: u64, entry: &Entry, index: u64, out: &mut Vec<u8>) {
        let signed = SignedEntryRef::from(&entry.signed);
        let precertificate = entry.precertificate.as_deref();
        out.reserve(
            timestamped_entry_len(signed)
                + precertificate.map_or(0, |der| 3 + der.len())
                + 2
                + 32 * entry.issuers.len(),
        );
        timestamped_entry(timestamp, signed, &leaf_index_extension(index), out);
        if let Some(precertificate) = precertificate {
            push_u24(precertificate, out);
        }
        out.extend_from_slice(&(32 * entry.issuers.len() as u16).to_be_bytes());
        for issuer in entry.issuers.iter() {
            out.extend_from_slice(&issuer.fingerprint.0);
        }
    }
}

/// The signed entry, borrowed from a data tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedEntryRef<'a> {
    /// A final certificate.
    X509 {
        /// DER of the certificate.
        certificate: &'a [u8],
    },
    /// A precertificate.
    Precert {
        /// SHA-256 of the issuer's SubjectPublicKeyInfo.
        issuer_key_hash: &'a [u8; 32],
        /// The TBSCertificate without the poison.
        tbs: &'a [u8],
    },
}

impl SignedEntryRef<'_> {
    /// Returns the identity that the log uses for deduplication.
    pub fn identity(&self) -> Identity {
        match self {
            SignedEntryRef::X509 { certificate } => Identity::of_x509(certificate),
            SignedEntryRef::Precert {
                issuer_key_hash,
                tbs,
            } => Identity::of_precert(issuer_key_hash, tbs),
        }
    }
}

impl<'a> From<&'a SignedEntry> for SignedEntryRef<'a> {
    fn from(signed: &'a SignedEntry) -> Self {
        match signed {
            SignedEntry::X509 { certificate } => SignedEntryRef::X509 { certificate },
            SignedEntry::Precert {
                issuer_key_hash,
                tbs,
            } => SignedEntryRef::Precert {
                issuer_key_hash,
                tbs,
            },
        }
    }
}

/// An element of a data tile, borrowed from the tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileLeafRef<'a> {
    /// Milliseconds since 1970.
    pub timestamp: u64,
    /// The signed entry.
    pub signed: SignedEntryRef<'a>,
    /// The stored extensions, including the `leaf_index`.
    pub extensions: &'a [u8],
    /// The submitted precertificate; `None` for a final certificate.
    pub precertificate: Option<&'a [u8]>,
    /// Index of the entry in the tree, from its extensions.
    pub index: u64,
    /// The chain above the leaf: issuer first, accepted root last.
    pub fingerprints: Fingerprints<'a>,
}

/// The reasons why bytes are not a TileLeaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TileLeafError {
    /// The bytes end before the structure does.
    #[error("the data tile ends in the middle of an entry, in its {0}")]
    Truncated(&'static str),
    /// The entry type is neither 0 nor 1.
    #[error("unknown entry type {0}; expected 0 or 1")]
    UnknownEntryType(u16),
    /// The extensions are not a list of different types with a `leaf_index`.
    #[error("the extensions of an entry are not a list of different types with a leaf_index")]
    NoLeafIndex,
    /// The fingerprints are not a multiple of 32 bytes.
    #[error("the fingerprints of an entry have {0} bytes; expected a multiple of 32")]
    Fingerprints(usize),
}

impl<'a> TileLeafRef<'a> {
    /// Parses one TileLeaf and advances `tile` past it. After an error `tile` is unchanged.
    pub fn read(tile: &mut &'a [u8]) -> Result<Self, TileLeafError> {
        Self::read_from(tile, None)
    }

    /// Parses one TileLeaf of an archived RFC 6962 log like [`read`](Self::read). An entry without
    /// extensions has this index.
    pub fn read_archived(tile: &mut &'a [u8], index: u64) -> Result<Self, TileLeafError> {
        Self::read_from(tile, Some(index))
    }

    fn read_from(tile: &mut &'a [u8], index: Option<u64>) -> Result<Self, TileLeafError> {
        let mut rest = *tile;
        let leaf = Self::parse(&mut rest, index)?;
        *tile = rest;
        Ok(leaf)
    }

    fn parse(rest: &mut &'a [u8], absent: Option<u64>) -> Result<Self, TileLeafError> {
        let (timestamp, signed, extensions) = read_timestamped_entry(rest)?;
        let precertificate = match signed {
            SignedEntryRef::X509 { .. } => None,
            SignedEntryRef::Precert { .. } => Some(read_vector::<3>(rest, "precertificate")?),
        };
        let fingerprints = read_vector::<2>(rest, "fingerprints")?;
        if fingerprints.len() % 32 != 0 {
            return Err(TileLeafError::Fingerprints(fingerprints.len()));
        }
        let absent = absent.filter(|_| extensions.is_empty());
        let index = leaf_index(extensions).or(absent);
        Ok(Self {
            timestamp,
            signed,
            extensions,
            precertificate,
            index: index.ok_or(TileLeafError::NoLeafIndex)?,
            fingerprints: Fingerprints(fingerprints),
        })
    }

    /// Appends the MerkleTreeLeaf that the tree hashes for this entry.
    pub fn merkle_tree_leaf(&self, out: &mut Vec<u8>) {
        out.reserve(2 + timestamped_entry_len(self.signed));
        out.extend_from_slice(&LEAF_V1);
        timestamped_entry(self.timestamp, self.signed, self.extensions, out);
    }

    /// Returns the leaf hash in the tree; `buffer` gets the MerkleTreeLeaf.
    pub fn leaf_hash(&self, buffer: &mut Vec<u8>) -> Hash {
        buffer.clear();
        self.merkle_tree_leaf(buffer);
        leaf_hash(buffer)
    }

    /// Appends the TileLeaf with its original bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        timestamped_entry(self.timestamp, self.signed, self.extensions, out);
        if let Some(precertificate) = self.precertificate {
            push_u24(precertificate, out);
        }
        out.extend_from_slice(&(self.fingerprints.0.len() as u16).to_be_bytes());
        out.extend_from_slice(self.fingerprints.0);
    }

    /// Returns the identity that the log uses for deduplication.
    pub fn identity(&self) -> Identity {
        self.signed.identity()
    }
}

/// A MerkleTreeLeaf of a static CT log: the bytes that the tree hashes and that the log signs for
/// the SCT.
///
/// A key that signs only these bytes for SCTs cannot be misused to sign a tree head in place of a
/// leaf, because a tree head begins with other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MerkleTreeLeafRef<'a> {
    /// The whole leaf.
    bytes: &'a [u8],
    /// Milliseconds since 1970.
    pub timestamp: u64,
    /// Index of the entry in the tree.
    pub index: u64,
}

impl<'a> MerkleTreeLeafRef<'a> {
    /// Parses a MerkleTreeLeaf that fills `bytes`.
    ///
    /// # Errors
    /// If the bytes are not a MerkleTreeLeaf, or if their extensions differ from the extensions of
    /// a static CT log.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MerkleTreeLeafError> {
        let Some(mut rest) = bytes.strip_prefix(&LEAF_V1) else {
            return Err(MerkleTreeLeafError::Kind);
        };
        let (timestamp, _, extensions) = read_timestamped_entry(&mut rest)?;
        let index = leaf_index(extensions).ok_or(TileLeafError::NoLeafIndex)?;
        if rest.is_empty() && *extensions == leaf_index_extension(index) {
            Ok(Self {
                bytes,
                timestamp,
                index,
            })
        } else {
            Err(MerkleTreeLeafError::Extra)
        }
    }

    /// Returns the bytes of the leaf.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// The reasons why bytes are not a MerkleTreeLeaf of a static CT log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MerkleTreeLeafError {
    /// The version or the kind of leaf is unknown.
    #[error("expected version 1 and a timestamped entry")]
    Kind,
    /// The entry is invalid.
    #[error(transparent)]
    Entry(#[from] TileLeafError),
    /// The leaf has extensions other than the index, or trailing bytes.
    #[error("the leaf has extensions other than leaf_index, or trailing bytes")]
    Extra,
}

/// The fingerprints of a chain above its leaf, borrowed from a data tile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fingerprints<'a>(&'a [u8]);

impl Iterator for Fingerprints<'_> {
    type Item = Fingerprint;

    fn next(&mut self) -> Option<Fingerprint> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(Fingerprint(*first))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len() / 32, Some(self.0.len() / 32))
    }
}

impl ExactSizeIterator for Fingerprints<'_> {}

/// Parses timestamp, entry and extensions.
fn read_timestamped_entry<'a>(
    rest: &mut &'a [u8],
) -> Result<(u64, SignedEntryRef<'a>, &'a [u8]), TileLeafError> {
    let timestamp = u64::from_be_bytes(read_array(rest, "timestamp")?);
    let signed = match u16::from_be_bytes(read_array(rest, "entry type")?) {
        0 => SignedEntryRef::X509 {
            certificate: read_vector::<3>(rest, "certificate")?,
        },
        1 => SignedEntryRef::Precert {
            issuer_key_hash: read_hash(rest, "issuer key hash")?,
            tbs: read_vector::<3>(rest, "TBSCertificate")?,
        },
        unknown => return Err(TileLeafError::UnknownEntryType(unknown)),
    };
    Ok((timestamp, signed, read_vector::<2>(rest, "extensions")?))
}

/// Removes the first `length` bytes from `rest` and returns them.
pub(crate) fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn read_hash<'a>(rest: &mut &'a [u8], what: &'static str) -> Result<&'a [u8; 32], TileLeafError> {
    let (hash, left) = rest
        .split_first_chunk()
        .ok_or(TileLeafError::Truncated(what))?;
    *rest = left;
    Ok(hash)
}

fn read_array<const N: usize>(
    rest: &mut &[u8],
    what: &'static str,
) -> Result<[u8; N], TileLeafError> {
    let (array, left) = rest
        .split_first_chunk()
        .ok_or(TileLeafError::Truncated(what))?;
    *rest = left;
    Ok(*array)
}

/// Parses a vector with a length prefix of `N` bytes.
fn read_vector<'a, const N: usize>(
    rest: &mut &'a [u8],
    what: &'static str,
) -> Result<&'a [u8], TileLeafError> {
    let length: [u8; N] = read_array(rest, what)?;
    let length = length
        .iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    take(rest, length).ok_or(TileLeafError::Truncated(what))
}

/// An entry of a data tile.
#[derive(Debug, Clone)]
pub struct TileEntry<'t> {
    /// Index in the tree, by the position in the tile. `leaf.index` is the index that the entry
    /// contains.
    pub index: u64,
    /// Place of the entry in the bytes of the tile.
    pub bytes: Range<usize>,
    /// The parsed entry.
    pub leaf: TileLeafRef<'t>,
}

/// Iterates over the entries of a data tile. The first invalid entry is the last item: the entries
/// after it cannot be found.
#[derive(Debug, Clone)]
pub struct TileEntries<'t> {
    tile: &'t [u8],
    read: usize,
    next: u64,
    /// Index after the last entry; `None` if the tile ends with its bytes.
    end: Option<u64>,
    /// Whether entries may lack their index.
    archived: bool,
}

impl<'t> TileEntries<'t> {
    /// Reads entries up to the end of the bytes. The first entry has the index `first`.
    pub fn all(tile: &'t [u8], first: u64) -> Self {
        Self {
            tile,
            read: 0,
            next: first,
            end: None,
            archived: false,
        }
    }

    /// Reads `count` entries. If the bytes end earlier, the last item is an error.
    pub fn first(tile: &'t [u8], first: u64, count: u64) -> Self {
        let end = Some(first + count);
        Self {
            end,
            ..Self::all(tile, first)
        }
    }

    /// Accepts entries without extensions, which archived RFC 6962 logs have.
    #[must_use]
    pub fn archived(self, archived: bool) -> Self {
        Self { archived, ..self }
    }

    /// Returns the number of bytes of the entries that were read.
    pub fn read(&self) -> usize {
        self.read
    }

    /// Returns the bytes after the entries that were read.
    pub fn rest(&self) -> &'t [u8] {
        &self.tile[self.read..]
    }
}

impl<'t> Iterator for TileEntries<'t> {
    type Item = Result<TileEntry<'t>, TileLeafError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (index, start) = (self.next, self.read);
        let is_end = self
            .end
            .map_or(start == self.tile.len(), |end| index == end);
        if is_end {
            return None;
        }
        let mut rest = self.rest();
        let read = if self.archived {
            TileLeafRef::read_archived(&mut rest, index)
        } else {
            TileLeafRef::read(&mut rest)
        };
        let leaf = match read {
            Ok(leaf) => leaf,
            Err(error) => {
                self.end = Some(index);
                return Some(Err(error));
            }
        };
        self.read = self.tile.len() - rest.len();
        self.next += 1;
        Some(Ok(TileEntry {
            index,
            bytes: start..self.read,
            leaf,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(count: u8) -> Vec<u8> {
        let mut tile = Vec::new();
        for n in 0..count {
            let leaf = TileLeafRef {
                timestamp: 7,
                signed: SignedEntryRef::X509 { certificate: &[n] },
                extensions: &[0, 0, 5, 0, 0, 0, 0, n],
                precertificate: None,
                index: n.into(),
                fingerprints: Default::default(),
            };
            leaf.encode(&mut tile);
        }
        tile
    }

    #[test]
    fn entries_have_their_index_and_bytes() {
        let tile = tile(3);
        let mut entries = TileEntries::all(&tile, 256);
        let read: Vec<_> = entries.by_ref().collect::<Result<_, _>>().unwrap();
        let indexes: Vec<_> = read.iter().map(|entry| entry.index).collect();
        assert_eq!(indexes, [256, 257, 258]);
        assert_eq!(entries.rest(), b"");
        let joined: Vec<u8> = read
            .iter()
            .flat_map(|entry| &tile[entry.bytes.clone()])
            .copied()
            .collect();
        assert_eq!(joined, tile);
    }

    #[test]
    fn only_archived_entries_may_lack_their_index() {
        let mut tile = tile(1);
        let leaf = TileLeafRef::read(&mut &tile[..]).unwrap();
        let bare = TileLeafRef {
            extensions: &[],
            ..leaf
        };
        let other = TileLeafRef {
            extensions: &[7],
            ..bare
        };
        let (mut encoded, mut unknown) = (Vec::new(), Vec::new());
        bare.encode(&mut encoded);
        other.encode(&mut unknown);
        tile.extend(encoded);
        let indexes = |tile: &[u8], archived| -> Result<Vec<u64>, TileLeafError> {
            let entries = TileEntries::all(tile, 256).archived(archived);
            entries.map(|entry| Ok(entry?.leaf.index)).collect()
        };
        assert_eq!(indexes(&tile, true), Ok(vec![0, 257]));
        assert_eq!(indexes(&tile, false), Err(TileLeafError::NoLeafIndex));
        assert_eq!(indexes(&unknown, true), Err(TileLeafError::NoLeafIndex));
    }

    #[test]
    fn missing_and_invalid_entries_are_the_last_item() {
        let tile = tile(2);
        let counts = |entries: TileEntries<'_>| {
            let all: Vec<_> = entries.collect();
            (all.len(), all.iter().filter(|entry| entry.is_err()).count())
        };
        assert_eq!(counts(TileEntries::first(&tile, 0, 1)), (1, 0));
        assert_eq!(counts(TileEntries::first(&tile, 0, 3)), (3, 1));
        let cut = &tile[..tile.len() - 1];
        assert_eq!(counts(TileEntries::all(cut, 0)), (2, 1));
        let mut entries = TileEntries::all(cut, 0);
        entries.by_ref().for_each(drop);
        assert_eq!(entries.rest(), &cut[entries.read()..]);
        assert_eq!(entries.read(), tile.len() / 2);
    }
}

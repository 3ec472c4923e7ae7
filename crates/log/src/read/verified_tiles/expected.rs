//! The comparison of a file with the content that the tree requires.

use bytes::Bytes;
use lucarne_ct::{Fingerprint, TileEntries, TileLeafError};
use lucarne_tlog::{Hash, tile_root};
use lucarne_x509::text::counted;

use lucarne_ctread::gunzip;

/// The content of a file as far as it is known before reading.
#[derive(Clone)]
pub(super) enum Expected {
    /// A full hash tile with this root.
    Root(Hash),
    /// A partial hash tile.
    Hashes(Bytes),
    /// A data tile whose entries have these concatenated leaf hashes. A `wider` tile begins with
    /// these entries.
    Entries { leaves: Bytes, wider: bool },
    /// The certificate with this fingerprint.
    Certificate(Fingerprint),
}

/// The difference between a file and its expected content.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unexpected {
    #[error("the hashes do not match the signed root")]
    Root,
    #[error("expected 8192 bytes, found {0}")]
    Length(usize),
    #[error("gzip: {0}")]
    Gzip(#[source] std::io::Error),
    #[error("the SHA-256 does not match the file name")]
    Certificate,
    #[error("entry {0} does not match its leaf hash in the tree")]
    Foreign(usize),
    #[error("entry {0}: {1}")]
    Entry(usize, #[source] TileLeafError),
    #[error("expected {}, found {found}", counted(*.due, "entry"))]
    Entries { found: usize, due: usize },
    #[error("{} after the last entry", counted(*.0, "extra byte"))]
    Extra(usize),
    /// The hashes agree, but the scrubber has condemned the bytes.
    #[error("{0}")]
    Condemned(String),
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
}

impl Expected {
    /// Returns the uncompressed content of a file that matches.
    pub(super) fn check(&self, stored: Bytes) -> Result<Bytes, Unexpected> {
        match self {
            Expected::Root(root) => match tile_root(&stored) {
                Some(found) if found == *root => Ok(stored),
                Some(_) => Err(Unexpected::Root),
                None => Err(Unexpected::Length(stored.len())),
            },
            Expected::Hashes(hashes) => {
                if stored == hashes {
                    Ok(stored)
                } else {
                    Err(Unexpected::Root)
                }
            }
            Expected::Entries { leaves, wider } => {
                let plain = gunzip(stored).map_err(Unexpected::Gzip)?;
                begins_with(plain, leaves, *wider)
            }
            Expected::Certificate(fingerprint) => match Fingerprint::of(&stored) {
                found if found == *fingerprint => Ok(stored),
                _ => Err(Unexpected::Certificate),
            },
        }
    }
}

/// Returns the entries with these leaf hashes, if the tile begins with them.
fn begins_with(plain: Bytes, leaves: &[u8], wider: bool) -> Result<Bytes, Unexpected> {
    let (due, _) = leaves.as_chunks::<{ Hash::LENGTH }>();
    let mut entries = TileEntries::all(&plain, 0);
    let mut buffer = Vec::new();
    for (n, due) in due.iter().enumerate() {
        match entries.next() {
            Some(Ok(found)) if found.leaf.leaf_hash(&mut buffer).0 == *due => {}
            Some(Ok(_)) => return Err(Unexpected::Foreign(n)),
            Some(Err(error)) => return Err(Unexpected::Entry(n, error)),
            None => {
                return Err(Unexpected::Entries {
                    found: n,
                    due: due.len(),
                });
            }
        }
    }
    let end = entries.read();
    match plain.len() - end {
        extra if extra > 0 && !wider => Err(Unexpected::Extra(extra)),
        _ => Ok(plain.slice(..end)),
    }
}

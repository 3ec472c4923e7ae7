//! The words for a file that is not what the signed tree demands.

use std::fmt;

use lucarne_ct::TileLeafError;

use super::file_error::FileError;
use crate::unsigned::PartsError;

/// A file of a log that is not what its signed tree head demands.
#[derive(Debug)]
pub struct Finding {
    /// The file's path below the monitoring prefix.
    pub path: String,
    /// Where the first wrong byte is: of the file, or, where a data tile is
    /// compressed, of what it unpacks to. `None` if that cannot be told.
    pub offset: Option<u64>,
    /// The index of the first entry that it concerns.
    pub entry: Option<u64>,
    /// The problem.
    pub problem: Problem,
}

/// The problem with a file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// There is no such file, nor a wider tile that holds the same.
    #[error("is missing, and no wider tile is there")]
    Missing,
    /// Storage does not give it.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] FileError),
    /// The file has another length than its width demands.
    #[error("has {found} bytes, where {due} are due")]
    Length {
        /// Its bytes.
        found: usize,
        /// Those that it should have.
        due: usize,
    },
    /// A compressed tile cannot be unpacked.
    #[error("gzip: {0}")]
    Gzip(#[source] std::io::Error),
    /// The bytes of an entry are none.
    #[error(transparent)]
    Entry(#[from] TileLeafError),
    /// Bytes follow the last entry of a full tile.
    #[error("has {0} bytes after its last entry")]
    Extra(usize),
    /// An entry carries the index of another.
    #[error("carries index {0}")]
    Index(u64),
    /// An entry's leaf hash is not the one that the tree has for it.
    #[error("is not the entry that the tree has hashed")]
    Leaf,
    /// The parts of an entry that the tree has not hashed, precertificate or chain, are wrong.
    #[error(transparent)]
    Parts(#[from] PartsError),
    /// A hash is not the root of what lies beneath it, which the tree confirms.
    #[error("holds a hash that is not the one of what lies beneath it")]
    Hash,
    /// Hash tile and entries confirm each other, but the tree above does not.
    #[error("agrees with what lies beneath it, but not with the signed tree")]
    Foreign,
    /// It leads to another root, and nothing tells which byte is to blame.
    #[error("does not lead to the signed root")]
    Root,
    /// A partial tile is not the beginning of the wider one.
    #[error("is not what the wider tile begins with")]
    Partial,
    /// A names tile does not have the names of the entries.
    #[error("does not have the names of its entries")]
    Names,
    /// A certificate that entries refer to has another fingerprint.
    #[error("is not the certificate of that fingerprint")]
    Issuer,
}

impl Problem {
    /// Its stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Problem::Missing => "missing",
            Problem::Unreadable(_) => "unreadable",
            Problem::Length { .. } => "length",
            Problem::Gzip(_) => "gzip",
            Problem::Entry(_) => "entry",
            Problem::Extra(_) => "extra",
            Problem::Index(_) => "index",
            Problem::Leaf => "leaf",
            Problem::Parts(_) => "parts",
            Problem::Hash => "hash",
            Problem::Foreign => "foreign",
            Problem::Root => "root",
            Problem::Partial => "partial",
            Problem::Names => "names",
            Problem::Issuer => "issuer",
        }
    }
}

impl Finding {
    /// The problem and its place, without the path.
    pub(crate) fn in_words(&self) -> String {
        let mut words = self.problem.to_string();
        if let Some(offset) = self.offset {
            words += &format!(", byte {offset}");
        }
        if let Some(entry) = self.entry {
            words += &format!(", entry {entry}");
        }
        words
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(offset) = self.offset {
            write!(f, ", byte {offset}")?;
        }
        if let Some(entry) = self.entry {
            write!(f, ", entry {entry}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

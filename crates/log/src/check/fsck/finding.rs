//! The findings of a check: files that differ from the signed tree.

use std::fmt;

use lucarne_ct::TileLeafError;
use lucarne_ctread::{ReadError, SourceError};
use lucarne_x509::text::counted;

use crate::check::unsigned::PartsError;

/// A file of a log that differs from the file that its signed tree head requires.
#[derive(Debug)]
pub struct Finding {
    /// The file's path below the monitoring prefix.
    pub path: String,
    /// Offset of the first wrong byte: in the file, or in the decompressed bytes of a compressed
    /// data tile. `None` if unknown.
    pub offset: Option<u64>,
    /// The index of the first entry that the problem affects.
    pub entry: Option<u64>,
    /// The difference, or the reason why the file cannot be read.
    pub problem: Problem,
}

/// The problem with a file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file does not exist. If the file is a partial tile, the full tile does not exist either.
    #[error("is missing")]
    Missing,
    /// Storage cannot read the file.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] SourceError),
    /// The length of the file differs from the length that the tile's width requires.
    #[error("expected {}, found {found}", counted(*.due, "byte"))]
    Length {
        /// Length of the file in bytes.
        found: usize,
        /// Required length in bytes.
        due: usize,
    },
    /// Decompression of a tile failed.
    #[error("gzip: {0}")]
    Gzip(#[source] std::io::Error),
    /// The bytes of an entry are invalid.
    #[error(transparent)]
    Entry(#[from] TileLeafError),
    /// Bytes follow the last entry of a data tile.
    #[error("{} after the last entry", counted(*.0, "extra byte"))]
    Extra(usize),
    /// The index in the entry differs from the position of the entry in the log.
    #[error("has the wrong index {0}")]
    Index(u64),
    /// An entry's leaf hash differs from the hash in the tree.
    #[error("does not match its leaf hash in the tree")]
    Leaf,
    /// The parts of an entry that the tree has not hashed, precertificate or chain, are wrong.
    #[error(transparent)]
    Parts(#[from] PartsError),
    /// A hash differs from the root of its subtree, which the tree confirms.
    #[error("hash does not match its subtree")]
    Hash,
    /// Hash tile and entries confirm each other, but the tree above does not.
    #[error("matches its subtree, but not the signed tree")]
    Foreign,
    /// The tile does not lead to the signed root, and the wrong byte is unknown.
    #[error("does not lead to the signed root")]
    Root,
    /// A partial tile is not a prefix of the wider tile.
    #[error("differs from the beginning of the wider tile")]
    Partial,
    /// A names tile differs from the names of its entries.
    #[error("does not match the names in its entries")]
    Names,
    /// The fingerprint of a certificate differs from the fingerprint in the name of its file.
    #[error("does not match the fingerprint in its name")]
    Issuer,
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        error.problem.into()
    }
}

impl From<lucarne_ctread::Problem> for Problem {
    fn from(problem: lucarne_ctread::Problem) -> Self {
        use lucarne_ctread::Problem as Read;
        match problem {
            Read::Missing => Problem::Missing,
            Read::Source(error) => Problem::Unreadable(error),
            Read::Gzip(error) => Problem::Gzip(error),
            Read::Length { found, due } => Problem::Length { found, due },
            Read::Entry { source, .. } => Problem::Entry(source),
            Read::Leaf(_) => Problem::Leaf,
            Read::Hashes => Problem::Hash,
            Read::Rest(bytes) => Problem::Extra(bytes),
            Read::Root { .. } => Problem::Root,
            other => Problem::Unreadable(SourceError::unavailable(other)),
        }
    }
}

impl Problem {
    /// Returns the stable code of the problem.
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
    /// Formats the problem, without the file and the position.
    pub fn detail(&self) -> String {
        let is_partial = self.path.contains(".p/");
        match self.problem {
            Problem::Missing if is_partial => format!("{}, as is the full tile", self.problem),
            _ => self.problem.to_string(),
        }
    }

    /// Formats the problem and its position, without the path.
    pub(crate) fn in_words(&self) -> String {
        let mut words = self.detail();
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
        write!(f, ": {}", self.detail())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use lucarne_storage::AssetError;

    use super::*;

    #[test]
    fn a_problem_keeps_the_error_of_the_storage() {
        let silent = || AssetError::Silent {
            directory: "/srv/log".to_owned(),
        };
        let problem = Problem::Unreadable(SourceError::unavailable(silent()));
        assert_eq!(problem.to_string(), format!("cannot be read: {}", silent()));
        let source = problem
            .source()
            .and_then(|error| error.downcast_ref::<SourceError>());
        let reason = source.and_then(SourceError::reason::<AssetError>);
        assert!(
            matches!(reason, Some(AssetError::Silent { .. })),
            "{source:?}"
        );
    }
}

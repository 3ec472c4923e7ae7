//! The type [`Asset`]: one public file, its kind and its encoding.

use bytes::Bytes;

/// A public file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Path in the static CT API, relative to the monitoring prefix: `checkpoint`,
    /// `tile/0/x001/234.p/5`, `issuer/<fingerprint>`.
    pub path: String,
    /// The content, already encoded.
    pub bytes: Bytes,
    /// Kind of file, which decides the HTTP headers.
    pub kind: AssetKind,
}

impl Asset {
    /// Creates an asset of `kind` at `path`.
    pub fn new(path: impl Into<String>, bytes: impl Into<Bytes>, kind: AssetKind) -> Self {
        Self {
            path: path.into(),
            bytes: bytes.into(),
            kind,
        }
    }
}

/// The kinds of public files (static-ct-api, "Monitoring APIs").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AssetKind {
    /// The signed tree head; the only file that changes.
    Checkpoint,
    /// A tile of Merkle tree hashes, full or partial.
    HashTile,
    /// A tile of entries.
    DataTile {
        /// The encoding of the bytes.
        encoding: Encoding,
    },
    /// The names of the entries of a data tile, gzipped JSON lines (the names tiles extension).
    NamesTile,
    /// A DER certificate of a chain, named after its SHA-256.
    Issuer,
    /// `log.v3.json`: the log's metadata.
    LogJson,
}

/// The encodings of stored bytes, named as in `Content-Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// No encoding.
    Identity,
    /// Gzip (RFC 1952).
    Gzip,
}

impl AssetKind {
    /// Returns the `Content-Type` of the file.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Checkpoint => "text/plain; charset=utf-8",
            Self::HashTile | Self::DataTile { .. } => "application/octet-stream",
            Self::NamesTile => "application/jsonl; charset=utf-8",
            Self::Issuer => "application/pkix-cert",
            Self::LogJson => "application/json",
        }
    }

    /// Returns the `Cache-Control` of the file. Tiles (full and partial) and issuers never change;
    /// a checkpoint is replaced in every round.
    pub fn cache_control(self) -> &'static str {
        match self {
            Self::Checkpoint => "public, max-age=2",
            Self::HashTile | Self::DataTile { .. } | Self::NamesTile | Self::Issuer => {
                "public, max-age=31536000, immutable"
            }
            Self::LogJson => "public, max-age=300",
        }
    }

    /// Returns the `Content-Encoding` of the stored bytes, if any.
    pub fn content_encoding(self) -> Option<&'static str> {
        match self {
            Self::DataTile {
                encoding: Encoding::Gzip,
            }
            | Self::NamesTile => Some("gzip"),
            _ => None,
        }
    }
}

//! A file as it is stored, with its encoding and its checksum.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_storage::{Encoding, OpenFile};
use xxhash_rust::xxh3::xxh3_128;

use lucarne_ctread::gunzip;

/// A tile or issuer as it is stored.
#[derive(Clone, Debug)]
pub struct StoredFile {
    /// The stored bytes.
    pub bytes: Bytes,
    /// The encoding of the bytes.
    pub encoding: Encoding,
    /// An open file with exactly these bytes; `None` unless sending from the file is faster.
    pub file: Option<Arc<OpenFile>>,
    /// The decoded bytes; `None` if they are not in memory.
    pub plain: Option<Bytes>,
    /// A checksum of the stored bytes (XXH3), which identifies them.
    pub sum: u128,
}

impl StoredFile {
    /// Creates a file from bytes in this encoding.
    pub fn new(bytes: Bytes, encoding: Encoding) -> Self {
        StoredFile {
            sum: xxh3_128(&bytes),
            bytes,
            encoding,
            file: None,
            plain: None,
        }
    }

    /// Creates a file from bytes that are not encoded.
    pub(crate) fn identity(bytes: Bytes) -> Self {
        Self::new(bytes, Encoding::Identity)
    }

    /// Returns the decoded bytes.
    ///
    /// # Errors
    /// If the bytes cannot be decoded. This is unlikely, because the bytes could be decoded when
    /// they were read.
    pub fn unpacked(&self) -> std::io::Result<Bytes> {
        match (&self.plain, self.encoding) {
            (Some(plain), _) => Ok(plain.clone()),
            (None, Encoding::Identity) => Ok(self.bytes.clone()),
            (None, Encoding::Gzip) => gunzip(self.bytes.clone()),
        }
    }
}

//! The reader of static CT logs (C2SP static-ct-api): from a source of files to verified entries.
//!
//! ```text
//! Source → checkpoint → right edge → VerifiedTree → hash tiles → data tiles → entries
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`Source`], [`SourceError`] | where the files of a log come from |
//! | `Directory`, `Bucket` (feature `storage`) | files in a directory or a bucket |
//! | `Archive` (feature `archive`) | the zip files of an archived log |
//! | `Prefix` (feature `http`) | files below a URL, with retries as the server requests |
//! | [`Client`], [`VerifiedEntries`] | a checkpoint, then its entries from any index |
//! | [`VerifiedTree`], [`load_edge`] | the part of the tree that other tiles are compared with |
//! | [`tile()`], [`stored`], [`plain`], [`cut`], [`prefix`] | tiles as any software stores them |
//! | [`TileContent`], [`leaves`] | the entries of a data tile, and their hashes |
//! | [`gunzip`], [`gunzip_entries`] | decompression within bounds |
//! | [`read_ahead`] | concurrent reads in order, bounded by their bytes |
//! | [`issuer`] | a certificate of a chain |
//! | [`ReadError`], [`Problem`] | the reasons why a file cannot be used |
//!
//! A monitor of a log prints all entries, and continues with new entries:
//!
//! ```
//! use std::{error::Error, pin::pin, sync::Arc, time::Duration};
//!
//! use futures_util::StreamExt;
//! use lucarne_ct::CheckpointVerifier;
//! use lucarne_ctread::{Client, Source};
//!
//! async fn monitor(files: Arc<dyn Source>, origin: &str, key: &[u8]) -> Result<(), Box<dyn Error>> {
//!     let mut log = Client::new(files, CheckpointVerifier::new(origin, key)?);
//!     let mut next = 0;
//!     loop {
//!         let (checkpoint, _) = log.advance().await?;
//!         let mut tiles = pin!(log.entries(next));
//!         while let Some(tile) = tiles.next().await {
//!             for entry in tile?.entries() {
//!                 println!("{} {:?}", entry.index, entry.leaf.signed);
//! #               assert_eq!(entry.index, entry.leaf.index);
//! #               next += 1;
//!             }
//!         }
//! #       assert_eq!((next, checkpoint.size), (300, 300));
//! #       if next == 300 { return Ok(()); }
//!         next = checkpoint.size;
//!         tokio::time::sleep(Duration::from_secs(60)).await;
//!     }
//! }
//! # struct Files(std::collections::HashMap<String, Vec<u8>>);
//! # use lucarne_ctread::SourceError;
//! # #[async_trait::async_trait]
//! # impl Source for Files {
//! #     async fn read(&self, path: &str) -> Result<Option<bytes::Bytes>, SourceError> {
//! #         Ok(self.0.get(path).cloned().map(Into::into))
//! #     }
//! # }
//! # use lucarne_ct::{LogKey, SignedEntryRef, TileLeafRef};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn Error>> {
//! #     let mut data = vec![Vec::new(), Vec::new()];
//! #     let (mut leaves, mut buffer) = (Vec::new(), Vec::new());
//! #     for index in 0..300_u64 {
//! #         let [.., a, b, c, d, e] = index.to_be_bytes();
//! #         let extensions = [0, 0, 5, a, b, c, d, e];
//! #         let signed = SignedEntryRef::X509 { certificate: b"certificate" };
//! #         let fingerprints = Default::default();
//! #         let (timestamp, extensions, precertificate) = (7, &extensions, None);
//! #         let leaf =
//! #             TileLeafRef { timestamp, signed, extensions, precertificate, index, fingerprints };
//! #         leaf.encode(&mut data[index as usize / 256]);
//! #         leaves.push(leaf.leaf_hash(&mut buffer));
//! #     }
//! #     let mut edge = lucarne_tlog::RightEdge::new();
//! #     let tiles = edge.append(&leaves).into_iter().map(|(tile, bytes)| (tile.path(), bytes));
//! #     let mut files: std::collections::HashMap<_, _> = tiles.collect();
//! #     files.insert("tile/data/001.p/44".into(), data.pop().unwrap());
//! #     files.insert("tile/data/000".into(), data.pop().unwrap());
//! #     let key = LogKey::from_seed(&[7; 32])?;
//! #     let note = key.sign_checkpoint("log.example", 300, &edge.root(), 1_767_225_600_000)?;
//! #     files.insert("checkpoint".into(), note.into_bytes());
//! #     monitor(Arc::new(Files(files)), "log.example", key.public_key_spki()).await
//! # }
//! ```

#[cfg(feature = "archive")]
mod archive;
mod client;
mod gunzip;
#[cfg(feature = "http")]
mod http;
mod read_ahead;
mod source;
#[cfg(feature = "storage")]
mod storage;
mod tile;
mod tree;

#[cfg(feature = "archive")]
pub use archive::{ARCHIVE_WIDTH, Archive};
pub use client::{Client, VerifiedEntries};
pub use gunzip::{GZIP_HEADER, gunzip, gunzip_entries, gunzip_into, is_gzip};
#[cfg(feature = "http")]
pub use http::Prefix;
pub use read_ahead::read_ahead;
pub use source::{Problem, ReadError, Source, SourceError};
#[cfg(feature = "storage")]
pub use storage::{Bucket, Directory};
pub use tile::{
    TileContent, cut, file, hashes, issuer, leaves, plain, prefix, stored, stored_at, tile,
};
pub use tree::{TileHashes, VerifiedTree, load_edge};

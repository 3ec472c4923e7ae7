//! Reads: tiles, issuers and proofs, for clients and for the log itself.
//!
//! ```text
//! request → reader → read_cache → verified_tiles → stored_tiles → storage
//! ```
//!
//! The `reader` serves a file only after a published checkpoint covers the file, and only if the
//! file matches the tree (`verified_tiles`). Files that do not match are in the list
//! `damaged_files`. `edge` computes damaged tiles at the right edge of a tree. Concurrent requests
//! share one read (`single_flight`). `feed` and `proofs` compute other responses from verified
//! tiles.

pub(crate) mod damaged_files;
pub(crate) mod edge;
pub(crate) mod feed;
pub(crate) mod negative_cache;
pub(crate) mod proofs;
pub(crate) mod read_cache;
pub(crate) mod reader;
pub(crate) mod single_flight;
pub(crate) mod stored_tiles;
pub(crate) mod verified_tiles;

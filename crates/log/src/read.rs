//! Reads: tiles, issuers and proofs, for clients and for the log itself.
//!
//! ```text
//! request → reader → read_cache → verified_tiles → stored_tiles → storage
//! ```
//!
//! The `reader` serves a file only after its checkpoint is published, and the file must match the
//! tree (`verified_tiles`). Concurrent requests share one read (`single_flight`). The encodings of
//! tiles are in `compress`, `gzip` and `names_tile`. `feed`, `proofs` and `rfc6962` compute other
//! responses from verified tiles.

pub(crate) mod compress;
pub(crate) mod feed;
pub(crate) mod gzip;
pub(crate) mod names_tile;
pub(crate) mod negative_cache;
pub(crate) mod proofs;
pub(crate) mod read_ahead;
pub(crate) mod read_cache;
pub(crate) mod reader;
pub(crate) mod rfc6962;
pub(crate) mod single_flight;
pub(crate) mod stored_tiles;
pub(crate) mod verified_tiles;

//! Common code to read (`ct`) and create (`mint`) certificates: DER, object identifiers, times, PEM
//! and fingerprints.
//!
//! ```text
//! PEM → DER → reader → Oid, Time → certificate (ct)
//! certificate (mint) → writer → DER → PEM
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`pem`] | PEM (RFC 7468), parsed by the rules of OpenSSL |
//! | [`der`], [`Der`], [`DerError`] | a tolerant reader, and a writer that can write invalid DER |
//! | [`oid`], [`Oid`] | object identifiers |
//! | [`time`], [`Time`], [`TimeForm`] | times in certificates |
//! | [`algorithm()`] | encoded algorithm identifiers |
//! | [`Fingerprint`] | fingerprints of certificates |
//!
//! Nothing here does I/O, or depends on the structure of certificates. Only [`now_ms`] and
//! [`Time::now`] read the clock.

mod algorithm;
pub mod der;
mod fingerprint;
pub mod oid;
pub mod pem;
pub mod time;

pub use algorithm::algorithm;
pub use der::{Der, DerError, Lengths};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use oid::{Oid, OidError};
pub use time::{Time, TimeForm, now_ms};

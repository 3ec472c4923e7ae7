//! Common code to read (`ct`) and create (`mint`) certificates: [`der`], object identifiers
//! ([`oid`]), times ([`time`]), PEM ([`pem`]) and [`Fingerprint`]s.
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

//! The parts of certificates, for those who read them (`ct`) and those who make them
//! (`mint`): [`der`], object identifiers ([`oid`]), times ([`time`]), PEM ([`pem`])
//! and [`Fingerprint`]s.
//!
//! Nothing here does I/O or knows a certificate from any other structure. The clock is read by
//! [`now_ms`] and [`Time::now`] only.

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

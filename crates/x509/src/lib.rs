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
//! | [`text`] | characters in names that change the display of the text around them; numbers of things |
//! | [`algorithm()`] | encoded algorithm identifiers |
//! | [`Fingerprint`] | fingerprints of certificates |
//!
//! DER that is written and encoded as PEM can be read again:
//!
//! ```
//! use lucarne_x509::der::{Reader, tag};
//! use lucarne_x509::{Der, Oid, Time, pem};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server_auth: Oid = "1.3.6.1.5.5.7.3.1".parse()?;
//! let der = Der::build(|der| {
//!     der.sequence(|der| {
//!         der.oid(&server_auth);
//!         Time::from_unix(0).write(der);
//!     });
//! });
//!
//! let blocks = pem::decode(&pem::encode("EXAMPLE", &der))?;
//! let mut fields = Reader::new(&blocks[0].1).expect(tag::SEQUENCE, "example")?.reader();
//! assert_eq!(fields.expect(tag::OID, "purpose")?.value, server_auth.as_bytes());
//! assert_eq!(Time::read(fields.any("time")?), Some(Time::from_unix(0)));
//! fields.finish("example")?;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here does I/O, or depends on the structure of certificates. Only [`now_ms`] and
//! [`Time::now`] read the clock.

pub mod der;
mod fingerprint;
pub mod oid;
pub mod pem;
pub mod text;
pub mod time;

pub use der::{Der, DerError, Lengths, algorithm};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use oid::{Oid, OidError};
pub use time::{Time, TimeForm, now_ms};

//! Targets for load tests of certificate infrastructure: real servers on loopback, with the
//! configuration of a fleet.
//!
//! ```text
//! Authority → certificates → targets (Fleet) ← requests ← load test
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`Fleet`], [`Ports`] | all targets together, and their ports |
//! | [`Authority`], [`Identity`] | the CA of the targets, and the files of one certificate |
//! | [`Pebble`], [`Names`] | Let's Encrypt's ACME server for tests of clients, and its DNS server |
//! | [`WebServer`], [`Kind`] | nginx, Apache httpd and HAProxy from Debian's packages |
//! | [`F5`] | a stand-in for the iControl REST API of a BIG-IP |
//! | [`Inventory`] | a certificate inventory API on a real PostgreSQL |
//! | [`TlsServer`] | a TLS server for HTTP/1.1 and HTTP/2 |
//!
//! All targets present certificates of one [`Authority`], which is created when the targets start.
//! Dropping a value stops its target. The crate is for tests and for trying plans (`cargo xtask
//! targets up`); no released program uses it.

mod authority;
mod f5;
mod fleet;
mod inventory;
mod names;
mod pebble;
mod server;
mod webserver;

pub use authority::{Authority, Identity};
pub use f5::F5;
pub use fleet::{Fleet, Ports};
pub use inventory::Inventory;
pub use names::Names;
pub use pebble::Pebble;
pub use server::TlsServer;
pub use webserver::{Kind, WebServer};

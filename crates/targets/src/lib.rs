//! The targets of load tests of certificate infrastructure: real
//! servers on loopback, configured as a fleet would.
//!
//! - [`Pebble`], the ACME server that Let's Encrypt tests clients with;
//! - [`WebServer`]: nginx, Apache httpd and HAProxy of Debian's packages;
//! - [`F5`], a stand-in for the iControl REST API of a BIG-IP;
//! - [`Inventory`], a certificate inventory API on a real PostgreSQL.
//!
//! All of them show certificates of one [`Authority`], made when they start.
//! They end with their values. For tests and for people who try plans
//! (`cargo xtask targets up`); used by nothing that ships.

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

//! Tests of every store and lock with real disks, databases and object stores.
#![allow(clippy::unwrap_used)]

mod conformance;
mod faults;
mod lost_writes;
mod nginx;
mod object_lock;
mod objects;
mod posix;
mod server_faults;
mod servers;
mod sqlite;

//! Tests of the client with small servers in the same process.

mod faults;
mod handshake;
mod http;
mod sending;
mod server;

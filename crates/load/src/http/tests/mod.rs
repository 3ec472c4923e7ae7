//! The client against small servers in the same process.

mod faults;
mod http;
mod server;

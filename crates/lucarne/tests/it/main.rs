//! The binary, used as its users do: commands, files and sockets.
#![allow(clippy::unwrap_used)]

mod authorities;
mod bad_disk;
mod bad_input;
mod clock;
mod command_load;
mod common;
mod configuration;
mod corpus;
mod crash;
mod demo;
mod deploy;
mod documentation;
mod faults;
mod flags;
mod full_disk;
mod infrastructure;
mod keygen;
mod load;
mod load_bad_input;
mod load_faults;
mod monitoring;
mod object_faults;
mod object_tls;
mod operator;
mod plans;
mod proxy_clients;
mod proxy_files;
mod proxy_observe;
mod scrub;
mod secret_managers;
mod serve;
mod takeover;
mod trials;
mod watch;
mod wrong_lock;

//! Tools for black-box tests and benchmarks of the `lucarne` binary: real processes that never
//! outlive their test, a plain HTTP client, the corpus of real certificates, and an auditor that
//! checks a log from outside.
//!
//! Not published, and not used by any released program.
//!
//! ```text
//! test ┬→ LogUnderTest → Server (process) → faults → Place: disk, store, database
//!      └→ Client, Audit → requests ─┘
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`LogUnderTest`], [`Place`] | a configured log, and the place of its data and lock |
//! | [`Launch`], [`Server`], [`free_port`] | servers as real processes |
//! | [`Client`], [`raw_exchange`], [`serve_http2`] | HTTP requests, and HTTP/2 frame by frame |
//! | [`tls_client`], [`tls_server`] | TLS with given certificates and protocols |
//! | [`Audit`], [`Report`] | a check of a log from outside |
//! | [`check_exposition`] | a strict check of metrics |
//! | [`PushedLog`] | a log in memory whose entries are uploaded to mirrors |
//! | [`SignedLog`] | a log in memory that signs two histories |
//! | [`Corpus`], [`corpus()`], [`takeover()`] | real certificates, and directories of other logs |
//! | [`ObjectStore`], [`Bucket`], [`DatabaseServer`] | real stores and databases on loopback |
//! | [`Moto`], [`AzureServer`], [`GcsServer`], [`SecretManager`] | cloud services on loopback |
//! | [`StoreProxy`], [`DatabaseProxy`] | network faults in front of stores and databases |
//! | [`BadDisk`], [`SmallDisk`] | disks that fail, hang or are full |
//! | [`Traced`], [`Plan`], [`Disk`], [`Luck`] | traced processes, and disks after power failures |
//! | [`Network`], [`Machine`], [`with_host_names`] | simulated machines and host names |
//! | [`usage`], [`Usage`] | resources that a process has used |
//! | [`temp_dir`], [`go_program`] | temporary directories, and installed programs |
//! | [`eventually`], [`until`], [`in_time`], [`EVENT_TIMEOUT`] | waiting for events |

mod audit;
mod azure;
mod bad_disk;
mod bucket;
mod corpus;
mod database_proxy;
mod databases;
mod exposition;
mod gcs;
mod http;
mod http2;
mod log_under_test;
mod moto;
mod namespace;
mod network;
mod place;
mod power_cut;
mod process;
mod pushed_log;
mod secret_manager;
mod server;
mod service;
mod signed_log;
mod small_disk;
mod store_proxy;
mod stores;
mod takeover;
mod tls;
mod tracer;
mod wait;

pub use audit::{Audit, Report};
pub use azure::AzureServer;
pub use bad_disk::BadDisk;
pub use bucket::Bucket;
pub use corpus::{Case, Corpus, corpus};
pub use database_proxy::{DatabaseProxy, StatementFate};
pub use databases::{DatabaseKind, DatabaseServer};
pub use exposition::check_exposition;
pub use gcs::GcsServer;
pub use http::{Client, Response, is_silence, raw_exchange};
pub use http2::{END_HEADERS, END_STREAM, FrameType, STATUS_200, frame, serve_http2};
pub use log_under_test::LogUnderTest;
pub use moto::Moto;
pub use namespace::{with_host_name, with_host_names};
pub use network::{Machine, Network};
pub use nix::errno::Errno;
pub use place::Place;
pub use power_cut::{Disk, Luck};
pub use process::{Usage, usage};
pub use pushed_log::PushedLog;
pub use rustix::process::Signal;
pub use secret_manager::SecretManager;
pub use server::{Launch, Server, free_port};
pub use signed_log::SignedLog;
pub use small_disk::SmallDisk;
pub use store_proxy::{Fate, StoreProxy};
pub use stores::{ObjectStore, go_program};
pub use takeover::takeover;
pub use tempfile::TempDir;
pub use tls::{tls_client, tls_server};
pub use tracer::{Change, Plan, Recorded, Strike, Traced, tracing_is_permitted};
pub use wait::{EVENT_TIMEOUT, block_until, eventually, in_time, until};

/// Creates a directory that is removed with the value, or at the end of the test run.
///
/// # Panics
/// If the system cannot create the directory.
pub fn temp_dir() -> TempDir {
    let run = std::env::var_os(lucarne_mint::testing::RUN);
    let parent = run.map_or_else(std::env::temp_dir, std::path::PathBuf::from);
    tempfile::Builder::new()
        .prefix("lucarne-test-")
        .tempdir_in(parent)
        .unwrap_or_else(|error| panic!("cannot create a temporary directory: {error}"))
}

/// Writes a secret to a file that only its owner can read, as the product requires.
///
/// # Panics
/// If the file cannot be written.
pub fn write_secret(path: impl AsRef<std::path::Path>, secret: impl AsRef<[u8]>) {
    use std::os::unix::fs::PermissionsExt;
    let path = path.as_ref();
    std::fs::write(path, secret)
        .and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

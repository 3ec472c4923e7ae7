//! Common parts of the tests of the binary.
#![allow(dead_code)]

pub(crate) mod aside;
pub(crate) mod cases;
pub(crate) mod load;
pub(crate) mod load_test;
pub(crate) mod site;
pub(crate) mod tls;

use std::path::Path;
use std::process::Output;

use lucarne_mint::testing::Pki;
use lucarne_mint::{Authority, LeafOptions};
pub(crate) use lucarne_testkit::{EVENT_TIMEOUT, eventually};
use lucarne_testkit::{Launch, LogUnderTest, Place};

/// The binary under test.
pub(crate) const LUCARNE: &str = env!("CARGO_BIN_EXE_lucarne");
/// MiB of a disk that a test fills: enough for logs, and quickly full.
pub(crate) const SMALL: u32 = 24;

/// Returns the test authorities, created once.
pub(crate) fn pki() -> &'static Pki {
    Pki::shared()
}

/// Creates a log that accepts the test authorities' root.
pub(crate) fn log(settings: &str) -> LogUnderTest {
    log_at(Place::directory(), settings)
}

/// Creates a log with its data and lock in `place`.
pub(crate) fn log_at(place: Place, settings: &str) -> LogUnderTest {
    let roots = pki().root.certificate_pem();
    LogUnderTest::create_at(place, LUCARNE, &roots, settings).unwrap()
}

/// Returns the body of an add-chain request with a new certificate.
pub(crate) fn submission(authority: &Authority) -> String {
    let leaf = LeafOptions::with_key(["www.example.com"], pki().leaf_key.clone());
    authority.chain(authority.issue(&leaf).unwrap()).to_json()
}

/// Runs `lucarne` in `directory` to its end, and returns the exit code and the whole output.
pub(crate) fn lucarne(directory: &Path, args: &[&str]) -> (i32, String) {
    let output = Launch::new(LUCARNE)
        .args(args)
        .directory(directory)
        .run()
        .unwrap();
    (output.status.code().unwrap_or(-1), all(&output))
}

pub(crate) fn all(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Asserts that `text` contains `part`.
#[track_caller]
pub(crate) fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "no {part:?} in:\n{text}");
}

/// Replaces `from` in a file by `to`; `from` must occur.
#[track_caller]
pub(crate) fn edit(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert_has(&text, from);
    std::fs::write(file, text.replace(from, to)).unwrap();
}

/// Runs a future of the asynchronous client on a new runtime.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Waits until the log accepts submissions. Reads work a little earlier.
pub(crate) async fn ready(log: &LogUnderTest) {
    let site = lucarne_testkit::Client::new(format!("http://{}", log.address()));
    eventually("the log is healthy", async || {
        let answer = site.get("health").await;
        answer.is_ok_and(|answer| answer.status == 200)
    })
    .await;
}

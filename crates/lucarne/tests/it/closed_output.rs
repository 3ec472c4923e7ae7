//! Commands whose output cannot be written report that and never panic.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use lucarne_testkit::LogUnderTest;

use crate::common::{LUCARNE, assert_has, pki};

fn run_with(directory: &Path, args: &[&str], stdout: Stdio) -> Output {
    Command::new(LUCARNE)
        .args(args)
        .current_dir(directory)
        .stdout(stdout)
        .output()
        .unwrap()
}

/// Returns a pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

#[test]
fn a_full_or_closed_standard_output_is_no_panic() {
    let log = LogUnderTest::prepare(LUCARNE, &pki().root.certificate_pem(), "").unwrap();
    fs::write(log.path().join("ca.pem"), pki().root.certificate_pem()).unwrap();
    let plan = "scenarios:\n  s: {scenario: rest, executor: constant-vus, vus: 1, duration: 1s, \
                options: {url: 'http://127.0.0.1:9/'}}\n";
    fs::write(log.path().join("plan.yaml"), plan).unwrap();
    for args in [
        &["keygen", "-f", "new.bin"][..],
        &["init"],
        &["check"],
        &["config", "show"],
        &["fsck"],
        &["lock", "show"],
        &["journal", "list"],
        &["load", "check", "plan.yaml"],
        &["ca", "inspect", "ca.pem"],
        &["lint", "ca.pem"],
    ] {
        let output = run_with(log.path(), args, full());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        assert_has(
            &said,
            "standard output cannot be written: No space left on device",
        );
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        // A reader that closes the pipe early has all the output that it wanted.
        let output = run_with(log.path(), args, closed());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        assert!(!said.contains("cannot be written"), "{args:?}: {said}");
        assert_ne!(output.status.code(), Some(101), "{args:?}: {said}");
    }
    let output = run_with(log.path(), &["keygen", "-f", "new.bin"], closed());
    assert_eq!(output.status.code(), Some(0));
}

//! A private view of the file systems for one test: its mounts are invisible to other processes,
//! and end with the test.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::Launch;

const INSIDE: &str = "LUCARNE_TEST_NAMESPACE";
/// Name of the file next to the directory that shows that the test has run inside.
const ENTERED: &str = "entered";

/// Runs the test program again inside a new mount namespace (and, for users other than root, a user
/// namespace), with `more` options of `unshare`, for the test named `test` alone. Returns an empty
/// directory inside. Outside, returns `None` after the test has passed, or if the system permits no
/// namespaces: then the test is skipped. No other test's name may contain `test`, because names are
/// selected by substring.
///
/// # Panics
/// If the test was not run or has not passed.
pub(crate) fn enter(test: &str, more: &[&str]) -> Option<PathBuf> {
    if let Ok(place) = std::env::var(INSIDE) {
        let place = PathBuf::from(place);
        let entered = place.with_file_name(ENTERED);
        fs::File::create_new(entered).expect("one test has this name");
        return Some(place);
    }
    if !permitted(more) {
        return None;
    }
    let around = crate::temp_dir();
    let place = around.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let mut command = unshare(more);
    command.arg(std::env::current_exe().expect("the test's own file"));
    command.args([test, "--nocapture"]);
    let status = command.env(INSIDE, &place).status();
    let status = status.expect("`unshare` (package util-linux) is needed for this test");
    assert!(status.success(), "failed inside a namespace");
    let entered = around.path().join(ENTERED).exists();
    assert!(entered, "`{test}` was not run: check the name of the test");
    None
}

/// Returns the command `unshare` with new namespaces, for the program in its next argument.
fn unshare(more: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.arg("--mount").args(more);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

/// Returns whether the system permits these namespaces, and prints why the test is skipped if not.
fn permitted(more: &[&str]) -> bool {
    let output = unshare(more).arg("true").output();
    let output = output.expect("`unshare` (package util-linux) is needed for this test");
    if !output.status.success() {
        println!(
            "skipped: `unshare` is not permitted here ({}): run as root, or allow unprivileged \
             user namespaces",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    output.status.success()
}

/// Returns the launch of `program` under another host name, with the same files. Returns `None` if
/// the system permits no namespaces: then the test is skipped.
pub fn with_host_name(name: &str, program: &str) -> Option<Launch> {
    const NAMESPACE: &[&str] = &["--uts"];
    if !permitted(NAMESPACE) {
        return None;
    }
    let unshare = unshare(NAMESPACE);
    let launch = Launch::new(unshare.get_program()).args(unshare.get_args());
    let script = "hostname \"$0\" && exec \"$@\"";
    Some(launch.args(["sh", "-c", script, name, program]))
}

/// Runs `test` with these host names resolved to loopback, and no others. Returns `false` outside,
/// after the test has passed inside or is skipped.
///
/// # Panics
/// If the test has not passed.
pub fn with_host_names(test: &str, names: &[&str]) -> bool {
    let Some(place) = enter(test, &[]) else {
        return false;
    };
    let hosts = place.join("hosts");
    let line = format!("127.0.0.1 localhost {}\n", names.join(" "));
    fs::write(&hosts, line).expect("a file of host names");
    mount(&["--bind", &hosts.to_string_lossy(), "/etc/hosts"]);
    true
}

/// Runs `mount`.
///
/// # Panics
/// If the command fails.
pub(crate) fn mount(arguments: &[&str]) {
    let status = Command::new("mount").args(arguments).status();
    let status = status.expect("`mount` is needed for this test");
    assert!(status.success(), "mount {arguments:?}");
}

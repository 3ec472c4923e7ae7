//! A test's own view of the file systems: what it mounts there, nobody else
//! sees, and it is gone with the test.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

const INSIDE: &str = "LUCARNE_TEST_NAMESPACE";
/// Beside the directory: the test has run inside.
const ENTERED: &str = "entered";

/// Runs the test program again inside a new mount namespace (and, for users
/// other than root, a user namespace), and whatever `more` of `unshare` says, for
/// the test named `test` alone. Returns
/// an empty directory inside; outside, `None` once the test has passed. No other
/// test's name may contain `test`, for names select by their parts.
///
/// # Panics
/// If it was not run, has not passed, or the system permits no namespaces: the
/// message says how to allow them.
pub(crate) fn enter(test: &str, more: &[&str]) -> Option<PathBuf> {
    if let Ok(place) = std::env::var(INSIDE) {
        let place = PathBuf::from(place);
        let entered = place.with_file_name(ENTERED);
        fs::File::create_new(entered).expect("one test has this name");
        return Some(place);
    }
    let around = crate::temp_dir();
    let place = around.path().join("place");
    fs::create_dir(&place).expect("a directory");
    let mut command = Command::new("unshare");
    command.arg("--mount").args(more);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg(std::env::current_exe().expect("the test's own file"));
    command.args([test, "--nocapture"]);
    let status = command.env(INSIDE, &place).status();
    let status = status.expect("`unshare` (package util-linux) is needed for this test");
    assert!(
        status.success(),
        "failed inside a namespace. If `unshare` or `mount` says it is not permitted: run as \
         root, or allow unprivileged user namespaces (sysctl \
         kernel.unprivileged_userns_clone=1)"
    );
    let entered = around.path().join(ENTERED).exists();
    assert!(entered, "`{test}` was not run: is that its name?");
    None
}

/// Runs `test` where these names, and no others, lead to loopback. False
/// outside, once it has passed inside.
///
/// # Panics
/// If it has not passed, or the system permits no namespaces.
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
/// If it fails.
pub(crate) fn mount(arguments: &[&str]) {
    let status = Command::new("mount").args(arguments).status();
    let status = status.expect("`mount` is needed for this test");
    assert!(status.success(), "mount {arguments:?}");
}

//! Only the same user and root may take over, and only from the same user.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lucarne_testkit::{Launch, temp_dir};

use super::log_that_hands_over;
use super::peer::hello;
use crate::common::{EVENT_TIMEOUT, all, assert_has, edit, lucarne, ready, run};

/// The user `nobody`. Tests run as root.
const NOBODY: &str = "65534";

/// Runs a Python script as `nobody`.
fn as_nobody(script: &str, arguments: &[&str]) -> Launch {
    let user = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
    let python = ["/usr/bin/env", "python3", "-c", script];
    Launch::new("setpriv")
        .args(user)
        .args(python)
        .args(arguments.iter().copied())
        .directory("/")
}

#[test]
fn another_user_is_refused() {
    let log = log_that_hands_over("", "");
    let place = temp_dir();
    let socket = place.path().join("handover.sock");
    edit(
        &log.configuration(),
        "handover: handover.sock",
        &format!("handover: {}", socket.display()),
    );
    let mut server = log.start().unwrap();
    run(ready(&log));
    assert_eq!(
        fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // Refused even if the file permissions allow the connection.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let script = "import socket, sys\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.connect(sys.argv[1])\n\
        s.sendall(sys.argv[2].encode() + b'\\n')\n\
        print(s.makefile().readline())";
    let asked = as_nobody(
        script,
        &[socket.to_str().unwrap(), &hello(&log).to_string()],
    );
    let said = all(&asked.run().unwrap());
    assert_has(&said, "refused");
    assert_has(&said, &format!("not user {NOBODY}"));
    assert!(!said.contains("offer"), "{said}");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn nothing_is_taken_from_another_user() {
    let log = log_that_hands_over("", "");
    let place = temp_dir();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let socket = place.path().join("handover.sock");
    edit(
        &log.configuration(),
        "handover: handover.sock",
        &format!("handover: {}", socket.display()),
    );
    let script = "import socket, sys\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.bind(sys.argv[1])\n\
        s.listen()\n\
        print('listening', flush=True)\n\
        s.accept()[0].recv(1)";
    let mut squatter = as_nobody(script, &[socket.to_str().unwrap()])
        .spawn()
        .unwrap();
    squatter
        .wait_for_output("listening", EVENT_TIMEOUT)
        .unwrap();
    let (code, said) = lucarne(log.path(), &["serve", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, &format!("runs as user {NOBODY}"));
}

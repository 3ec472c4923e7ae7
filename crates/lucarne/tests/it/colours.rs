//! Colours on a terminal, and none if `NO_COLOR` is set (<https://no-color.org>).

use std::process::Command;

use lucarne_testkit::temp_dir;

use crate::common::LUCARNE;

/// Runs a command on its own terminal until it has logged a warning, and prints the whole output.
const ON_TERMINAL: &str = r"
import os, pty, signal, sys
signal.alarm(60)
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said = b''
while b'certificates of servers are not verified' not in said:
    said += os.read(terminal, 4096) or sys.exit(said)
os.kill(child, signal.SIGTERM)
sys.stdout.buffer.write(said)
";

/// Returns the output of `lucarne proxy` at startup.
fn said(no_color: &str) -> String {
    let home = temp_dir();
    let output = Command::new("python3")
        .args(["-c", ON_TERMINAL, LUCARNE])
        .args(["proxy", "--no-ui", "--insecure", "--listen", "127.0.0.1:0"])
        .current_dir(home.path())
        .env("NO_COLOR", no_color)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn no_color_is_honoured() {
    let (coloured, plain) = (said(""), said("1"));
    assert!(coloured.contains("\u{1b}["), "{coloured:?}");
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
}

//! Commands with a live view whose terminal is closed: each can still be stopped, and a load test
//! goes on and writes its summary.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use lucarne_testkit::{EVENT_TIMEOUT, Launch, Server, Signal, temp_dir};

use crate::common::{LUCARNE, assert_has, log, ready, run};

/// Runs a command on its own terminal, closes the terminal after the command has written the first
/// argument, forwards SIGTERM to the command, and exits with its code.
const CLOSING: &str = r"
import fcntl, os, pty, signal, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    os.environ['TERM'] = 'xterm'
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 30, 100, 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
def end(*_):
    os.kill(child, signal.SIGKILL)
signal.signal(signal.SIGALRM, end)
def forward(*_):
    os.kill(child, signal.SIGTERM)
signal.signal(signal.SIGTERM, forward)
signal.alarm(110)
said = b''
while sys.argv[1].encode() not in said:
    try:
        said += os.read(terminal, 4096)
    except OSError:
        break
os.close(terminal)
print('closed after', said, flush=True)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

/// Starts of the live view: the alternate screen.
const VIEW: &str = "\x1b[?1049h";

fn on_closing_terminal(home: &Path, until: &str, args: &[&str]) -> Server {
    let mut server = Launch::new("python3")
        .args(["-c", CLOSING, until, LUCARNE])
        .args(args)
        .directory(home)
        .spawn()
        .unwrap();
    server
        .wait_for_output("closed after", EVENT_TIMEOUT)
        .unwrap();
    server
}

/// Returns the URL of a server, and its requests.
fn target() -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (served, requests) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|length| length > 0) {
                let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                if stream.write_all(response).is_err() || served.send(()).is_err() {
                    break;
                }
            }
        }
    });
    (url, requests)
}

#[test]
fn a_load_test_goes_on_and_writes_its_summary() {
    let home = temp_dir();
    let (url, requests) = target();
    let args = ["load", "rest", "--url", &url, "--vus=1", "--duration=1h"];
    let args = [&args[..], &["--summary=s.json"]].concat();
    let mut load = on_closing_terminal(home.path(), VIEW, &args);
    let before = requests.try_iter().count();
    for _ in 0..100 {
        requests.recv_timeout(EVENT_TIMEOUT).unwrap();
    }
    load.signal(Signal::TERM).unwrap();
    let status = load.wait(EVENT_TIMEOUT).unwrap();
    // 105: interrupted, and all reports are written.
    assert_eq!(status.code(), Some(105), "{}", load.output());
    let summary = std::fs::read_to_string(home.path().join("s.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let completed = summary["scenarios"][0]["completed"].as_u64().unwrap();
    assert!(completed >= before as u64 + 99, "{completed}, {before}");
}

#[test]
fn the_proxy_stops_at_a_signal() {
    let home = temp_dir();
    let args = ["proxy", "--listen=127.0.0.1:0"];
    let mut proxy = on_closing_terminal(home.path(), VIEW, &args);
    let status = proxy.stop(EVENT_TIMEOUT).unwrap();
    assert_eq!(status.code(), Some(0), "{}", proxy.output());
}

#[test]
fn watch_ends() {
    let log = log("");
    let _server = log.start().unwrap();
    run(ready(&log));
    let home = temp_dir();
    let mut watch = on_closing_terminal(home.path(), "unchanged", &["watch", &log.url()]);
    watch.wait(EVENT_TIMEOUT).unwrap();
    assert_has(&watch.output(), "unchanged");
}

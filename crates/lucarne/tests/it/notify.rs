//! The messages that a service manager receives (`sd_notify(3)`).

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::time::Instant;

use lucarne_testkit::{Client, Launch, Signal, temp_dir, write_secret};

use crate::common::{EVENT_TIMEOUT, LUCARNE, log, pki, run, submission};
use crate::signer::apart::Apart;

/// The socket of a service manager, and the messages so far.
struct Manager {
    socket: UnixDatagram,
    messages: Vec<String>,
}

impl Manager {
    fn of(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        Manager {
            socket,
            messages: Vec::new(),
        }
    }

    /// A socket in this directory, and its path.
    fn at(directory: &Path) -> (Self, PathBuf) {
        let path = directory.join("notify.sock");
        (Self::of(UnixDatagram::bind(&path).unwrap()), path)
    }

    /// Waits for a message with this line, from message `from` on, and returns its number.
    #[track_caller]
    fn wait_for(&mut self, from: usize, line: &str) -> usize {
        let deadline = Instant::now() + EVENT_TIMEOUT;
        let mut number = from;
        loop {
            while let Some(message) = self.messages.get(number) {
                if message.lines().any(|found| found == line) {
                    return number;
                }
                number += 1;
            }
            let mut bytes = [0; 1024];
            match self.socket.recv(&mut bytes) {
                Ok(read) if Instant::now() < deadline => {
                    let text = String::from_utf8(bytes[..read].to_vec()).unwrap();
                    self.messages.push(text);
                }
                _ => panic!("no {line:?} in {:?}", self.messages),
            }
        }
    }

    /// The value of a variable in a message.
    fn value(&self, number: usize, name: &str) -> &str {
        let mut lines = self.messages[number].lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {name} in {:?}", self.messages[number]))
    }
}

#[test]
fn a_server_reports_start_status_progress_reload_and_stop() {
    let log = log("period: 100");
    let (mut manager, path) = Manager::at(log.path());
    let launch = log.launch("serve").env("NOTIFY_SOCKET", path);
    let launch = launch.env("WATCHDOG_USEC", "4000000");
    let mut server = launch.start(log.address()).unwrap();
    let ready = manager.wait_for(0, "READY=1");
    assert_eq!(manager.value(ready, "MAINPID"), server.pid().to_string());
    // The log is open: a submission need not wait for it.
    let site = Client::new(format!("http://{}", log.address()));
    let health = run(site.get("health")).unwrap().text();
    assert!(!health.contains("starting"), "{health}");
    manager.wait_for(0, "STATUS=test: 0 entries, running");
    let client = log.client();
    let submitted = client.post("ct/v1/add-chain", submission(&pki().p256));
    assert_eq!(run(submitted).unwrap().status, 200);
    manager.wait_for(0, "STATUS=test: 1 entry, running");
    // The watchdog gets messages even without submissions.
    let fed = manager.wait_for(0, "WATCHDOG=1");
    manager.wait_for(fed + 1, "WATCHDOG=1");

    server.signal(Signal::HUP).unwrap();
    let reloading = manager.wait_for(ready + 1, "RELOADING=1");
    let time: u64 = manager.value(reloading, "MONOTONIC_USEC").parse().unwrap();
    assert!(time > 0);
    let reloaded = manager.wait_for(reloading + 1, "READY=1");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    manager.wait_for(reloaded + 1, "STOPPING=1");
}

/// A log that cannot be opened does not affect the other logs and their readers.
#[test]
fn a_log_without_its_directory_does_not_hold_up_the_server() {
    let log = log("");
    fs::rename(log.data(), log.path().join("elsewhere")).unwrap();
    let (mut manager, path) = Manager::at(log.path());
    let launch = log.launch("serve").env("NOTIFY_SOCKET", path);
    let mut server = launch.start(log.address()).unwrap();
    manager.wait_for(0, "READY=1");
    manager.wait_for(0, "STATUS=test: 0 entries, stopped");
    server.stop(EVENT_TIMEOUT).unwrap();
}

#[test]
fn a_witness_is_in_the_status() {
    let log = log("");
    write_secret(log.path().join("witness.seed"), [5; 32]);
    let section = "witness: {name: witness.example, secret: witness.seed}";
    let yaml = fs::read_to_string(log.configuration()).unwrap();
    fs::write(log.configuration(), format!("{yaml}\n{section}\n")).unwrap();
    let (mut manager, path) = Manager::at(log.path());
    let launch = log.launch("serve").env("NOTIFY_SOCKET", path);
    let mut server = launch.start(log.address()).unwrap();
    manager.wait_for(0, "READY=1");
    manager.wait_for(
        0,
        "STATUS=test: 0 entries, running; witness witness.example",
    );
    server.stop(EVENT_TIMEOUT).unwrap();
}

#[test]
fn a_socket_without_a_path_is_found() {
    let log = log("");
    let name = format!("lucarne-test-{}", log.address());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let mut manager = Manager::of(UnixDatagram::bind_addr(&address).unwrap());
    let launch = log.launch("serve").env("NOTIFY_SOCKET", format!("@{name}"));
    let mut server = launch.start(log.address()).unwrap();
    manager.wait_for(0, "READY=1");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    manager.wait_for(0, "STOPPING=1");
}

#[test]
fn a_signer_reports_start_status_and_stop() {
    let apart = Apart::new();
    let (mut manager, path) = Manager::at(apart.log.path());
    let launch = apart.log.command().env("NOTIFY_SOCKET", path);
    let mut signer = apart.start_signer_by(launch);
    let ready = manager.wait_for(0, "READY=1");
    assert_eq!(manager.value(ready, "MAINPID"), signer.pid().to_string());
    let status = format!("STATUS={}: signed 0 entries", apart.log.origin());
    manager.wait_for(0, &status);
    assert_eq!(signer.stop(EVENT_TIMEOUT).unwrap().code(), Some(0));
    manager.wait_for(0, "STOPPING=1");
}

#[test]
fn a_proxy_reports_start_status_reload_and_stop() {
    let home = temp_dir();
    let (mut manager, path) = Manager::at(home.path());
    let launch = Launch::new(LUCARNE)
        .args(["proxy", "--no-ui", "--listen", "127.0.0.1:0"])
        .env("NOTIFY_SOCKET", path)
        .directory(home.path());
    let mut proxy = launch.spawn().unwrap();
    let ready = manager.wait_for(0, "READY=1");
    assert_eq!(manager.value(ready, "MAINPID"), proxy.pid().to_string());
    manager.wait_for(0, "STATUS=0 open connections, 0 requests so far");
    proxy.signal(Signal::HUP).unwrap();
    let reloading = manager.wait_for(ready + 1, "RELOADING=1");
    manager.wait_for(reloading + 1, "READY=1");
    assert!(proxy.stop(EVENT_TIMEOUT).unwrap().success());
    manager.wait_for(0, "STOPPING=1");
}

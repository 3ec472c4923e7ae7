//! Socket activation by systemd: systemd passes sockets, follows the main process by its ID, and
//! sends signals.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};

use lucarne_testkit::{LogUnderTest, free_port};
use rustix::process::{Pid, Signal};

use super::{log_that_hands_over, next};
use crate::common::{
    EVENT_TIMEOUT, LUCARNE, all, assert_has, eventually, log, pki, ready, run, submission,
};

/// Returns `lucarne serve` with a socket, as systemd starts it. The process ID must be in the
/// environment, so a shell sets it and then executes the program.
fn activated(log: &LogUnderTest, socket: &TcpListener) -> Command {
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ exec \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh", LUCARNE, "serve", "-c", "lucarne.yaml"]);
    command
        .env("LISTEN_FDS", "1")
        .env("LISTEN_FDNAMES", "lucarne.socket");
    command.stdin(OwnedFd::from(socket.try_clone().unwrap()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.current_dir(log.path());
    command
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn stop(mut self) -> (Option<i32>, String) {
        rustix::process::kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let status = self.0.wait().unwrap();
        let (mut out, mut said) = (self.0.stdout.take().unwrap(), String::new());
        std::io::Read::read_to_string(&mut out, &mut said).unwrap();
        (status.code(), said)
    }
}

/// Connections wait between two processes in the socket, which systemd keeps open.
#[test]
fn sockets_of_systemd_outlive_the_process() {
    let log = log("");
    let socket = TcpListener::bind(log.address()).unwrap();
    let first = Running(activated(&log, &socket).spawn().unwrap());
    run(async {
        ready(&log).await;
        let client = log.client();
        let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(answer.await.unwrap().status, 200);
        assert_eq!(first.stop().0, Some(0));
        // No process runs, and the client waits.
        let (client, body) = (log.client(), submission(&pki().p256));
        let waiting = tokio::spawn(async move { client.post("ct/v1/add-chain", body).await });
        // The pause lets the client connect first. If it has not on a busy machine, it connects to
        // the second server: the response is the same.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        assert!(!waiting.is_finished());
        let second = Running(activated(&log, &socket).spawn().unwrap());
        // The client also waits until the log is open.
        let answer = waiting.await.unwrap().unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(second.stop().0, Some(0));
    });
}

#[test]
fn a_socket_that_is_not_configured_is_refused() {
    let log = log("");
    let other = TcpListener::bind(("127.0.0.1", free_port())).unwrap();
    let output = activated(&log, &other).output().unwrap();
    let said = all(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_has(&said, "socket lucarne.socket of systemd listens on");
    assert_has(&said, "`listen:`");
}

/// The current program file takes over on SIGUSR2, sent as by `systemctl kill`, and notifies
/// systemd that it is the main process.
#[test]
fn a_signal_upgrades_and_systemd_is_told_of_the_new_process() {
    let log = log_that_hands_over("", "");
    let notified = log.path().join("notify.sock");
    let notifications = UnixDatagram::bind(&notified).unwrap();
    notifications.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    let told = || {
        loop {
            let mut message = [0; 256];
            let read = notifications.recv(&mut message).unwrap();
            let message = String::from_utf8_lossy(&message[..read]).into_owned();
            // Messages with the status come between.
            if let Some(main) = message.strip_suffix("\nREADY=1") {
                let main = main.strip_prefix("MAINPID=").unwrap();
                return main.parse::<u32>().unwrap();
            }
            assert!(message.starts_with("STATUS="), "{message}");
        }
    };
    let launch = log.launch("serve").env("NOTIFY_SOCKET", &notified);
    let mut server = launch.start(log.address()).unwrap();
    assert_eq!(told(), server.pid());
    run(ready(&log));
    server.signal(Signal::USR2).unwrap();
    let new = told();
    assert_ne!(new, server.pid());
    let parent = fs::read_to_string(format!("/proc/{new}/stat")).unwrap();
    assert!(parent.contains("(lucarne)"), "{parent}");
    run(ready(&log));
    let pid = Pid::from_raw(i32::try_from(new).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    run(eventually("the new process has ended", async || {
        let state = fs::read_to_string(format!("/proc/{new}/stat"));
        state.is_err() || state.unwrap().contains(") Z ")
    }));
    assert_eq!(server.wait(EVENT_TIMEOUT).unwrap().code(), Some(0));
    assert_has(&server.output(), "handed over");
}

/// No upgrade is possible without `handover`, and the signal does not end the process.
#[test]
fn without_the_key_there_is_no_upgrade() {
    let log = log("");
    let mut server = log.start().unwrap();
    run(ready(&log));
    server.signal(Signal::USR2).unwrap();
    server
        .wait_for_output("without `handover`", EVENT_TIMEOUT)
        .unwrap();
    let mut second = next(&log);
    assert_eq!(second.wait(EVENT_TIMEOUT).unwrap().code(), Some(1));
    assert_has(&second.output(), "another process uses this address");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

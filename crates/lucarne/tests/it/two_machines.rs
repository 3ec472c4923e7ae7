//! One log in a directory that two machines share, with its lock on a database server. One machine
//! at a time runs the log, and the other waits for its end.

use std::fs;
use std::net::SocketAddr;

use lucarne_testkit::{
    Client, DatabaseKind, DatabaseServer, Launch, LogUnderTest, Place, Server, free_port,
    with_host_name,
};

use crate::common::{
    EVENT_TIMEOUT, LUCARNE, assert_has, eventually, log_at, pki, ready, run, submission,
};

/// The other machine, with its own name, port and cache, and the same data and lock.
struct OtherMachine {
    port: u16,
    server: Server,
}

impl OtherMachine {
    fn start(machine: Launch, log: &LogUnderTest) -> Self {
        let port = free_port();
        let text = fs::read_to_string(log.configuration()).unwrap();
        let cache = format!("{}/cache", log.path().display());
        let text = text
            .replacen(&log.address().to_string(), &format!("127.0.0.1:{port}"), 1)
            .replace(&cache, &format!("{cache}-of-the-other"));
        fs::write(log.path().join("other.yaml"), text).unwrap();
        let launch = machine.args(["serve", "-c", "other.yaml"]);
        let launch = launch.directory(log.path());
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let server = launch.start(address).unwrap();
        OtherMachine { port, server }
    }

    async fn takes(&self) -> bool {
        let url = format!("http://127.0.0.1:{}/test", self.port);
        let client = Client::new(url);
        let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
        answer.await.is_ok_and(|answer| answer.status == 200)
    }
}

fn shared_log() -> LogUnderTest {
    let database = DatabaseServer::shared(DatabaseKind::Postgres).unwrap();
    log_at(Place::directory().with_lock(&database).unwrap(), "")
}

#[test]
fn the_second_machine_waits_until_the_first_has_ended() {
    let Some(machine) = with_host_name("other-machine", LUCARNE) else {
        return;
    };
    let _server = DatabaseServer::shared(DatabaseKind::Postgres).unwrap();
    let log = shared_log();
    let mut first = log.start().unwrap();
    run(async {
        ready(&log).await;
        let mut other = OtherMachine::start(machine, &log);
        other
            .server
            .wait_for_output("is in use by process", EVENT_TIMEOUT)
            .unwrap();
        assert!(!other.takes().await);
        let client = log.client();
        let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(answer.await.unwrap().status, 200);
        // The process dies, and the file system releases its lock.
        first.kill().unwrap();
        eventually("the other machine has the log", async || {
            other.takes().await
        })
        .await;
        // The first machine starts again, and reports which machine runs the log.
        let mut first = log.start().unwrap();
        let said = first
            .wait_for_output("is in use by process", EVENT_TIMEOUT)
            .unwrap();
        assert_has(&said, "of machine `other-machine`");
        assert!(other.takes().await);
        assert!(other.server.stop(EVENT_TIMEOUT).unwrap().success());
        ready(&log).await;
        let report = log.audit().unwrap().run().await.unwrap();
        assert_eq!(report.findings, [""; 0]);
        assert!(report.size >= 3);
        assert!(first.stop(EVENT_TIMEOUT).unwrap().success());
    });
}

/// The file system's lock is only a hint: if both machines hold the directory, one of them notices,
/// and the database lets only one sign.
#[test]
fn two_machines_that_both_have_the_lock_of_the_file_system_fork_nothing() {
    let Some(machine) = with_host_name("other-machine", LUCARNE) else {
        return;
    };
    let _server = DatabaseServer::shared(DatabaseKind::Postgres).unwrap();
    let log = shared_log();
    let mut first = log.start().unwrap();
    run(async {
        ready(&log).await;
        let client = log.client();
        let answer = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(answer.await.unwrap().status, 200);
        fs::remove_file(log.data().join(".lucarne/lock")).unwrap();
        let other = OtherMachine::start(machine, &log);
        eventually("the other machine has the log", async || {
            other.takes().await
        })
        .await;
        let client = log.client();
        let refused = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(refused.await.unwrap().status, 503);
        first
            .wait_for_output("was moved, removed, unmounted or replaced", EVENT_TIMEOUT)
            .unwrap();
        assert!(other.takes().await);
        let report = log.audit().unwrap().run().await.unwrap();
        assert_eq!(report.findings, [""; 0]);
    });
    assert!(first.stop(EVENT_TIMEOUT).unwrap().success());
}

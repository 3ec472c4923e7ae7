//! The root report of CCADB: fetched in the background, and kept.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};

use lucarne_testkit::temp_dir;

use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, assert_has, edit, eventually, log, lucarne, pki, ready, run};

/// A server that accepts connections and never responds.
fn hanging() -> (String, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/report.csv", listener.local_addr().unwrap());
    let (send, connections) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((connection, _)) = listener.accept() {
            if send.send(connection).is_err() {
                return;
            }
        }
    });
    (url, connections)
}

/// The report is requested after the log is open, and shutdown does not wait for the response.
#[test]
fn a_report_of_ccadb_that_hangs_delays_neither_start_nor_stop() {
    let log = log("");
    let pem = pki().root.certificate_pem();
    let csv = format!("\"X.509 Certificate (PEM)\",\"Mozilla Status\"\n\"'{pem}'\",Included\n");
    fs::write(log.path().join("report.csv"), csv).unwrap();
    let roots = format!("roots: {}/roots.pem", log.path().display());
    let source = "ccadbroots: trusted\n    rootsurl: report.csv";
    edit(&log.configuration(), &roots, source);
    let mut server = log.start().unwrap();
    run(ready(&log));
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let (url, connections) = hanging();
    let source = format!("rootsurl: {url}");
    edit(&log.configuration(), "rootsurl: report.csv", &source);
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let client = lucarne_testkit::Client::new(log.url());
        let response = client.post("ct/v1/add-chain", crate::common::submission(&pki().p256));
        assert_eq!(response.await.unwrap().status, 200);
    });
    let _hangs = connections.recv_timeout(EVENT_TIMEOUT).unwrap();
    let output = server.output();
    assert!(!output.contains("cannot get CCADB's roots"), "{output}");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    assert!(!server.output().contains("cannot get CCADB's roots"));
    // The check before startup does not request the report either.
    let (code, said) = lucarne(
        log.path(),
        &["check", "-c", "lucarne.yaml", "--before-start"],
    );
    assert_eq!(code, 0, "{said}");
    assert!(connections.try_recv().is_err(), "{said}");
}

/// A problem on this machine is reported without a request to CCADB. No message has the token of
/// the URL.
#[test]
fn a_missing_file_is_reported_before_the_report_is_requested() {
    let log = log("");
    let (url, connections) = hanging();
    let roots = format!("roots: {}/roots.pem", log.path().display());
    let source =
        format!("extraroots: rotos.pem\n    ccadbroots: trusted\n    rootsurl: {url}?token=hush");
    edit(&log.configuration(), &roots, &source);
    let (code, said) = lucarne(log.path(), &["check"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "rotos.pem does not exist");
    assert_has(
        &said,
        "?token=*** is not requested: correct the problems first",
    );
    assert!(!said.contains("hush"), "{said}");
    assert!(connections.try_recv().is_err(), "{said}");
}

/// The first start has no roots: the log serves reads, and submissions get a 503.
#[test]
fn a_report_of_ccadb_that_hangs_does_not_delay_the_first_start() {
    let log = log("");
    let (url, connections) = hanging();
    let roots = format!("roots: {}/roots.pem", log.path().display());
    let source = format!("ccadbroots: trusted\n    rootsurl: {url}");
    edit(&log.configuration(), &roots, &source);
    let mut server = log.start().unwrap();
    let hangs = connections.recv_timeout(EVENT_TIMEOUT).unwrap();
    let client = lucarne_testkit::Client::new(log.url());
    let site = lucarne_testkit::Client::new(format!("http://{}", log.address()));
    run(async {
        eventually("the log is open", async || {
            let health = site.get("health").await.unwrap().text();
            health.contains("not all roots that the log accepts have been read")
                && health.contains("running")
        })
        .await;
        assert_eq!(client.get("checkpoint").await.unwrap().status, 200);
        let response = client.post("ct/v1/add-chain", crate::common::submission(&pki().p256));
        let response = response.await.unwrap();
        assert_eq!(response.status, 503);
        assert_has(&response.text(), "has not yet read all roots");
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    drop(hangs);
}

#[test]
fn ccadb_roots_are_kept_for_starts_without_network() {
    let log = log("");
    let pem = pki().root.certificate_pem();
    let csv = format!("\"X.509 Certificate (PEM)\",\"Mozilla Status\"\n\"'{pem}'\",Included\n");
    let report = log.path().join("report.csv");
    fs::write(&report, csv).unwrap();
    let roots = format!("roots: {}/roots.pem", log.path().display());
    edit(
        &log.configuration(),
        &roots,
        "ccadbroots: trusted\n    rootsurl: report.csv",
    );
    let serve = || {
        let mut server = log.start().unwrap();
        run(async {
            ready(&log).await;
            let roots = log
                .client()
                .get("ct/v1/get-roots")
                .await
                .unwrap()
                .json()
                .unwrap();
            assert_eq!(roots["certificates"].as_array().unwrap().len(), 1);
        });
        assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
        server.output()
    };
    serve();
    fs::remove_file(&report).unwrap();
    assert_has(&serve(), "now in use: 1 root of");
    fs::remove_dir_all(log.path().join("cache")).unwrap();
    let (code, said) = lucarne(log.path(), &["serve", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1);
    assert_has(&said, "cannot get CCADB's roots");
}

/// A report that cannot be fetched is not requested again for each log.
#[test]
fn a_report_that_failed_is_asked_for_once() {
    let requests = |logs: &[&str]| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/report.csv", listener.local_addr().unwrap());
        let settings = format!("ccadbroots: trusted\nrootsurl: {url}");
        let logs = logs.iter().map(|name| (*name, settings.clone()));
        let site = Site::prepare(temp_dir(), logs);
        let (send, counted) = mpsc::channel();
        // The server closes every connection at once.
        std::thread::spawn(move || {
            while let Ok((connection, _)) = listener.accept() {
                // Count before the client can notice the closed connection.
                let _ = send.send(());
                drop(connection);
            }
        });
        let (code, said) = site.lucarne(&["check"]);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "cannot get CCADB's roots");
        counted.try_iter().count()
    };
    let one = requests(&["a"]);
    assert!(one > 0);
    assert_eq!(requests(&["a", "b", "c"]), one);
}

//! Metrics of a run in progress.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpListener;

use lucarne_testkit::{Client, Launch, Signal, check_exposition, temp_dir};

use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, eventually, lucarne, run};

/// Starts a server that responds to every request, until the process ends. Returns its URL.
fn target() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut request = [0; 4096];
                // A request arrives in one piece here, and the client closes the connection.
                while matches!(stream.read(&mut request), Ok(1..)) {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

#[test]
fn metrics_are_served_during_the_run() {
    let here = temp_dir();
    let mut load = Launch::new(LUCARNE)
        .args([
            "load",
            "rest",
            "--url",
            &target(),
            "--duration=1h",
            "--no-ui",
        ])
        .args(["--rate=50", "--metrics=127.0.0.1:0"])
        .args(["--threshold=http_req_duration: p(95)<60s"])
        .directory(here.path())
        .spawn()
        .unwrap();
    let address = || {
        let said = load.output();
        let (_, rest) = said.split_once("metrics: ")?;
        Some(rest.split_once("/metrics")?.0.to_owned())
    };
    let page = run(async {
        eventually("the address is known", async || address().is_some()).await;
        let client = Client::new(address().unwrap());
        let page = async || client.get("/metrics").await.unwrap().text();
        eventually("there are samples", async || {
            page().await.contains("lucarne_load_http_reqs_total{")
        })
        .await;
        page().await
    });
    check_exposition(&page).unwrap();
    for part in [
        "lucarne_load_http_req_duration_seconds_bucket{scenario=\"rest\"",
        "lucarne_load_threshold_crossed{threshold=\"http_req_duration: p(95)<60s\"} 0",
        "lucarne_load_series_dropped 0",
    ] {
        assert_has(&page, part);
    }
    load.signal(Signal::TERM).unwrap();
    assert!(load.wait(EVENT_TIMEOUT * 2).unwrap().code().is_some());
}

#[test]
fn a_wrong_address_of_metrics_is_refused() {
    let here = temp_dir();
    let load = |address: &str| {
        let metrics = format!("--metrics={address}");
        lucarne(
            here.path(),
            &["load", "rest", "--url=http://127.0.0.1:9/", &metrics],
        )
    };
    let (code, said) = load("localhost");
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "--metrics: `localhost` has no port; write host:port");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = load(&address);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, &format!("--metrics: cannot listen on {address}: "));
}

//! Access log and HAR file of `lucarne proxy`.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use lucarne_testkit::{Client, Launch, Server, Signal, block_until, temp_dir};
use serde_json::Value;

use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, lucarne, run};
use crate::load_recorded::written;
use crate::proxy_observe::address;

/// Starts a server of plain HTTP that runs until the test ends.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
            let _ = stream.write_all(response.as_bytes());
        }
    });
    address
}

fn start(directory: &Path, config: &str) -> (Server, String, Client) {
    let config = format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nprivate: true\n{config}");
    fs::write(directory.join("proxy.yaml"), config).unwrap();
    let mut proxy = Launch::new(LUCARNE)
        .args(["proxy", "--no-ui", "--config", "proxy.yaml"])
        .directory(directory)
        .spawn()
        .unwrap();
    let listen = address(&mut proxy, "proxy on http://");
    let page = address(&mut proxy, "page on http://");
    (proxy, listen, Client::new(format!("http://{page}/")))
}

/// Sends a request with a credential through the proxy.
fn request(proxy: &str, origin: SocketAddr, path: &str) {
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    let request = format!(
        "GET http://{origin}/{path}?token=hush HTTP/1.1\r\nHost: {origin}\r\n\
         Authorization: Bearer hush\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("ok"), "{response}");
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn requests_are_logged_and_recorded_and_become_a_plan() {
    let directory = temp_dir();
    let path = |name: &str| directory.path().join(name);
    let config =
        "accesslog: access.log\naccesslogformat: json\nhar: {file: session.har, bodies: all}\n";
    let (mut proxy, listen, page) = start(directory.path(), config);
    let origin = origin();
    request(&listen, origin, "one");
    let lines = |name: &str| text(&path(name)).lines().count();
    block_until("the request is logged", || lines("access.log") == 1);
    let line: Value = serde_json::from_str(&text(&path("access.log"))).unwrap();
    assert_eq!(line["url"], format!("http://{origin}/one?token=***"));
    assert_eq!(
        (&line["status"], &line["responseBytes"]),
        (&200.into(), &2.into())
    );
    // A program that rotates logs renames the file, and sends SIGHUP.
    fs::rename(path("access.log"), path("access.log.1")).unwrap();
    proxy.signal(Signal::HUP).unwrap();
    block_until("the file is open again", || path("access.log").exists());
    request(&listen, origin, "two");
    block_until("the request is logged", || lines("access.log") == 1);
    assert_eq!(lines("access.log.1"), 1);
    run(async {
        let recent = page.get("requests.json?q=/one").await.unwrap();
        let recent: Value = recent.json().unwrap();
        assert_eq!(recent["requests"].as_array().unwrap().len(), 1);
        let recent = page.get("requests/").await.unwrap().text();
        assert_has(&recent, "/two?token=***");
        assert!(!recent.contains("hush"), "{recent}");
    });
    assert!(proxy.stop(EVENT_TIMEOUT).unwrap().success());
    let har = text(&path("session.har"));
    assert!(!har.contains("hush"), "{har}");
    let recorded: Value = serde_json::from_str(&har).unwrap();
    assert_eq!(
        recorded["log"]["entries"][1]["response"]["content"]["text"],
        "ok"
    );
    let (code, said, plan) = written("from-har", har.as_bytes(), &[]);
    let plan = plan.unwrap_or_else(|| panic!("{said}"));
    assert_eq!(code, 0, "{said}");
    assert_has(&plan, "/one?token=${RECORDED_TOKEN}");
    assert_has(&plan, "\"authorization\": \"${RECORDED_AUTHORIZATION}\"");
}

#[test]
fn requests_continue_if_their_log_cannot_be_written() {
    let directory = temp_dir();
    let fifo = directory.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    let origin = origin();
    for log in ["/dev/full", "fifo"] {
        let (mut proxy, listen, page) = start(directory.path(), &format!("accesslog: {log}\n"));
        for _ in 0..20 {
            request(&listen, origin, "x");
        }
        block_until("the losses are counted", || {
            let metrics = run(page.get("metrics")).unwrap().text();
            metrics.contains("lucarne_proxy_accesslog_lost_total 20\n")
        });
        assert!(proxy.stop(EVENT_TIMEOUT).unwrap().success());
        assert_has(&proxy.output(), "accesslog: cannot write ");
    }
}

#[test]
fn a_file_that_cannot_be_opened_stops_the_start() {
    let directory = temp_dir();
    fs::write(directory.path().join("notes.har"), "important").unwrap();
    for (flags, why) in [
        (["--access-log", "."], "accesslog: cannot open .: "),
        (
            ["--har", "none/session.har"],
            "har.file: cannot open none/session.har: ",
        ),
        (
            ["--har", "notes.har"],
            "har.file: cannot open notes.har: the file is not a HAR file",
        ),
    ] {
        let args = ["proxy", "--listen", "127.0.0.1:0", "--no-ui"];
        let (code, output) = lucarne(directory.path(), &[&args[..], &flags].concat());
        assert_eq!(code, 1, "{output}");
        assert_has(&output, why);
    }
    assert_eq!(text(&directory.path().join("notes.har")), "important");
}

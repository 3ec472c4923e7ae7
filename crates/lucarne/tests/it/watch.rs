//! `lucarne watch` and `lucarne ca`.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::aside::Aside;
use crate::common::{
    EVENT_TIMEOUT, LUCARNE, assert_has, log, lucarne, pki, ready, run, submission,
};
use lucarne_ct::LogKey;
use lucarne_testkit::{Launch, Signal, free_port, temp_dir};
use lucarne_tlog::EMPTY_ROOT;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn watch(args: &[&str]) -> (i32, String) {
    lucarne(temp_dir().path(), &[&["watch"], args].concat())
}

#[test]
fn one_look_says_size_and_age() {
    let log = log("period: 20");
    let _server = log.start().unwrap();
    run(ready(&log));
    let (code, said) = watch(&[&log.url(), "--once", "--json"]);
    assert_eq!(code, 0, "{said}");
    let line: Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!(line["size"], 0);
    assert!(line["ageMs"].is_u64() && line["growth"].is_null(), "{said}");

    let (code, said) = watch(&[&log.url(), "--once", "--stale-after", "0"]);
    assert!(code == 3 || said.contains(" 0.0 s old"), "{code}: {said}");
    let (code, said) = watch(&[&log.url(), "--once", "--origin", "another.example/log"]);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "origin");
    let another = crate::common::log("");
    let stranger = base64_simd::STANDARD.encode_to_string(another.public_key());
    let (code, said) = watch(&[&log.url(), "--once", "--log-public-key", &stranger]);
    assert_eq!(code, 104, "{said}");
}

#[test]
fn a_log_that_is_away_or_is_none() {
    let url = format!("http://127.0.0.1:{}/log/", free_port());
    let (code, said) = watch(&[&url, "--once"]);
    assert_eq!(code, 110, "{said}");
    let (code, said) = watch(&["ftp://127.0.0.1/", "--once"]);
    assert_eq!(code, 104, "{said}");
    assert_eq!(watch(&[]).0, 2);
}

#[test]
fn growth_is_told_and_staleness_ends_it() {
    let log = log("period: 20");
    let mut server = log.start().unwrap();
    run(ready(&log));
    let mut watching = Launch::new(LUCARNE)
        .args([
            "watch",
            &log.url(),
            "--json",
            "--every",
            "50ms",
            "--stale-after",
            "8s",
        ])
        .spawn()
        .unwrap();
    watching
        .wait_for_output("\"size\":0", EVENT_TIMEOUT)
        .unwrap();
    let client = log.client();
    for _ in 0..3 {
        let body = submission(&pki().root);
        let answer = run(client.post("ct/v1/add-chain", body)).unwrap();
        assert_eq!(answer.status, 200);
    }
    let line = watching
        .wait_for_output("\"size\":3", EVENT_TIMEOUT)
        .unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert!(line["growth"].as_u64() >= Some(1), "{line}");
    server.stop(EVENT_TIMEOUT).unwrap();
    let status = watching.wait(EVENT_TIMEOUT * 2).unwrap();
    assert_eq!(status.code(), Some(3), "{}", watching.output());
    assert_has(&watching.output(), "stale: the newest checkpoint is");
}

/// Returns a response to HTTP/1.1; `headers` are lines with CR LF.
fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

/// Returns a response that postpones the request.
fn later(status: &str, seconds: u32) -> String {
    response(status, &format!("retry-after: {seconds}\r\n"), "later")
}

/// Returns the response with the checkpoint of an empty tree.
fn checkpoint(timestamp_ms: u64) -> String {
    let key = LogKey::from_seed(&[7; 32]).unwrap();
    let note = key.sign_checkpoint("log.example/one", 0, &EMPTY_ROOT, timestamp_ms);
    response("200 OK", "", &note.unwrap())
}

/// Starts a log without entries. `replaced` returns another response to the request for the
/// checkpoint with this number. The command requests the checkpoint once at its start (0).
fn scripted(replaced: impl Fn(usize) -> Option<String> + Send + Sync + 'static) -> Aside {
    let key = LogKey::from_seed(&[7; 32]).unwrap();
    let metadata = json!({
        "key": base64_simd::STANDARD.encode_to_string(key.public_key_spki()),
        "submission_url": "https://log.example/one/",
    });
    let requests = AtomicUsize::new(0);
    let respond = Arc::new(move |path: &str| match path {
        "/log.v3.json" => response("200 OK", "", &metadata.to_string()),
        "/checkpoint" => replaced(requests.fetch_add(1, Ordering::SeqCst))
            .unwrap_or_else(|| checkpoint(lucarne_mint::now_ms())),
        _ => response("404 Not Found", "", ""),
    });
    Aside::serve(move |stream| connection(stream, respond.clone()))
}

/// Responds to the requests of a connection until the client closes it.
async fn connection(mut stream: TcpStream, respond: Arc<impl Fn(&str) -> String>) {
    while let Some(head) = read_head(&mut stream).await {
        let path = head.split(' ').nth(1).unwrap();
        if stream.write_all(respond(path).as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads the head of a request. Returns `None` when the client closes the connection.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Watches the log once, while it replaces the response with this number.
fn look_once(number: usize, replacement: String) -> (i32, String) {
    let server = scripted(move |n| (n == number).then(|| replacement.clone()));
    watch(&[&format!("http://{}/", server.address), "--once"])
}

/// The command does not retry a body that is too long, because the log has responded.
#[test]
fn a_checkpoint_that_is_too_long() {
    let body = "x".repeat((1 << 20) + 1);
    let bounded = response("200 OK", "", &body);
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
    for (number, replacement) in [(0, &bounded), (1, &bounded), (0, &endless), (1, &endless)] {
        let (code, said) = look_once(number, replacement.clone());
        assert_eq!(code, 99, "{number}: {said}");
        assert_has(&said, "checkpoint: the body is longer than 1048576 bytes");
    }
}

#[test]
fn a_log_that_limits_requests_is_away() {
    // The start waits for a short time.
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let (code, said) = look_once(0, later(status, 1));
        assert_eq!(code, 0, "{status}: {said}");
        for number in [0, 1] {
            let (code, said) = look_once(number, later(status, 3600));
            assert_eq!(code, 110, "{status}, {number}: {said}");
            assert_has(&said, &status[..3]);
        }
    }
    // Later, the command waits for the time in the response.
    let server = scripted(|number| (number == 1).then(|| later("429 Too Many Requests", 1)));
    let mut watching = Launch::new(LUCARNE)
        .args(["watch", &format!("http://{}/", server.address), "--json"])
        .args(["--every", "50ms"])
        .spawn()
        .unwrap();
    watching
        .wait_for_output("\"size\":0", EVENT_TIMEOUT)
        .unwrap();
    let said = "cannot fetch checkpoint: status 429; the next check is in 1.0 s";
    assert_has(&watching.output(), said);
    watching.signal(Signal::INT).unwrap();
    assert_eq!(watching.wait(EVENT_TIMEOUT).unwrap().code(), Some(0));
}

#[test]
fn a_checkpoint_without_a_time() {
    let (code, said) = look_once(1, checkpoint(0));
    assert_eq!(code, 99, "{said}");
    assert_has(&said, "the checkpoint of size 0 has the timestamp 0");
}

#[test]
fn a_signal_ends_it_well() {
    let log = log("period: 20");
    let _server = log.start().unwrap();
    run(ready(&log));
    let mut watching = Launch::new(LUCARNE)
        .args(["watch", &log.url()])
        .spawn()
        .unwrap();
    watching.wait_for_output(" old", EVENT_TIMEOUT).unwrap();
    watching.signal(Signal::INT).unwrap();
    assert_eq!(watching.wait(EVENT_TIMEOUT).unwrap().code(), Some(0));
}

#[test]
fn authorities_are_made_once_and_kept_secret() {
    let here = temp_dir();
    let made = |args: &[&str]| lucarne(here.path(), &[&["ca"], args].concat());
    let (code, said) = made(&["show", "ca"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "lucarne ca new ca");
    let (code, said) = made(&["new", "ca"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "created ca");
    assert_has(&said, "extraroots: ");
    let directory = here.path().join("ca");
    let roots = fs::read_to_string(directory.join("roots.pem")).unwrap();
    assert!(!roots.contains("PRIVATE KEY"));
    for file in fs::read_dir(&directory).unwrap() {
        let path = file.unwrap().path();
        let secret = fs::read_to_string(&path).unwrap().contains("PRIVATE KEY");
        assert!(!secret || mode(&path) == 0o600, "{}", path.display());
    }
    let (code, said) = made(&["new", "ca"]);
    assert_eq!(code, 0);
    assert_has(&said, "kept ca");
    let (code, said) = made(&["show", "ca"]);
    assert_eq!(code, 0);
    assert_has(&said, &roots);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Forwards requests to `log`, and keeps the responses to the reads of RFC 6962. `key` is the part
/// of the path and query that identifies a kept response.
fn cache(log: SocketAddr, key: fn(&str) -> &str) -> Aside {
    let kept = Arc::new(Mutex::new(HashMap::<String, Vec<u8>>::new()));
    Aside::serve(move |mut stream| {
        let kept = Arc::clone(&kept);
        async move {
            while let Some(head) = read_head(&mut stream).await {
                let target = head.split(' ').nth(1).unwrap();
                let key = target.contains("ct/v1/").then(|| key(target).to_owned());
                let known = key
                    .as_ref()
                    .and_then(|key| kept.lock().unwrap().get(key).cloned());
                let response = match known {
                    Some(known) => known,
                    None => forward(log, &head).await,
                };
                if let Some(key) = key {
                    kept.lock().unwrap().insert(key, response.clone());
                }
                if stream.write_all(&response).await.is_err() {
                    return;
                }
            }
        }
    })
}

/// Forwards a request on a connection of its own.
async fn forward(log: SocketAddr, head: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(log).await.unwrap();
    let head = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    response
}

/// The log behind a cache that keys responses by path alone: each query gets the first proof.
#[test]
fn a_cache_that_ignores_queries_is_found() {
    let log = log("period: 20\nrfc6962reads: true");
    let _server = log.start().unwrap();
    run(ready(&log));
    let client = log.client();
    for _ in 0..3 {
        let body = submission(&pki().root);
        assert_eq!(
            run(client.post("ct/v1/add-chain", body)).unwrap().status,
            200
        );
    }
    let address = log.address();
    let through = |key: fn(&str) -> &str| {
        let cache = cache(address, key);
        let public = log
            .url()
            .replace(&address.to_string(), &cache.address.to_string());
        watch(&[&log.url(), "--through", &public, "--once"])
    };
    let (code, said) = through(|target| target);
    assert_eq!(code, 0, "{said}");
    let (code, said) = through(|target| target.split('?').next().unwrap_or_default());
    assert_eq!(code, 99, "{said}");
    assert_has(
        &said,
        "get-sth-consistency?first=2&second=3 differs from the log's own",
    );
}

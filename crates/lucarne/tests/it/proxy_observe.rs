//! `lucarne proxy` as an observer: it verifies the SCTs of TLS servers against a log list, and
//! submits their chains to a real `lucarne serve`.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, eventually, log, pki, ready, run};
use lucarne_ct::{Certificate, LogKey, embedded_entry, encode_sct_list};
use lucarne_mint::{Extension, KeyPair, LeafOptions, oid, pem};
use lucarne_testkit::{
    Client, Launch, Response, Server, free_port, temp_dir, tls_client, tls_server,
};
use rustls::{ClientConnection, ServerConnection};
use serde_json::{Value, json};

fn log_key(n: u8) -> LogKey {
    LogKey::from_seed(&[n; 32]).unwrap()
}

/// Returns a certificate for `name` with SCTs of these logs, and its key.
fn certificate(name: &str, logs: &[u8]) -> (Vec<u8>, Arc<KeyPair>) {
    let ca = &pki().p256;
    let options = LeafOptions::for_names([name]).unwrap();
    let mut template = ca.leaf_template(&options).unwrap();
    if !logs.is_empty() {
        let bare = ca.sign(&template).unwrap();
        let bare = Certificate::parse(&bare).unwrap();
        let issuer = Certificate::parse(ca.cert_der()).unwrap();
        let entry = embedded_entry(&bare, &issuer);
        let sign = |n: &u8| log_key(*n).sign_sct(1_790_000_000_000, &entry, 7).unwrap();
        let list = encode_sct_list(&logs.iter().map(sign).collect::<Vec<_>>()).unwrap();
        let extension = Extension::new(oid::SCT_LIST, false, |der| der.octet_string(&list));
        template.extensions.push(extension);
    }
    (ca.sign(&template).unwrap(), options.key)
}

/// Starts a server that responds with `hello` over TLS until the test ends. Returns its port.
pub(crate) fn server(name: &str, logs: &[u8]) -> u16 {
    let (leaf, key) = certificate(name, logs);
    let chain = [leaf, pki().p256.cert_der().to_vec()];
    let config = tls_server(&chain, &key, &[]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut connection = ServerConnection::new(config.clone()).unwrap();
            std::thread::spawn(move || {
                let mut stream = rustls::Stream::new(&mut connection, &mut socket);
                let mut request = [0; 4096];
                // A client may close the connection before its request.
                if stream.read(&mut request).is_ok() {
                    let answer =
                        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
                    let _ = stream.write_all(answer.as_bytes());
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                }
            });
        }
    });
    port
}

/// Returns the response of `https://host:port/` through the proxy, with its CA trusted.
pub(crate) fn through(proxy: &str, ca: &str, host: &str, port: u16) -> String {
    let mut socket = TcpStream::connect(proxy).unwrap();
    socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    write!(
        socket,
        "CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
    )
    .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert_has(&String::from_utf8_lossy(&head), " 200 ");
    let roots = pem::decode(ca).unwrap().into_iter().map(|(_, der)| der);
    let config = tls_client(roots, &[]).unwrap();
    let name = host.to_owned().try_into().unwrap();
    let mut connection = ClientConnection::new(config, name).unwrap();
    let mut stream = rustls::Stream::new(&mut connection, &mut socket);
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    // The response is complete even if the connection ends without close_notify.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns a log list with two logs of two operators.
fn log_list() -> String {
    let operator = |n: u8| {
        let key = log_key(n);
        json!({"name": format!("Operator {n}"), "logs": [{
            "description": format!("log {n}"),
            "log_id": key.log_id().to_string(),
            "key": base64_simd::STANDARD.encode_to_string(key.public_key_spki()),
            "url": "https://log.example/",
            "state": {"usable": {"timestamp": "2024-01-01T00:00:00Z"}}
        }]})
    };
    json!({"version": "1.0", "operators": [operator(1), operator(2)]}).to_string()
}

/// Returns the address after `what` in the proxy's output.
pub(crate) fn address(proxy: &mut Server, what: &str) -> String {
    let output = proxy.wait_for_output(what, EVENT_TIMEOUT).unwrap();
    let after = output.split(what).nth(1).unwrap();
    let end = after.find(['/', '\n']).unwrap_or(after.len());
    after[..end].trim().to_owned()
}

async fn host(page: &Client, name: &str) -> Option<Value> {
    let answer: Response = page
        .get(&format!("observed/host.json?name={name}"))
        .await
        .unwrap();
    (answer.status == 200).then(|| answer.json().unwrap())
}

#[test]
fn sees_verifies_and_submits() {
    let log = log("period: 50");
    let _server = log.start().unwrap();
    run(ready(&log));
    let directory = temp_dir();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("log_list.json"), log_list()).unwrap();
    fs::write(path("root.pem"), pki().root.certificate_pem()).unwrap();
    fs::write(path("log.pem"), pem::encode("PUBLIC KEY", log.public_key())).unwrap();
    let mut proxy = Launch::new(LUCARNE)
        .directory(directory.path())
        .args([
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--no-ui",
        ])
        .args([
            "--allow-private",
            "--upstream-ca",
            "root.pem",
            "--log-list",
            "log_list.json",
        ])
        .args(["--submit-to", &log.url(), "--submit-key", "log.pem"])
        .spawn()
        .unwrap();
    let listen = address(&mut proxy, "proxy on http://");
    let page = Client::new(format!(
        "http://{}/",
        address(&mut proxy, "page on http://")
    ));
    let ca = fs::read_to_string(path("lucarne-ca/ca.pem")).unwrap();

    let (logged, bare) = (server("localhost", &[1, 2]), server("127.0.0.1", &[]));
    for (host, port) in [
        ("localhost", logged),
        ("127.0.0.1", bare),
        ("localhost", logged),
    ] {
        assert_has(&through(&listen, &ca, host, port), "hello");
    }
    run(async {
        let mut certificates = Vec::new();
        for (name, standing, is_logged, outcome, text) in [
            (
                "localhost",
                "good",
                true,
                "not-needed",
                "log 1 has the certificate",
            ),
            ("127.0.0.1", "no-sct", false, "accepted", "the SCT verifies"),
        ] {
            let mut seen = None;
            // The log responds when its round is published.
            eventually("the log has answered", async || {
                seen = host(&page, name).await.filter(|host| {
                    let certificate = &host["certificates"][0];
                    certificate["submission"]["outcome"] != "waiting"
                });
                seen.is_some()
            })
            .await;
            let seen = seen.unwrap();
            let certificate = seen["certificates"][0].clone();
            assert_eq!(certificate["standing"], standing, "{certificate:#}");
            assert_eq!(certificate["logged"], is_logged);
            let submission = &certificate["submission"];
            assert_eq!(submission["outcome"], outcome, "{submission:#}");
            assert_has(submission["text"].as_str().unwrap(), text);
            certificates.push(certificate);
        }
        let [localhost, _] = &certificates[..] else {
            unreachable!()
        };
        assert_eq!(localhost["scts"][1]["operator"], "Operator 2");
        assert!(
            localhost["verdicts"]
                .as_array()
                .unwrap()
                .iter()
                .all(|v| v["compliant"] == true)
        );

        let text = page.get("observed/?show=not-logged").await.unwrap().text();
        assert_has(&text, "127.0.0.1</a> <span class=\"state no-sct\">");
        assert!(!text.contains("localhost</a>"), "{text}");
        let metrics = page.get("metrics").await.unwrap().text();
        for line in [
            "lucarne_proxy_observed_certificates_total{standing=\"good\"} 1",
            "lucarne_proxy_observed_certificates_total{standing=\"no-sct\"} 1",
            "lucarne_proxy_observed_submissions_total{outcome=\"accepted\"} 1",
            "lucarne_proxy_observed_submissions_total{outcome=\"not-needed\"} 1",
        ] {
            assert_has(&metrics, line);
        }
        // The certificate that was in no log was submitted once.
        let checkpoint = log.client().get("checkpoint").await.unwrap().text();
        assert_eq!(checkpoint.lines().nth(1), Some("1"), "{checkpoint}");
    });
    log.audit().unwrap();
    proxy.stop(EVENT_TIMEOUT).unwrap();
}

#[test]
fn does_not_start_without_what_it_was_given() {
    let directory = temp_dir();
    let file = directory.path().join("log_list.json");
    fs::write(&file, "<html>").unwrap();
    let args = ["proxy", "--listen", "127.0.0.1:0", "--no-ui", "--insecure"];
    for (list, why) in [
        ("log_list.json", "not a log list"),
        ("none.json", "No such file"),
    ] {
        let list = ["--log-list", list];
        let (code, output) = crate::common::lucarne(directory.path(), &[&args[..], &list].concat());
        assert_ne!(code, 0, "{output}");
        assert_has(&output, list[1]);
        assert_has(&output, why);
    }
    let keys = ["--submit-key", "a.pem"];
    let (code, output) = crate::common::lucarne(directory.path(), &[&args[..], &keys].concat());
    assert_ne!(code, 0, "{output}");
    assert_has(&output, "1 keys (--submit-key) for 0 logs (--submit-to)");
}

#[test]
fn a_log_list_that_hangs_at_start_does_not_keep_the_proxy_from_stopping() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let list = format!("http://{}/list.json", silent.local_addr().unwrap());
    let listen = format!("127.0.0.1:{}", free_port());
    let directory = temp_dir();
    let mut proxy = Launch::new(LUCARNE)
        .args(["proxy", "--no-ui", "--listen", &listen, "--log-list", &list])
        .directory(directory.path())
        .spawn()
        .unwrap();
    // From here on, the proxy waits for the list.
    let _held = silent.accept().unwrap();
    assert!(
        TcpStream::connect(&listen).is_err(),
        "clients must be refused while nobody serves them"
    );
    assert!(proxy.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn the_inventory_survives_a_restart_and_a_newer_one_stops_the_start() {
    let directory = temp_dir();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("log_list.json"), log_list()).unwrap();
    fs::write(path("root.pem"), pki().root.certificate_pem()).unwrap();
    let yaml = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nprivate: true\nupstream:\n  ca: root.pem\n\
                observe:\n  loglist: log_list.json\n  database: inventory.sqlite\n";
    fs::write(path("proxy.yaml"), yaml).unwrap();
    let arguments = ["proxy", "--no-ui", "--config", "proxy.yaml"];
    let start = || {
        let mut proxy = Launch::new(LUCARNE)
            .directory(directory.path())
            .args(arguments)
            .spawn()
            .unwrap();
        let listen = address(&mut proxy, "proxy on http://");
        let page = format!("http://{}/", address(&mut proxy, "page on http://"));
        (proxy, listen, Client::new(page))
    };
    let inventory = async |page: &Client| -> Value {
        let found: Response = page.get("observed/inventory.json").await.unwrap();
        found.json().unwrap()
    };
    let (mut proxy, listen, page) = start();
    let ca = fs::read_to_string(path("lucarne-ca/ca.pem")).unwrap();
    let port = server("localhost", &[1, 2]);
    assert_has(&through(&listen, &ca, "localhost", port), "hello");
    run(eventually("the host is in the inventory", async || {
        inventory(&page).await["matching"] == 1
    }));
    proxy.stop(EVENT_TIMEOUT).unwrap();

    let (mut proxy, _, page) = start();
    run(async {
        let found = inventory(&page).await;
        assert_eq!(found["rows"][0]["host"], "localhost", "{found:#}");
        assert_eq!(found["rows"][0]["standing"], "good");
        let health = page.get("health").await.unwrap();
        assert_eq!(health.status, 200);
        // The logs of the list do not exist: further lines may report their audits.
        assert!(health.text().starts_with("ok\n"), "{}", health.text());
        let metrics = page.get("metrics").await.unwrap().text();
        assert_has(
            &metrics,
            "lucarne_proxy_observed_inventory{what=\"certificates\"} 1",
        );
    });
    proxy.stop(EVENT_TIMEOUT).unwrap();

    let database = rusqlite::Connection::open(path("inventory.sqlite")).unwrap();
    database.pragma_update(None, "user_version", 7).unwrap();
    drop(database);
    let (code, output) = crate::common::lucarne(directory.path(), &arguments);
    assert_eq!(code, 1, "{output}");
    assert_has(&output, "`observe.database`: ");
    assert_has(&output, "has version 7, and this program reads version 1");
    let webhook = yaml.replace(
        "database: inventory.sqlite",
        "webhook: https://hook.example/",
    );
    fs::write(path("proxy.yaml"), webhook).unwrap();
    let (code, output) = crate::common::lucarne(directory.path(), &arguments);
    assert_eq!(code, 1, "{output}");
    assert_has(&output, "set `observe.database`");
}

//! A log requests cosignatures over HTTP, and shows the witnesses that have cosigned.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::common::{LUCARNE, assert_has, eventually, lucarne, pki, ready, run};
use lucarne_testkit::{Client, LogUnderTest};
use lucarne_tlog::{Cosigner, SignedNote};
use rustix::process::Signal;

const NAME: &str = "witness.example/w";

fn cosigner() -> Cosigner {
    Cosigner::ed25519(NAME, &[7; 32]).unwrap()
}

/// Starts a server that cosigns each checkpoint, without its checks.
fn witness() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // The log may have ended.
            let _ = cosign(&stream.unwrap());
        }
    });
    address
}

fn cosign(mut stream: &TcpStream) -> std::io::Result<()> {
    let (mut reader, mut length) = (BufReader::new(stream), 0);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    let (_, note) = body.split_once("\n\n").unwrap();
    let text = SignedNote::parse(note.as_bytes()).unwrap().text;
    let lines = format!("{}\n", cosigner().cosign(&text, 1_790_000_000).unwrap());
    let length = lines.len();
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + &lines).as_bytes())
}

#[test]
fn the_log_shows_who_has_cosigned() {
    let roots = pki().root.certificate_pem();
    let log = LogUnderTest::prepare(LUCARNE, &roots, "witnesses: policy.txt").unwrap();
    let policy = log.path().join("policy.txt");
    let wrong = format!("witness W {}\nquorum W\n", cosigner().verifier());
    fs::write(&policy, wrong).unwrap();
    let (code, said) = lucarne(log.path(), &["init", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "policy.txt: no witness of the policy has a URL");

    // The second witness accepts connections, and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let right = format!(
        "witness W {} http://{}/\nwitness S {} http://{}/\nquorum W\n",
        cosigner().verifier(),
        witness(),
        Cosigner::ed25519("silent.example", &[8; 32])
            .unwrap()
            .verifier(),
        silent.local_addr().unwrap()
    );
    fs::write(&policy, &right).unwrap();
    let (code, said) = lucarne(log.path(), &["init", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    let mut process = log.start().unwrap();
    run(async {
        ready(&log).await;
        let client = log.client();
        let text = async |path: &str| client.get(path).await.unwrap().text();
        eventually("a cosigned checkpoint", async || {
            let note = SignedNote::parse(text("checkpoint").await.as_bytes()).unwrap();
            cosigner().verifier().verify(&note) == Ok(Some(1_790_000_000))
        })
        .await;
        eventually("the page shows the witness", async || {
            let page = text("").await;
            page.contains("<td>W</td>") && page.contains("cosigned 0 entries at 2026-")
        })
        .await;
        assert_has(&text("").await, "ML-DSA-44, for checkpoints");
        let server = Client::new(format!("http://{}", log.address()));
        // The checks may be a second old.
        eventually("the quorum is reported", async || {
            let health = server.get("health").await.unwrap().text();
            health.contains("the quorum of the policy is met")
        })
        .await;
        let metrics = server.get("metrics").await.unwrap().text();
        assert_has(&metrics, "lucarne_cosigned_quorum{log=\"test\"} 1");
        assert_has(&metrics, "witness=\"W\"} 1790000000");
        assert_has(&metrics, "result=\"cosigned\"");
        eventually("the silent witness is late", async || {
            let metrics = server.get("metrics").await.unwrap().text();
            assert!(!metrics.contains("unreachable"), "{metrics}");
            metrics.contains("witness=\"S\",result=\"late\"")
        })
        .await;
        // A reload does not apply another policy, and reports it.
        fs::write(&policy, right.replace("quorum W", "quorum S")).unwrap();
        process.signal(Signal::HUP).unwrap();
        eventually("the policy is not applied", async || {
            let metrics = server.get("metrics").await.unwrap().text();
            metrics.contains("\nlucarne_http_configuration_applied 0\n")
        })
        .await;
    });
}

//! `lucarne serve` as a process: signals, reloading, failures of one log.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use crate::common::{
    EVENT_TIMEOUT, LUCARNE, assert_has, edit, eventually, log, lucarne, pki, ready, run, submission,
};
use lucarne_ct::Fingerprint;
use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions};
use lucarne_testkit::{Client, Launch, LogUnderTest, free_port, temp_dir};
use rustix::process::Signal;
use serde_json::json;

/// Returns a metric of the server.
async fn metric(log: &LogUnderTest, name: &str) -> u64 {
    let site = Client::new(format!("http://{}", log.address()));
    let metrics = site.get("metrics").await.unwrap().text();
    let value = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
    metrics.lines().find_map(value).unwrap_or(0)
}

/// Sends a complete submission, and returns the connection.
fn posted(log: &LogUnderTest) -> TcpStream {
    let body = submission(&pki().p384);
    let request = format!(
        "POST /test/ct/v1/add-chain HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(log.address()).unwrap();
    stream.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

#[test]
fn signals_finish_the_round_and_answer_the_waiters() {
    for signal in [Signal::TERM, Signal::INT] {
        // A busy machine may not have accepted any of them before the signal.
        let mut taken = (0..10).map(|_| taken_before(signal));
        assert!(taken.any(|taken| taken > 0), "{signal:?}");
    }
}

/// Sends submissions that wait for the next round, and the signal. Returns the number of SCTs: a
/// submission that came too late gets a 503, and none is left without a response.
fn taken_before(signal: Signal) -> usize {
    let log = log("period: 1000");
    let mut server = log.start().unwrap();
    let taken = run(async {
        ready(&log).await;
        let client = log.client();
        let post = |authority| client.post("ct/v1/add-chain", submission(authority));
        assert_eq!(post(&pki().p256).await.unwrap().status, 200);
        let accepted = "lucarne_http_connections_accepted_total";
        let before = metric(&log, accepted).await;
        let waiting: Vec<_> = (0..8).map(|_| posted(&log)).collect();
        let mut looks = 0;
        eventually("all have been accepted", async || {
            // Each request for the metric is a connection as well.
            looks += 1;
            metric(&log, accepted).await == before + 8 + looks
        })
        .await;
        server.signal(signal).unwrap();
        let responses = waiting.into_iter().map(|mut stream| {
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            response
        });
        let (scts, others): (Vec<_>, Vec<_>) =
            responses.partition(|response| response.starts_with("HTTP/1.1 200 "));
        for refusal in &others {
            assert_has(refusal, "HTTP/1.1 503 ");
            assert_has(refusal, "the log is shutting down");
        }
        scts.len()
    });
    let status = server.wait(EVENT_TIMEOUT).unwrap();
    assert_eq!(status.code(), Some(0), "{}", server.output());
    assert_has(
        &server.output(),
        "every accepted submission has its response",
    );
    taken
}

#[test]
fn a_second_signal_exits_at_once() {
    let log = log("period: 1500");
    let text = fs::read_to_string(log.configuration()).unwrap();
    // Longer than the test takes on a busy machine.
    let limits = "http: {draintimeout: 10m, bodytimeout: 10m}\n";
    fs::write(log.configuration(), text + limits).unwrap();
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let client = log.client();
        let first = client
            .post("ct/v1/add-chain", submission(&pki().p256))
            .await;
        assert_eq!(first.unwrap().status, 200);
        let body = submission(&pki().p256);
        let waiter = tokio::spawn(async move { client.post("ct/v1/add-chain", body).await });
        // A request that never ends keeps the server draining.
        let mut slow = tokio::net::TcpStream::connect(log.address()).await.unwrap();
        use tokio::io::AsyncWriteExt;
        slow.write_all(
            b"POST /test/ct/v1/add-chain HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
        )
        .await
        .unwrap();
        eventually("the server waits for the body", async || {
            metric(&log, "lucarne_http_inflight_bytes").await > 0
        })
        .await;
        server.signal(Signal::TERM).unwrap();
        eventually("the server listens no more", async || {
            TcpStream::connect(log.address()).is_err()
        })
        .await;
        // Signals in quick succession are merged, so the signal is repeated.
        eventually("another signal ends the server", async || {
            let _ = server.signal(Signal::TERM);
            server.try_wait().unwrap().is_some()
        })
        .await;
        assert_eq!(server.wait(EVENT_TIMEOUT).unwrap().code(), Some(130));
        waiter.abort();
    });
}

#[test]
fn a_taken_port_is_said_before_anything_happens() {
    let log = log("");
    let _taken = TcpListener::bind(log.address()).unwrap();
    let (code, said) = lucarne(log.path(), &["serve", "-c", "lucarne.yaml"]);
    assert_eq!(code, 1);
    assert_has(&said, "another process uses this address");
    assert_has(&said, "`listen:`");
    let (code, said) = lucarne(log.path(), &["check", "-c", "lucarne.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert_has(&said, "now: the address is in use");
    // An address of a network for documentation, which no machine has.
    let file = log.path().join("lucarne.yaml");
    let elsewhere = fs::read_to_string(&file).unwrap();
    fs::write(&file, elsewhere.replace("127.0.0.1", "192.0.2.1")).unwrap();
    for command in ["serve", "check"] {
        let (code, said) = lucarne(log.path(), &[command, "-c", "lucarne.yaml"]);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "cannot listen on 192.0.2.1");
    }
}

#[test]
fn sighup_rereads_roots_and_a_bad_file_changes_nothing() {
    let log = log("");
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let other = Authority::root(&CaOptions::named("Other", KeyType::EcdsaP256)).unwrap();
        let file = log.path().join("roots.pem");
        let old = fs::read_to_string(&file).unwrap();
        let client = log.client();
        let answer = client
            .post("ct/v1/add-chain", submission(&other))
            .await
            .unwrap();
        assert_eq!(answer.status, 400, "{}", answer.text());
        fs::write(&file, format!("{old}{}", other.certificate_pem())).unwrap();
        server.signal(Signal::HUP).unwrap();
        eventually("the new root is accepted", async || {
            let answer = client
                .post("ct/v1/add-chain", submission(&other))
                .await
                .unwrap();
            answer.status == 200
        })
        .await;
        fs::write(&file, "nothing\n").unwrap();
        server.signal(Signal::HUP).unwrap();
        server
            .wait_for_output("the roots stay as they were", EVENT_TIMEOUT)
            .unwrap();
        let roots = client.get("ct/v1/get-roots").await.unwrap().json().unwrap();
        assert_eq!(roots["certificates"].as_array().unwrap().len(), 2);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Refusals apply to roots from any source, and take effect with a reload.
#[test]
fn roots_are_refused_by_fingerprint() {
    let log = log("");
    let other = Authority::root(&CaOptions::named("Other", KeyType::EcdsaP256)).unwrap();
    let roots = log.path().join("roots.pem");
    let refused = log.path().join("refused.txt");
    let pem = fs::read_to_string(&roots).unwrap() + &other.certificate_pem();
    fs::write(&roots, pem).unwrap();
    fs::write(&refused, "# nobody yet\n").unwrap();
    let key = format!("roots: {}", roots.display());
    let keys = format!("{key}\n    refusedroots: [{}]", refused.display());
    edit(&log.configuration(), &key, &keys);
    let mut server = log.start().unwrap();
    run(async {
        ready(&log).await;
        let client = log.client();
        let accepted = async || {
            let roots = client.get("ct/v1/get-roots").await.unwrap().json().unwrap();
            let answer = client.post("ct/v1/add-chain", submission(&other)).await;
            let roots = roots["certificates"].as_array().unwrap().len();
            (roots, answer.unwrap().status.as_u16())
        };
        assert_eq!(accepted().await, (2, 200));
        let fingerprint = Fingerprint::of(other.cert_der());
        let unknown = Fingerprint::of(b"unknown");
        let text = format!("{fingerprint} # misissued\n\n{unknown}\n");
        fs::write(&refused, text).unwrap();
        server.signal(Signal::HUP).unwrap();
        eventually("the root is refused", async || accepted().await == (1, 400)).await;
        let warning = format!("{unknown} is not the fingerprint of any root");
        server.wait_for_output(&warning, EVENT_TIMEOUT).unwrap();
        // An invalid file does not change the refused roots.
        fs::write(&refused, "misissued\n").unwrap();
        server.signal(Signal::HUP).unwrap();
        server
            .wait_for_output(
                "line 1: `misissued`: not a SHA-256 fingerprint",
                EVENT_TIMEOUT,
            )
            .unwrap();
        assert_eq!(accepted().await, (1, 400));
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Two logs run in one process. The directory of one is not usable.
#[test]
fn one_broken_log_leaves_the_other_alone() {
    let directory = temp_dir();
    let port = free_port();
    let write = |name: &str, bytes: &[u8]| {
        let file = directory.path().join(name);
        fs::write(&file, bytes).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("a.bin", &[1; 32]);
    write("b.bin", &[2; 32]);
    write("roots.pem", pki().root.certificate_pem().as_bytes());
    let section = |name: &str| {
        format!(
            "  - shortname: {name}\n    submissionprefix: http://127.0.0.1:{port}/{name}/\n    \
             secret: {name}.bin\n    localdirectory: data/{name}\n"
        )
    };
    let text = format!(
        "listen: [\"127.0.0.1:{port}\"]\ncheckpoints: lock.db\ndefaults: {{roots: roots.pem}}\nlogs:\n{}{}",
        section("a"),
        section("b")
    );
    write("lucarne.yaml", text.as_bytes());
    assert_eq!(lucarne(directory.path(), &["init"]).0, 0);
    let broken = directory.path().join("data/b");
    fs::rename(&broken, directory.path().join("b-away")).unwrap();
    let address = ([127, 0, 0, 1], port).into();
    let mut server = Launch::new(LUCARNE)
        .arg("serve")
        .directory(directory.path())
        .start(address)
        .unwrap();
    run(async {
        let client = Client::new(format!("http://127.0.0.1:{port}"));
        eventually("log a takes submissions", async || {
            let answer = client
                .post("a/ct/v1/add-chain", submission(&pki().p256))
                .await;
            answer.is_ok_and(|answer| answer.status == 200)
        })
        .await;
        let answer = client
            .post("b/ct/v1/add-chain", submission(&pki().p256))
            .await
            .unwrap();
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(!answer.header("retry-after").is_empty());
        assert_eq!(client.get("health").await.unwrap().status, 503);
        assert_has(&server.output(), "data/b");
        // The log recovers when its directory is available again.
        fs::rename(directory.path().join("b-away"), &broken).unwrap();
        eventually("log b recovers", async || {
            let answer = client
                .post("b/ct/v1/add-chain", submission(&pki().p256))
                .await;
            answer.is_ok_and(|answer| answer.status == 200)
        })
        .await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Writes a TLS certificate of `name` and its key to files.
fn certificate(directory: &std::path::Path, name: &str) {
    let leaf = LeafOptions::for_names([name]).unwrap();
    let der = pki().p256.issue(&leaf).unwrap();
    let chain = pki().p256.full_chain(der).to_pem();
    let key = leaf.key.to_pkcs8().unwrap();
    let key = lucarne_mint::pem::encode("PRIVATE KEY", &key);
    // The server reads the two files as a pair, so both are replaced in quick succession.
    lucarne_testkit::write_secret(directory.join("tls.key.new"), key);
    fs::write(directory.join("tls.pem.new"), chain).unwrap();
    fs::rename(directory.join("tls.key.new"), directory.join("tls.key")).unwrap();
    fs::rename(directory.join("tls.pem.new"), directory.join("tls.pem")).unwrap();
}

#[test]
fn changed_tls_files_are_served_without_a_restart() {
    let log = log("");
    certificate(log.path(), "first.example.com");
    let file = log.configuration();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text + "tls: {certificate: tls.pem, key: tls.key}\n").unwrap();
    let mut server = log.start().unwrap();
    let served = || crate::common::tls::subject_names(log.address(), &pki().root);
    assert_has(&served(), "first.example.com");
    certificate(log.path(), "second.example.com");
    run(eventually("the new certificate is served", async || {
        served().contains("second.example.com")
    }));
    fs::write(log.path().join("tls.key"), "nonsense").unwrap();
    server.signal(Signal::HUP).unwrap();
    server
        .wait_for_output("the old certificate stays in use", EVENT_TIMEOUT)
        .unwrap();
    assert_has(&served(), "second.example.com");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn log_lines_as_json() {
    let log = log("");
    let mut server = log
        .launch("serve")
        .args(["--log-format", "json"])
        .env("LUCARNE_LOG", "debug")
        .start(log.address())
        .unwrap();
    let line = server
        .wait_for_output("\"listening\"", EVENT_TIMEOUT)
        .unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["level"], "INFO");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let (code, said) = lucarne(log.path(), &["serve", "--log", "a=b=c"]);
    assert_eq!(code, 1);
    assert_has(&said, "LUCARNE_LOG");
}

/// Returns the first log line with all of `words`, as JSON.
fn line_with(server: &mut lucarne_testkit::Server, words: &str) -> serde_json::Value {
    let line = server.wait_for_output(words, EVENT_TIMEOUT).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn rounds_and_refusals_tell_their_story() {
    let log = log("");
    let mut server = log
        .launch("serve")
        .args(["--log-format", "json"])
        .env("LUCARNE_LOG", "debug")
        .start(log.address())
        .unwrap();
    let refused = run(async {
        ready(&log).await;
        let client = log.client();
        let taken = client.post("ct/v1/add-chain", submission(&pki().p256));
        assert_eq!(taken.await.unwrap().status, 200);
        client.post("ct/v1/add-chain", "{}").await.unwrap()
    });
    assert_eq!(refused.status, 400);
    let id = refused.header("x-request-id").to_owned();
    let line = line_with(&mut server, &id);
    assert_eq!(line["span"]["id"], id, "{line}");
    assert_has(line["message"].as_str().unwrap(), "refused: 400");

    let round = line_with(&mut server, "\"round\"");
    assert_eq!(
        (&round["level"], &round["log"]),
        (&json!("INFO"), &json!("test"))
    );
    assert_eq!((&round["entries"], &round["size"]), (&json!(1), &json!(1)));
    for figure in ["bytes", "prepare_ms", "stage_ms", "commit_ms", "publish_ms"] {
        assert!(round[figure].as_f64().unwrap() > 0.0, "{figure}: {round}");
    }
    assert_eq!(line_with(&mut server, "\"published\"")["level"], "DEBUG");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    // The journal is cut during shutdown.
    assert_has(&server.output(), "\"settled\"");
}

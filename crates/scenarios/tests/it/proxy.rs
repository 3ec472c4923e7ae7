//! The proxy scenario with small intercepting proxies, correct and faulty.

use std::sync::Arc;
use std::time::Duration;

use lucarne_load::{ExecutorConfig, Metric, Outcome, Run, ScenarioConfig, Verdict};
use lucarne_mint::store::{
    CertificateStore, Host, MemoryStore, MintOptions, Minted, Minter, NoStore, StoreOptions,
};
use lucarne_mint::{Authority, CaOptions, KeyPair, KeyType, LeafOptions};
use lucarne_scenarios::proxy::{self, ProxyScenarioOptions};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, rustls};

/// Behaviour of a proxy.
enum Manner {
    Mints(Minter),
    /// Presents this certificate for every host.
    Shows(Minted),
    /// Refuses CONNECT.
    Refuses,
}

struct Fixture {
    url: String,
    ca: tempfile::NamedTempFile,
    _runtime: tokio::runtime::Runtime,
}

fn ca() -> Authority {
    Authority::root(&CaOptions::local(KeyType::EcdsaP256).unwrap()).unwrap()
}

fn start(ca: &Authority, manner: Manner) -> Fixture {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), ca.certificate_pem()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let manner = Arc::new(manner);
    runtime.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let manner = manner.clone();
            tokio::spawn(async move { serve(stream, &manner).await });
        }
    });
    Fixture {
        url,
        ca: file,
        _runtime: runtime,
    }
}

/// Serves one connection; ends when the client does something unexpected.
async fn serve(stream: TcpStream, manner: &Manner) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let place = line.strip_prefix("CONNECT ")?.split(' ').next()?;
    let name = place.rsplit_once(':')?.0.to_owned();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
    }
    let config = match manner {
        Manner::Refuses => {
            let refusal = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno";
            return stream.write_all(refusal).await.ok();
        }
        Manner::Shows(minted) => minted.server_config.clone(),
        Manner::Mints(minter) => {
            let minted = minter.certificate(&Host::parse(&name).ok()?).await.ok()?;
            minted.server_config.clone()
        }
    };
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    let mut inner = TlsAcceptor::from(config).accept(stream).await.ok()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(inner.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    assert!(head.contains(&format!("host: {name}:8443\r\n")), "{head}");
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    inner.write_all(answer).await.ok()?;
    inner.shutdown().await.ok()
}

fn minting(ca: &Authority, store: impl CertificateStore) -> Manner {
    let minter = Minter::new(ca.clone(), Arc::new(store), MintOptions::default());
    Manner::Mints(minter.unwrap())
}

fn options(fixture: &Fixture) -> ProxyScenarioOptions {
    ProxyScenarioOptions {
        proxy: fixture.url.clone(),
        ca: vec![fixture.ca.path().to_owned()],
        hosts: 5,
        port: 8443,
        ..ProxyScenarioOptions::default()
    }
}

fn run(options: ProxyScenarioOptions, requests: u64) -> Outcome {
    let scenario = proxy::build(options, 7).unwrap();
    let executor = ExecutorConfig::ConstantVus {
        vus: 4,
        duration: Duration::from_secs(20),
        iterations: Some(requests),
    };
    let run = Run {
        scenarios: vec![ScenarioConfig::new("proxy", executor, scenario)],
        ..Run::default()
    };
    crate::finished(run)
}

fn counter(outcome: &Outcome, metric: &str) -> u64 {
    match outcome.summary.total(metric) {
        Some(Metric::Counter { count }) => count,
        None => 0,
        other => panic!("{metric} is {other:?}"),
    }
}

/// Returns how often the check of this name passed and failed.
fn checks(outcome: &Outcome, name: &str) -> (u64, u64) {
    let checks = outcome.summary.checks.iter();
    let (passes, fails) = checks
        .filter(|check| check.name == name)
        .map(|check| (check.passes, check.fails))
        .fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    (passes, fails)
}

#[test]
fn a_proxy_with_a_store_shows_each_host_one_certificate() {
    let ca = ca();
    let store = MemoryStore::new(StoreOptions::default());
    let fixture = start(&ca, minting(&ca, store));
    let once = ProxyScenarioOptions {
        once: true,
        ..options(&fixture)
    };
    let outcome = run(once, 60);
    let errors = &outcome.summary.errors;
    assert_eq!(outcome.verdict, Verdict::Unjudged, "{errors:?}");
    assert_eq!(counter(&outcome, "http_reqs"), 60);
    assert_eq!(counter(&outcome, "proxy_certificates"), 5);
    for check in [
        "certificate_name",
        "certificate_issuer",
        "certificate_serial",
        "certificate_once",
        "status",
    ] {
        assert_eq!(checks(&outcome, check), (60, 0), "{check}");
    }
    // Each request has all its phases.
    for phase in [
        "http_req_connecting",
        "proxy_connect_duration",
        "http_req_tls_handshaking",
        "http_req_waiting",
    ] {
        match outcome.summary.total(phase) {
            Some(Metric::Trend(times)) => assert_eq!(times.count(), 60, "{phase}"),
            other => panic!("{phase} is {other:?}"),
        }
    }
}

#[test]
fn without_a_store_each_request_shows_another() {
    let ca = ca();
    let store = NoStore::new(&StoreOptions::default());
    let fixture = start(&ca, minting(&ca, store));
    let outcome = run(options(&fixture), 40);
    assert_eq!(outcome.verdict, Verdict::Unjudged);
    assert_eq!(counter(&outcome, "proxy_certificates"), 40);
    let once = ProxyScenarioOptions {
        once: true,
        ..options(&fixture)
    };
    let outcome = run(once, 40);
    assert_eq!(checks(&outcome, "certificate_once"), (5, 35));
}

#[test]
fn certificates_of_others_and_for_others_fail() {
    let (ca, key) = (ca(), KeyPair::generate(KeyType::EcdsaP256).unwrap());
    let private = PrivatePkcs8KeyDer::from(key.to_pkcs8().unwrap());
    let leaf = LeafOptions::with_key(["other.test"], Arc::new(key));
    let minted = Minted::new(
        vec![CertificateDer::from(ca.issue(&leaf).unwrap())],
        CertificateDer::from(ca.cert_der().to_vec()),
        PrivateKeyDer::from(private),
        &["http/1.1".to_owned()],
    );
    let fixture = start(&ca, Manner::Shows(minted.unwrap()));
    let outcome = run(options(&fixture), 20);
    assert_eq!(checks(&outcome, "certificate_name"), (0, 20));
    assert_eq!(checks(&outcome, "certificate_issuer"), (20, 0));
    assert_eq!(outcome.summary.errors[0].kind, "certificate");
    let stranger = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(stranger.path(), self::ca().certificate_pem()).unwrap();
    let other_ca = ProxyScenarioOptions {
        ca: vec![stranger.path().to_owned()],
        ..options(&fixture)
    };
    let outcome = run(other_ca, 20);
    assert_eq!(checks(&outcome, "certificate_issuer"), (0, 20));
}

#[test]
fn a_refusal_is_told_with_its_status() {
    let ca = ca();
    let fixture = start(&ca, Manner::Refuses);
    let outcome = run(options(&fixture), 10);
    let error = &outcome.summary.errors[0];
    assert_eq!((error.kind.as_str(), error.count), ("proxy", 10));
    assert!(error.details[0].contains("403"), "{:?}", error.details);
}

#[test]
fn options_that_make_no_sense_are_named() {
    let wrong = |options: ProxyScenarioOptions, word: &str| {
        let error = proxy::build(options, 1).err().unwrap().to_string();
        assert!(error.contains(word), "{error}");
    };
    let some = || ProxyScenarioOptions {
        proxy: "http://127.0.0.1:1".into(),
        ..ProxyScenarioOptions::default()
    };
    wrong(ProxyScenarioOptions::default(), "--proxy");
    wrong(
        ProxyScenarioOptions {
            path: "x".into(),
            ..some()
        },
        "slash",
    );
    wrong(ProxyScenarioOptions { hosts: 0, ..some() }, "hosts");
    let template = "same.test".into();
    wrong(
        ProxyScenarioOptions {
            hosts: 2,
            template,
            ..some()
        },
        "same.test",
    );
}

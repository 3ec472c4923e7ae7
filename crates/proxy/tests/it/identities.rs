//! Client certificates for servers, and logging of TLS secrets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lucarne_mint::{Authority, LeafOptions, oid, pem};
use lucarne_proxy::{ClientCertificate, Identity};
use lucarne_testkit::{tls_client, tls_server};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::{KeyLog, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::common::client;
use crate::common::origin::Origin;
use crate::common::{EVENT_TIMEOUT, Setup, authority, roots};

/// A client certificate and its key, as in files.
fn certificate(ca: &Authority, name: &str) -> (String, String) {
    let mut options = LeafOptions::for_names([name]).unwrap();
    options.eku = vec![oid::CLIENT_AUTH];
    let leaf = ca.issue(&options).unwrap();
    let key = options.key.to_pkcs8().unwrap();
    (
        pem::encode("CERTIFICATE", &leaf),
        pem::encode("PRIVATE KEY", &key),
    )
}

fn shown(hosts: &str, ca: &Authority, name: &str) -> ClientCertificate {
    let (certificate, key) = certificate(ca, name);
    ClientCertificate {
        hosts: hosts.parse().unwrap(),
        identity: Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap(),
    }
}

/// TLS settings for `localhost` that request a client certificate of `clients`.
fn asking(world: &Authority, clients: &Authority, wanted: bool) -> TlsAcceptor {
    let verifier = WebPkiClientVerifier::builder_with_provider(
        roots(clients),
        Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
    );
    let verifier = if wanted {
        verifier.build()
    } else {
        verifier.allow_unauthenticated().build()
    };
    let options = LeafOptions::for_names(["localhost"]).unwrap();
    let chain = world.chain(world.issue(&options).unwrap());
    let plain = tls_server(chain.certificates(), &options.key, &["http/1.1"]).unwrap();
    let mut config = ServerConfig::builder_with_provider(plain.crypto_provider().clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.unwrap())
        .with_cert_resolver(plain.cert_resolver.clone());
    config.alpn_protocols = plain.alpn_protocols.clone();
    Arc::new(config).into()
}

/// Responds with the name of the client, and whether its session was resumed.
async fn who(acceptor: TlsAcceptor, close: Arc<AtomicBool>) -> Origin {
    Origin::of(move |stream| {
        let (acceptor, close) = (acceptor.clone(), close.clone());
        async move {
            let mut stream = match acceptor.accept(stream).into_fallible().await {
                Ok(stream) => stream,
                Err((_, mut tcp)) => {
                    // If the socket is closed with unread bytes, the alert can be lost.
                    let _ = tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await;
                    return;
                }
            };
            let (_, connection) = stream.get_ref();
            let chain = connection.peer_certificates().unwrap_or_default();
            let client = chain.first().map_or("nobody".to_owned(), |leaf| {
                let leaf = lucarne_ct::Certificate::parse(leaf).unwrap();
                lucarne_ct::display_name(leaf.subject())
            });
            let kind = format!("{client} {:?}", connection.handshake_kind().unwrap());
            let mut bytes = vec![0; 4096];
            while stream.read(&mut bytes).await.is_ok_and(|n| n > 0) {
                let connection = if close.load(Ordering::SeqCst) {
                    "close"
                } else {
                    "keep-alive"
                };
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nConnection: {connection}\r\nContent-Length: {}\r\n\r\n{kind}",
                    kind.len()
                );
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
                if close.load(Ordering::SeqCst) {
                    let _ = stream.shutdown().await;
                    return;
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_certificate_is_shown_to_matching_hosts_alone() {
    let clients = authority("Clients");
    let mut setup = Setup::new();
    let acceptor = asking(&setup.world, &clients, false);
    let close = Arc::new(AtomicBool::new(true));
    // Two servers with the same name, which resume each other's sessions.
    let (inner, outer) = (
        who(acceptor.clone(), close.clone()).await,
        who(acceptor, close).await,
    );
    let port = |origin: &Origin| format!("localhost:{}", origin.address.port());
    setup.upstream_routes.shown = vec![shown(&port(&inner), &clients, "anna.test")];
    let rig = setup.start().await;
    let mut resumed = 0;
    for _ in 0..4 {
        for (origin, expected) in [(&inner, "anna.test"), (&outer, "nobody")] {
            let answer = client::get(&rig, &port(origin), "localhost", &["http/1.1"], "/").await;
            assert!(answer.body.contains(expected), "{expected}: {answer:?}");
            resumed += usize::from(answer.body.contains("Resumed"));
        }
    }
    // Without resumption the test could not detect a session shared between clients.
    assert!(resumed > 0);
}

#[tokio::test]
async fn connections_as_one_client_are_never_used_as_another() {
    let clients = authority("Clients");
    let mut setup = Setup::new();
    let acceptor = asking(&setup.world, &clients, false);
    let origin = who(acceptor, Arc::default()).await;
    setup.upstream_routes.shown = vec![shown("localhost", &clients, "anna.test")];
    let rig = setup.start().await;
    let authority = format!("localhost:{}", origin.address.port());
    let ask = async || {
        let answer = client::get(&rig, &authority, "localhost", &["http/1.1"], "/").await;
        answer.body
    };
    assert!(ask().await.contains("anna.test"));
    assert!(ask().await.contains("anna.test"));
    assert_eq!(origin.taken(), 1, "it was not kept");
    rig.proxy
        .replace_shown(&[shown("localhost", &clients, "berta.test")]);
    assert!(ask().await.contains("berta.test"));
    rig.proxy.replace_shown(&[]);
    assert!(ask().await.contains("nobody"));
    assert_eq!(origin.taken(), 3);
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_is_explained() {
    let (clients, others) = (authority("Clients"), authority("Others"));
    let setup = Setup::new();
    let acceptor = asking(&setup.world, &clients, true);
    let origin = who(acceptor, Arc::default()).await;
    let rig = setup.start().await;
    let authority = format!("localhost:{}", origin.address.port());
    let ask = async || client::get(&rig, &authority, "localhost", &["http/1.1"], "/").await;
    let answer = ask().await;
    assert_eq!(answer.status, 502, "{answer:?}");
    assert!(answer.body.contains("certificate_required"), "{answer:?}");
    assert!(answer.body.contains("upstream.certificates"), "{answer:?}");
    rig.proxy
        .replace_shown(&[shown("localhost", &others, "anna.test")]);
    let answer = ask().await;
    assert_eq!(answer.status, 502, "{answer:?}");
    assert!(answer.body.contains("unknown_ca"), "{answer:?}");
    rig.proxy
        .replace_shown(&[shown("localhost", &clients, "anna.test")]);
    assert!(ask().await.body.contains("anna.test"));
}

#[tokio::test]
async fn a_server_of_http2_that_wants_a_certificate_is_explained() {
    let setup = Setup::new();
    let acceptor = asking(&setup.world, &authority("Clients"), true);
    let mut config = ServerConfig::clone(acceptor.config());
    config.alpn_protocols = vec![b"h2".to_vec()];
    let origin = who(Arc::new(config).into(), Arc::default()).await;
    let rig = setup.start().await;
    let authority = format!("localhost:{}", origin.address.port());
    let answer = client::get(&rig, &authority, "localhost", &["h2"], "/").await;
    assert_eq!(answer.status, 502, "{answer:?}");
    assert!(answer.body.contains("certificate_required"), "{answer:?}");
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let clients = authority("Clients");
    let ((anna, key), (_, other)) = (
        certificate(&clients, "anna.test"),
        certificate(&clients, "berta.test"),
    );
    let read = |certificate: &str, key: &str| {
        let read = Identity::from_pem(certificate.as_bytes(), key.as_bytes());
        read.map_err(|error| error.to_string())
    };
    read(&anna, &key).unwrap();
    // Certificate and key are in one file.
    read(&format!("{key}{anna}"), &format!("{key}{anna}")).unwrap();
    for (certificate, key, why) in [
        (
            &anna,
            &other,
            "the private key does not belong to the certificate",
        ),
        (&key, &key, "the text has no PEM certificate"),
        (&anna, &anna, "the text has no PRIVATE KEY"),
        (
            &"-----BEGIN CERTIFICATE-----\n*".to_owned(),
            &key,
            "the file ends before the block does",
        ),
    ] {
        let said = read(certificate, key).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

/// A label, the client random and a secret.
type Line = (String, Vec<u8>, Vec<u8>);

/// Collects the lines of a key log.
#[derive(Debug, Default)]
struct Lines(Mutex<Vec<Line>>);

impl KeyLog for Lines {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        let line = (label.to_owned(), random.to_vec(), secret.to_vec());
        self.0.lock().push(line);
    }
}

#[tokio::test]
async fn secrets_of_both_sides_are_told_to_who_wants_them() {
    let (ours, clients, servers) = (
        Arc::<Lines>::default(),
        Arc::<Lines>::default(),
        Arc::<Lines>::default(),
    );
    let mut setup = Setup::new();
    setup.key_log = Some(ours.clone());
    let acceptor = asking(&setup.world, &setup.world, false);
    let mut config = ServerConfig::clone(acceptor.config());
    config.key_log = servers.clone();
    let origin = who(Arc::new(config).into(), Arc::default()).await;
    let rig = setup.start().await;
    let authority = format!("localhost:{}", origin.address.port());
    for alpn in [&["h2", "http/1.1"][..], &["http/1.1"], &[]] {
        let (stream, _) = client::connect(rig.address, &authority).await;
        let config = tls_client([rig.ca.cert_der().to_vec()], alpn).unwrap();
        let mut config = rustls::ClientConfig::clone(&config);
        config.key_log = clients.clone();
        let name = ServerName::try_from("localhost").unwrap();
        let shaking = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let stream = tokio::time::timeout(EVENT_TIMEOUT, shaking)
            .await
            .unwrap()
            .unwrap();
        let answer = client::over(stream, "localhost", "/").await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let ours = ours.0.lock();
    for theirs in [&clients, &servers] {
        let theirs = theirs.0.lock();
        assert!(theirs.len() >= 4, "{theirs:?}");
        for line in theirs.iter() {
            assert!(ours.contains(line), "{line:?}");
        }
    }
}

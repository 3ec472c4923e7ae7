//! Minted certificates, and TLS clients that accept them.

use std::sync::Arc;

use lucarne_mint::store::{
    DEFAULT_ALPN, Fingerprint, MemoryStore, MintOptions, Minted, Minter, OwnCertificate,
    StoreOptions,
};
use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions, oid, pem};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore};
use tokio_rustls::{TlsAcceptor, TlsConnector, rustls};

use super::support::{DAY, ca, host, minter, new_ca};

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(StoreOptions::default()))
}

fn of_kind(key_type: KeyType) -> Minter {
    let options = MintOptions {
        key_type,
        ..MintOptions::default()
    };
    Minter::new(ca(), store(), options).unwrap()
}

/// A TLS client that trusts this CA only.
fn client(ca: &Authority) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(ca.cert_der().to_vec()))
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// Performs a handshake as a client of `name`.
async fn handshake(
    minted: &Minted,
    client: &Arc<ClientConfig>,
    name: &str,
) -> std::io::Result<ClientConnection> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (near, far) = tokio::io::duplex(64 * 1024);
    let acceptor = TlsAcceptor::from(minted.server_config.clone());
    let server = tokio::spawn(async move {
        let mut stream = acceptor.accept(far).await?;
        stream.write_all(b"hello").await?;
        stream.shutdown().await
    });
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connector = TlsConnector::from(client.clone());
    let mut stream = connector.connect(name, near).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?; // also reads the session tickets
    assert_eq!(text, "hello");
    server.await.unwrap()?;
    Ok(stream.into_inner().1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_trust_the_ca_take_every_kind_of_key() {
    let client = client(&ca());
    for kind in [
        KeyType::EcdsaP256,
        KeyType::Rsa(2048),
        KeyType::Ed25519,
        KeyType::EcdsaP384,
    ] {
        let minter = of_kind(kind);
        for name in [
            "www.example.com",
            "192.0.2.1",
            "2001:db8::1",
            "_x.xn--bcher-kva.example",
        ] {
            let minted = minter.certificate(&host(name)).await.unwrap();
            let connection = handshake(&minted, &client, name).await;
            let connection = connection.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
            assert_eq!(connection.alpn_protocol(), Some(&b"h2"[..]));
        }
    }
}

#[tokio::test]
async fn a_name_too_long_for_a_common_name_stands_in_the_extension_alone() {
    let name = format!("{0}.{0}.example", "a".repeat(60));
    let minted = of_kind(KeyType::EcdsaP256)
        .certificate(&host(&name))
        .await
        .unwrap();
    handshake(&minted, &client(&ca()), &name).await.unwrap();
}

#[tokio::test]
async fn sessions_resume() {
    let minter = of_kind(KeyType::EcdsaP256);
    let client = client(&ca());
    let mut kinds = Vec::new();
    for _ in 0..3 {
        let minted = minter.certificate(&host("www.example.com")).await.unwrap();
        let connection = handshake(&minted, &client, "www.example.com")
            .await
            .unwrap();
        kinds.push(connection.handshake_kind().unwrap());
    }
    let resumed = HandshakeKind::Resumed;
    assert_eq!(kinds, [HandshakeKind::Full, resumed, resumed]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_first_connections_to_a_host_take_one_certificate() {
    let minter = Arc::new(minter(store()));
    let client = client(&ca());
    let connecting: Vec<_> = (0..1000)
        .map(|_| {
            let (minter, client) = (minter.clone(), client.clone());
            tokio::spawn(async move {
                let minted = minter.certificate(&host("www.example.com")).await.unwrap();
                let connection = handshake(&minted, &client, "www.example.com")
                    .await
                    .unwrap();
                Fingerprint::of(&connection.peer_certificates().unwrap()[0])
            })
        })
        .collect();
    let mut seen = std::collections::HashSet::new();
    for connected in connecting {
        seen.insert(connected.await.unwrap());
    }
    assert_eq!(seen.len(), 1);
    assert_eq!(minter.stats().generated, 1);
}

#[tokio::test]
async fn the_ca_belongs_to_the_key() {
    let minter = of_kind(KeyType::EcdsaP256);
    let name = host("www.example.com");
    let old = minter.certificate(&name).await.unwrap();
    let next = new_ca();
    minter.replace_ca(next.clone()).unwrap();
    assert_eq!(minter.ca().cert_der(), next.cert_der());
    let new = minter.certificate(&name).await.unwrap();
    assert_ne!(old.serial, new.serial);
    handshake(&new, &client(&next), "www.example.com")
        .await
        .unwrap();
    assert!(
        handshake(&new, &client(&ca()), "www.example.com")
            .await
            .is_err()
    );
    // The old certificate returns with its CA: nothing was lost.
    minter.replace_ca(ca()).unwrap();
    assert_eq!(minter.certificate(&name).await.unwrap().serial, old.serial);
}

#[tokio::test]
async fn a_wildcard_serves_the_neighbours() {
    let options = MintOptions {
        wildcard: true,
        ..MintOptions::default()
    };
    let minter = Minter::new(ca(), store(), options).unwrap();
    let client = client(&ca());
    for name in ["www.example.com", "mail.example.com"] {
        let minted = minter.certificate(&host(name)).await.unwrap();
        handshake(&minted, &client, name).await.unwrap();
        handshake(&minted, &client, "example.com").await.unwrap();
    }
    assert_eq!(minter.stats().generated, 1);
    minter.certificate(&host("example.com")).await.unwrap();
    minter.certificate(&host("192.0.2.1")).await.unwrap();
    assert_eq!(minter.stats().generated, 3);
}

#[tokio::test]
async fn a_leaf_has_its_own_key_a_long_serial_and_a_whole_chain() {
    let below = CaOptions {
        path_length: Some(0),
        ..CaOptions::named("Below", KeyType::EcdsaP256)
    };
    let root = Authority::root(&CaOptions::named("Root", KeyType::EcdsaP256)).unwrap();
    let below = root.intermediate(&below).unwrap();
    let minter = Minter::new(below.clone(), store(), MintOptions::default()).unwrap();
    let one = minter.certificate(&host("one.example")).await.unwrap();
    let two = minter.certificate(&host("two.example")).await.unwrap();
    assert_ne!(one.key.secret_der(), two.key.secret_der());
    assert_ne!(one.key.secret_der(), below.key().to_pkcs8().unwrap());
    for minted in [&one, &two] {
        // 128 random bits after a first octet that keeps the number positive.
        assert_eq!((minted.serial.len(), minted.serial[0]), (17, 4));
        assert_eq!(minted.chain.len(), 2, "leaf and intermediate, no root");
        assert_eq!(&*minted.chain[1], below.cert_der());
        assert_eq!(&*minted.issuer, below.cert_der());
        let life = minted.not_after.duration_since(minted.not_before).unwrap();
        assert_eq!(
            life,
            32 * DAY,
            "backdated for clients whose clocks are behind"
        );
        let leaf = &minted.chain[0];
        let has = |oid: &oid::Oid| {
            leaf.windows(oid.as_bytes().len())
                .any(|w| w == oid.as_bytes())
        };
        assert!(has(&oid::SERVER_AUTH) && !has(&oid::CLIENT_AUTH));
        assert!(!has(&oid::CRL_DISTRIBUTION_POINTS) && !has(&oid::AUTHORITY_INFO_ACCESS));
    }
    handshake(&one, &client(&root), "one.example")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_shared_key_is_shared_but_never_the_cas() {
    let options = MintOptions {
        key_type: KeyType::Rsa(2048),
        leaf_key: lucarne_mint::store::LeafKey::Shared,
        ..MintOptions::default()
    };
    let minter = Minter::new(ca(), store(), options).unwrap();
    let one = minter.certificate(&host("one.example")).await.unwrap();
    let two = minter.certificate(&host("two.example")).await.unwrap();
    assert_eq!(one.key.secret_der(), two.key.secret_der());
    assert_ne!(one.serial, two.serial);
    assert_ne!(one.key.secret_der(), ca().key().to_pkcs8().unwrap());
}

#[test]
fn keys_of_impossible_sizes_are_refused() {
    let options = MintOptions {
        key_type: KeyType::Rsa(1024),
        ..MintOptions::default()
    };
    assert!(Minter::new(ca(), store(), options).is_err());
    for kind in [KeyType::EcdsaP256, KeyType::Rsa(2048), KeyType::Ed25519] {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert_eq!("RSA-2048".parse(), Ok(KeyType::Rsa(2048)));
    assert!("rsa1024".parse::<KeyType>().is_err());
}

/// Returns a certificate of `authority` and its key in PEM.
fn pem_of(authority: &Authority, names: &[&str]) -> (String, String) {
    let options = LeafOptions::for_names(names.iter().copied()).unwrap();
    let chain = authority.chain(authority.issue(&options).unwrap());
    let certificates = chain.certificates().iter();
    (
        certificates
            .map(|der| pem::encode("CERTIFICATE", der))
            .collect(),
        pem::encode("PRIVATE KEY", &options.key.to_pkcs8().unwrap()),
    )
}

fn own((certificate, key): &(String, String)) -> Result<OwnCertificate, String> {
    let alpn = DEFAULT_ALPN.map(str::to_owned);
    let own = OwnCertificate::from_pem(certificate.as_bytes(), key.as_bytes(), &alpn);
    own.map_err(|error| error.to_string())
}

#[tokio::test]
async fn own_certificates_are_served_for_what_they_cover() {
    let (minter, theirs) = (minter(store()), new_ca());
    let wild = pem_of(&theirs, &["*.own.test", "own.test", "192.0.2.7"]);
    let one = pem_of(&theirs, &["one.test", "two.test"]);
    let two = own(&one)
        .unwrap()
        .only_for(|host| host.as_str() == "two.test");
    minter.replace_own(vec![own(&wild).unwrap(), two]);
    for (name, served) in [
        ("www.own.test", true),
        ("own.test", true),
        ("192.0.2.7", true),
        // A wildcard covers one label for clients.
        ("a.b.own.test", false),
        ("192.0.2.8", false),
        ("two.test", true),
        // The certificate covers this host, but is not configured for it.
        ("one.test", false),
    ] {
        let minted = minter.certificate(&host(name)).await.unwrap();
        let by = if served { &theirs } else { &minter.ca() };
        handshake(&minted, &client(by), name).await.unwrap();
    }
    // Own certificates do not depend on the CA. After their removal they are no longer served.
    minter.replace_ca(new_ca()).unwrap();
    let minted = minter.certificate(&host("own.test")).await.unwrap();
    handshake(&minted, &client(&theirs), "own.test")
        .await
        .unwrap();
    minter.replace_own(Vec::new());
    let minted = minter.certificate(&host("own.test")).await.unwrap();
    handshake(&minted, &client(&minter.ca()), "own.test")
        .await
        .unwrap();
}

#[tokio::test]
async fn own_certificates_go_before_wildcards_of_the_store() {
    let options = MintOptions {
        wildcard: true,
        ..MintOptions::default()
    };
    let (minter, theirs) = (Minter::new(ca(), store(), options).unwrap(), new_ca());
    let pair = pem_of(&theirs, &["www.own.test"]);
    minter.replace_own(vec![own(&pair).unwrap()]);
    let minted = minter.certificate(&host("www.own.test")).await.unwrap();
    handshake(&minted, &client(&theirs), "www.own.test")
        .await
        .unwrap();
    let minted = minter.certificate(&host("mail.own.test")).await.unwrap();
    handshake(&minted, &client(&ca()), "mail.own.test")
        .await
        .unwrap();
}

#[test]
fn own_certificates_without_their_key_are_refused() {
    let theirs = new_ca();
    let (certificate, key) = pem_of(&theirs, &["own.test"]);
    let (_, other) = pem_of(&theirs, &["own.test"]);
    for (certificate, key, why) in [
        (
            &certificate,
            &other,
            "the private key does not belong to the certificate",
        ),
        (&certificate, &certificate, "the text has no PRIVATE KEY"),
        (&key, &key, "the text has no PEM certificate"),
        (&String::new(), &key, "the text has no PEM certificate"),
    ] {
        let refused = own(&(certificate.clone(), key.clone())).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

//! TLS handshakes: offers, results and resumption.

use std::sync::Arc;

use super::server::Server;
use crate::http::{
    Client, ClientOptions, Endpoint, EndpointError, Handshake, Request, TlsOptions, TlsVersion,
    kind,
};

fn insecure(tls: TlsOptions) -> ClientOptions {
    ClientOptions {
        insecure: true,
        keepalive: false,
        tls,
        ..ClientOptions::default()
    }
}

async fn shake(client: &mut Client) -> Handshake {
    let response = client.handshake().await;
    assert_eq!(response.exchange.outcome, Ok(()));
    assert!(response.exchange.connect.is_some() && response.exchange.tls.is_some());
    *response.handshake.unwrap()
}

#[tokio::test]
async fn versions_suites_and_groups_are_those_asked_for() {
    let server = Server::tls(&[b"http/1.1"]).await;
    for (version, name, suite, group) in [
        (
            TlsVersion::V1_2,
            "TLSv1.2",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "secp384r1",
        ),
        (
            TlsVersion::V1_3,
            "TLSv1.3",
            "TLS_CHACHA20_POLY1305_SHA256",
            "X25519MLKEM768",
        ),
    ] {
        let tls = TlsOptions {
            versions: vec![version],
            suites: vec![suite.into()],
            groups: vec![group.into()],
            ..TlsOptions::default()
        };
        let mut client = server.client(insecure(tls)).await;
        let handshake = shake(&mut client).await;
        assert_eq!(
            (handshake.version, handshake.suite.as_str()),
            (name, suite),
            "{handshake:?}"
        );
        assert_eq!(handshake.group.as_deref(), Some(group));
        assert_eq!(handshake.certificates.len(), 1);
        assert!(!handshake.resumed);
    }
}

#[tokio::test]
async fn a_session_is_resumed_by_the_user_that_has_it() {
    let server = Server::tls(&[b"http/1.1"]).await;
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let options = ClientOptions {
            resume: true,
            ..insecure(TlsOptions {
                versions: vec![version],
                ..TlsOptions::default()
            })
        };
        let first = server.client(options.clone()).await;
        let endpoint = Arc::new(first.endpoint().clone());
        for _ in 0..2 {
            let mut client = Client::new(endpoint.clone(), Arc::new(options.clone()));
            assert!(!shake(&mut client).await.resumed, "the first is a full one");
            for _ in 0..3 {
                assert!(shake(&mut client).await.resumed, "{version:?}");
            }
            // Resumption also works with a request.
            let response = client.send(&Request::get("/bytes/1")).await;
            assert!(response.handshake.unwrap().resumed, "{version:?}");
        }
    }
    // Without the option no session is resumed.
    let mut client = server.client(insecure(TlsOptions::default())).await;
    for _ in 0..3 {
        assert!(!shake(&mut client).await.resumed);
    }
}

#[tokio::test]
async fn only_the_request_that_made_a_handshake_has_one() {
    let server = Server::tls(&[b"http/1.1"]).await;
    let options = ClientOptions {
        keepalive: true,
        ..insecure(TlsOptions::default())
    };
    let mut client = server.client(options).await;
    let made = [
        client.send(&Request::get("/bytes/1")).await,
        client.send(&Request::get("/bytes/1")).await,
    ];
    assert!(made[0].handshake.is_some() && made[1].handshake.is_none());
}

#[tokio::test]
async fn another_name_can_be_asked_for() {
    let server = Server::tls(&[b"http/1.1"]).await;
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("root.pem");
    std::fs::write(&ca, server.root.as_deref().unwrap()).unwrap();
    let options = ClientOptions {
        ca: vec![ca],
        tls: TlsOptions {
            server_name: Some("elsewhere.example".into()),
            ..TlsOptions::default()
        },
        ..ClientOptions::default()
    };
    let response = server.client(options).await.handshake().await;
    let failure = response.exchange.outcome.unwrap_err();
    assert_eq!(failure.kind, kind::TLS);
    assert!(failure.detail.contains("elsewhere.example"), "{failure}");
}

#[tokio::test]
async fn what_no_tls_has_is_refused_by_name() {
    let with = |tls| async {
        let options = insecure(tls);
        let refused = Endpoint::resolve("https://127.0.0.1:1", &options).await;
        match refused.unwrap_err() {
            EndpointError::Tls(why) => why,
            other => panic!("{other}"),
        }
    };
    let suite = with(TlsOptions {
        suites: vec!["TLS_AES_128_GCM_SHA265".into()],
        ..TlsOptions::default()
    });
    assert!(
        suite
            .await
            .contains("did you mean `TLS_AES_128_GCM_SHA256`")
    );
    let group = with(TlsOptions {
        groups: vec!["curve".into()],
        ..TlsOptions::default()
    });
    assert!(group.await.contains("X25519"));
    let neither = with(TlsOptions {
        versions: vec![TlsVersion::V1_3],
        suites: vec!["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".into()],
        ..TlsOptions::default()
    });
    assert!(neither.await.contains("setting up TLS"));
}

/// Configured certificates are trusted as in curl's `--cacert`, even if they are not CA
/// certificates. Name and validity must be correct nevertheless.
#[tokio::test]
async fn a_certificate_that_is_named_is_trusted_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("named.pem");
    for authority in [false, true] {
        for (name, days, trusted) in [
            ("localhost", 1, true),
            ("elsewhere.example", 1, false),
            ("localhost", -1, false),
        ] {
            let (server, pem) = Server::self_signed(name, authority, days).await;
            std::fs::write(&file, pem).unwrap();
            let named = ClientOptions {
                ca: vec![file.clone()],
                ..ClientOptions::default()
            };
            let outcome = server
                .client(named)
                .await
                .handshake()
                .await
                .exchange
                .outcome;
            assert_eq!(
                outcome.is_ok(),
                trusted,
                "{authority} {name} {days}: {outcome:?}"
            );
            // The certificate is not configured here.
            let mut client = server.client(ClientOptions::default()).await;
            assert!(client.handshake().await.exchange.outcome.is_err());
        }
    }
}

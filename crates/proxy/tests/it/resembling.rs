//! Minted certificates that resemble those of the servers.

use std::sync::Arc;

use lucarne_ct::Certificate;
use lucarne_mint::oid::content::SUBJECT_ALT_NAME;
use lucarne_mint::{KeyPair, KeyType, LeafOptions, Time};
use lucarne_net::tls_error;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::common::client;
use crate::common::origin::{Origin, expired};
use crate::common::{Rig, Setup, authority};

async fn resembling() -> Rig {
    let mut setup = Setup::new();
    setup.resemble = true;
    let loopback = "127.0.0.1".parse().unwrap();
    setup.rules.resolve = vec![("*.test".parse().unwrap(), loopback)];
    setup.start().await
}

/// Returns names, start and end of validity, and the length of the public key.
fn properties(stream: &TlsStream<TcpStream>) -> (Vec<String>, Option<i64>, Option<i64>, usize) {
    let leaf = &stream.get_ref().1.peer_certificates().unwrap()[0];
    let parsed = Certificate::parse(leaf).unwrap();
    let extension = parsed.extension(SUBJECT_ALT_NAME).unwrap().value;
    let has = |name: &&str| {
        extension
            .windows(name.len())
            .any(|it| it == name.as_bytes())
    };
    let names = ["a.test", "*.b.test", "evil.test", "bank.test"];
    let names = names.into_iter().filter(has).map(str::to_owned).collect();
    (
        names,
        parsed.not_before(),
        parsed.not_after(),
        parsed.spki().len(),
    )
}

#[tokio::test]
async fn names_validity_and_kind_of_key_are_those_of_the_server() {
    let rig = resembling().await;
    let key = Arc::new(KeyPair::generate(KeyType::Rsa(2048)).unwrap());
    let names = ["a.test", "*.b.test"];
    let (start, end) = (Time::now().plus_days(-3), Time::now().plus_days(4));
    for alpn in [&["h2", "http/1.1"][..], &["http/1.1"], &[]] {
        let change = |options: &mut LeafOptions| {
            options.key = key.clone();
            (options.not_before, options.not_after) = (start, end);
        };
        let origin = Origin::https_with(&rig.world, &names, alpn, change).await;
        let authority = format!("a.test:{}", origin.address.port());
        for _ in 0..2 {
            let stream = client::tls(&rig, &rig.ca, &authority, "a.test", alpn).await;
            let stream = stream.unwrap();
            let ms = |time: Time| Some(time.unix() * 1000);
            let expected = names.map(str::to_owned).to_vec();
            let length = key.spki().len();
            assert_eq!(properties(&stream), (expected, ms(start), ms(end), length));
            let answer = client::over(stream, "a.test", "/x").await;
            assert_eq!(answer.status, 200);
        }
    }
}

#[tokio::test]
async fn an_expired_certificate_stays_expired() {
    let rig = resembling().await;
    let alpn = &["http/1.1"][..];
    let origin = Origin::https_with(&rig.world, &["old.test"], alpn, expired).await;
    let authority = format!("old.test:{}", origin.address.port());
    for _ in 0..2 {
        let refused = client::tls(&rig, &rig.ca, &authority, "old.test", alpn).await;
        let error = refused.err().unwrap();
        let why = tls_error(&error).unwrap().to_string();
        assert!(why.contains("expired"), "{why}");
    }
}

#[tokio::test]
async fn names_are_copied_only_after_a_verification() {
    let rig = resembling().await;
    let stranger = authority("A Stranger");
    let alpn = &["http/1.1"][..];
    let origin = Origin::https(&stranger, &["evil.test", "bank.test"], alpn).await;
    let authority = format!("evil.test:{}", origin.address.port());
    let stream = client::tls(&rig, &rig.ca, &authority, "evil.test", alpn).await;
    let stream = stream.unwrap();
    assert_eq!(properties(&stream).0, ["evil.test"]);
    let answer = client::over(stream, "evil.test", "/").await;
    assert_eq!(answer.status, 502);
}

#[tokio::test]
async fn a_server_that_does_not_respond_has_a_usual_certificate() {
    let rig = resembling().await;
    let authority = format!("none.test:{}", lucarne_testkit::free_port());
    let stream = client::tls(&rig, &rig.ca, &authority, "none.test", &["http/1.1"]).await;
    let answer = client::over(stream.unwrap(), "none.test", "/").await;
    assert_eq!(answer.status, 502);
}

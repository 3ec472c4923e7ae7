//! The action `learn`: tunnels for clients that reject the interception.

use lucarne_proxy::{Action, Rule};
use lucarne_testkit::{eventually, free_port};

use crate::common::client;
use crate::common::origin::Origin;
use crate::common::{self, Rig, Setup};

/// Starts a proxy that learns, with a rule for one host.
async fn learning() -> Rig {
    let mut setup = Setup::new();
    setup.rules.default = Action::Learn;
    setup.rules.rules = vec![Rule {
        hosts: "always.test".parse().unwrap(),
        action: Action::Intercept,
    }];
    let loopback = "127.0.0.1".parse().unwrap();
    setup.rules.resolve = vec![("*.test".parse().unwrap(), loopback)];
    setup.start().await
}

/// Lets a client reject the proxy's certificate, and waits until the proxy has noticed.
async fn reject(rig: &Rig, authority: &str, name: &str, alpn: &[&str]) {
    let before = rig.proxy.totals().distrusted;
    let stranger = common::authority("A Stranger");
    let handshake = client::tls(rig, &stranger, authority, name, alpn).await;
    assert!(handshake.is_err());
    eventually("the alert is counted", async || {
        rig.proxy.totals().distrusted > before
    })
    .await;
}

#[tokio::test]
async fn a_client_that_rejects_two_certificates_gets_a_tunnel() {
    let rig = learning().await;
    let origin = Origin::https(&rig.world, &["pinned.test"], &["h2", "http/1.1"]).await;
    let authority = format!("pinned.test:{}", origin.address.port());
    let alpn = &["h2", "http/1.1"][..];
    reject(&rig, &authority, "pinned.test", alpn).await;
    assert!(rig.proxy.learned().is_empty());
    // A request shows that the client accepts the interception.
    let answer = client::get(&rig, &authority, "pinned.test", alpn, "/").await;
    assert_eq!(answer.status, 200);
    reject(&rig, &authority, "pinned.test", alpn).await;
    assert!(
        rig.proxy.learned().is_empty(),
        "a request lies between both failures"
    );
    reject(&rig, &authority, "pinned.test", alpn).await;
    eventually("the host is learned", async || {
        rig.proxy.learned().len() == 1
    })
    .await;
    let learned = &rig.proxy.learned()[0];
    assert_eq!(learned.host, "pinned.test");
    assert!(learned.reason.contains("alert"), "{learned:?}");
    let tunnelled = client::tls(&rig, &rig.world, &authority, "pinned.test", alpn).await;
    let answer = client::over(tunnelled.unwrap(), "pinned.test", "/x").await;
    assert_eq!((answer.status, rig.proxy.totals().tunnelled), (200, 1));
}

#[tokio::test]
async fn a_client_that_closes_after_the_handshake_gets_a_tunnel() {
    let rig = learning().await;
    let origin = Origin::https(&rig.world, &["pinned.test"], &["http/1.1"]).await;
    let authority = format!("pinned.test:{}", origin.address.port());
    eventually("the host is learned", async || {
        // Libraries such as OkHttp compare the fingerprint after the handshake. The proxy of a
        // loaded machine may notice the end too late.
        drop(client::tls(&rig, &rig.ca, &authority, "pinned.test", &["http/1.1"]).await);
        rig.proxy.learned().len() == 1
    })
    .await;
    let tunnelled = client::tls(&rig, &rig.world, &authority, "pinned.test", &["http/1.1"]).await;
    assert!(tunnelled.is_ok());
}

#[tokio::test]
async fn rules_and_failures_of_the_server_prevent_learning() {
    let rig = learning().await;
    let alpn = &["h2", "http/1.1"][..];
    let origin = Origin::https(&rig.world, &["always.test"], alpn).await;
    let always = format!("always.test:{}", origin.address.port());
    for _ in 0..3 {
        reject(&rig, &always, "always.test", alpn).await;
        let refused = format!("refused.test:{}", free_port());
        reject(&rig, &refused, "refused.test", alpn).await;
    }
    assert!(rig.proxy.learned().is_empty(), "{:?}", rig.proxy.learned());
}

#[tokio::test]
async fn a_learned_host_opens_no_tunnel_to_a_host_with_a_rule() {
    let rig = learning().await;
    let alpn = &["h2", "http/1.1"][..];
    let origin = Origin::https(&rig.world, &["pinned.test", "always.test"], alpn).await;
    let authority = format!("pinned.test:{}", origin.address.port());
    for _ in 0..3 {
        reject(&rig, &authority, "always.test", alpn).await;
    }
    assert!(rig.proxy.learned().is_empty(), "{:?}", rig.proxy.learned());
    for _ in 0..2 {
        reject(&rig, &authority, "pinned.test", alpn).await;
    }
    eventually("the host is learned", async || {
        rig.proxy.learned().len() == 1
    })
    .await;
    let intercepted = client::tls(&rig, &rig.ca, &authority, "always.test", alpn).await;
    assert!(intercepted.is_ok());
}

//! Expiry, and renewal in advance.

use std::sync::Arc;
use std::time::Duration;

use lucarne_mint::store::{
    CertificateStore, MemoryStore, MintOptions, Minter, StoreError, StoreOptions,
};
use lucarne_mint::{Authority, CaOptions, KeyType, Time};

use super::support::{DAY, Failure, HOUR, Hands, Spy, ca, host, until};

fn store(hands: &Hands) -> Arc<Spy> {
    Spy::on(MemoryStore::new(StoreOptions {
        clock: hands.clock(),
        ..StoreOptions::default()
    }))
}

fn minter(ca: Authority, store: Arc<dyn CertificateStore>, hands: &Hands) -> Minter {
    let options = MintOptions {
        clock: hands.clock(),
        ..MintOptions::default()
    };
    Minter::new(ca, store, options).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_is_made_ahead_of_time() {
    let hands = Hands::default();
    let spy = store(&hands);
    let minter = minter(ca(), spy.clone(), &hands);
    let name = host("www.example");
    let first = minter.certificate(&name).await.unwrap();
    hands.advance(28 * DAY);
    assert_eq!(
        minter.certificate(&name).await.unwrap().serial,
        first.serial
    );
    assert_eq!(spy.made.total(), 1);

    hands.advance(DAY); // the renewal is due a day and an hour before the end
    let hold = spy.made.hold();
    let meanwhile = minter.certificate(&name).await.unwrap();
    assert_eq!(
        meanwhile.serial, first.serial,
        "nobody waits for the successor"
    );
    drop(hold);
    until(|| minter.stats().refreshed == 1).await;
    let second = minter.certificate(&name).await.unwrap();
    assert_ne!(second.serial, first.serial);
    assert_eq!(spy.made.total(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_margin_left_is_not_given_out() {
    let hands = Hands::default();
    let spy = store(&hands);
    let minter = minter(ca(), spy.clone(), &hands);
    let name = host("www.example");
    let first = minter.certificate(&name).await.unwrap();
    hands.advance(30 * DAY - HOUR / 2);
    let second = minter.certificate(&name).await.unwrap();
    assert_ne!(second.serial, first.serial);
    let now = hands.clock().now();
    assert!(second.not_after > now + 29 * DAY);
    assert_eq!(minter.stats().expired, 1);
    assert_eq!(minter.stats().entries, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_successor_can_be_made_the_old_one_serves_while_it_may() {
    let hands = Hands::default();
    let spy = store(&hands);
    let minter = minter(ca(), spy.clone(), &hands);
    let name = host("www.example");
    let first = minter.certificate(&name).await.unwrap();
    *spy.made.fails.lock() = Some(Failure::Error);
    hands.advance(29 * DAY);
    for _ in 0..100 {
        let current = minter.certificate(&name).await.unwrap();
        assert_eq!(current.serial, first.serial);
        until(|| minter.stats().in_flight == 0).await;
    }
    assert_eq!(spy.made.total(), 2, "it is not tried again for each caller");
    hands.advance(DAY);
    assert!(minter.certificate(&name).await.is_err());
}

#[tokio::test]
async fn a_certificate_lives_no_longer_than_its_ca() {
    let hands = Hands::default();
    let spy = store(&hands);
    let soon = Time::from(hands.clock().now() + Duration::from_secs(600));
    let short = Authority::root(&CaOptions {
        not_after: soon,
        ..CaOptions::local(KeyType::EcdsaP256).unwrap()
    });
    let minter = minter(short.unwrap(), spy.clone(), &hands);
    let name = host("www.example");
    let minted = minter.certificate(&name).await.unwrap();
    assert_eq!(Time::from(minted.not_after), soon);
    // A certificate with a short lifetime is used for most of it.
    hands.advance(Duration::from_secs(180));
    minter.certificate(&name).await.unwrap();
    assert_eq!(spy.made.total(), 1);
    hands.advance(Duration::from_secs(600));
    let ended = minter.certificate(&name).await.unwrap_err();
    assert!(matches!(ended, StoreError::Generate { .. }));
    let date = lucarne_x509::time::display(soon.unix() * 1000);
    let told = format!("expired at {date}: create a new CA");
    assert!(ended.to_string().contains(&told), "{ended}");
}

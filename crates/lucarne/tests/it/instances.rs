//! Three processes of one log, on real stores and databases. After any failure of the leader,
//! submissions continue, and at the end no entry is lost, repeated or taken back.

mod clients;
mod faults;
mod group;
mod misfits;

use std::fs;
use std::time::{Duration, Instant};

use self::clients::Clients;
use self::group::Instances;
use crate::common::{assert_has, lucarne, pki, run};
use lucarne_testkit::{Bucket, DatabaseKind, DatabaseServer, Place, Signal, temp_dir};
use std::sync::atomic::Ordering::SeqCst;

/// Kills, stops and pauses the leader of three instances. The old leader returns each time.
async fn a_bad_day(place: Place) {
    let mut instances = Instances::create(place);
    instances.start_all();
    instances.settled().await;
    let clients = Clients::new(&instances, Duration::from_secs(8));
    let at_work = clients.go_to_work(12, Duration::from_millis(5));
    clients.go_on().await;

    for round in 0..rounds() {
        let leader = instances.settled().await;
        let at = Instant::now();
        instances.server(leader).kill().unwrap();
        clients.go_on().await;
        println!("killed {round}: {:?} without SCTs", clients.gap(at));
        instances.start(leader);

        let leader = instances.settled().await;
        let (at, refused) = (Instant::now(), clients.refused.load(SeqCst));
        instances.stop(leader);
        clients.go_on().await;
        let refused = clients.refused.load(SeqCst) - refused;
        println!(
            "stopped {round}: {:?} without SCTs, {refused} refused",
            clients.gap(at)
        );
        instances.start(leader);

        let leader = instances.settled().await;
        let at = Instant::now();
        instances.server(leader).signal(Signal::STOP).unwrap();
        // The pause lasts at least this long: the instances must survive any length.
        tokio::time::sleep(Duration::from_secs(4)).await;
        instances.server(leader).signal(Signal::CONT).unwrap();
        clients.go_on().await;
        println!("paused {round}: {:?} without SCTs", clients.gap(at));
    }
    instances.settled().await;
    clients.end(at_work).await;
    clients.all_audited().await;
    (0..3).for_each(|n| instances.stop(n));
}

/// Returns the number of rounds: `LUCARNE_INSTANCES_ROUNDS`, or one.
fn rounds() -> usize {
    let rounds = std::env::var("LUCARNE_INSTANCES_ROUNDS");
    rounds.map_or(1, |rounds| rounds.parse().unwrap())
}

#[test]
fn in_a_bucket_alone() {
    run(async { a_bad_day(Place::s3_alone().await.unwrap()).await });
}

#[test]
fn with_mariadb() {
    run(async { a_bad_day(Place::s3_and_mariadb().await.unwrap()).await });
}

#[test]
fn with_postgresql() {
    run(async {
        let server = DatabaseServer::shared(DatabaseKind::Postgres).unwrap();
        let bucket = Bucket::versitygw().await.unwrap();
        let place = Place::bucket(&bucket, None).with_lock(&server).unwrap();
        a_bad_day(place).await;
    });
}

#[test]
fn what_cannot_be_shared_is_refused_in_words() {
    let directory = temp_dir();
    let path = directory.path();
    let (code, said) = lucarne(path, &["keygen", "-f", "seed.bin"]);
    assert_eq!(code, 0, "{said}");
    fs::write(path.join("roots.pem"), pki().roots_pem()).unwrap();
    lucarne_testkit::write_secret(path.join("short.key"), "short\n");
    fs::write(
        path.join("lucarne.yaml"),
        "listen: [\":0\"]\ncheckpoints: lock.db\nlogs:\n- shortname: a\n  \
         submissionprefix: https://ct.example/a\n  secret: seed.bin\n  roots: roots.pem\n  \
         localdirectory: a\n  instances: {address: here, key: short.key, more: 1}\n",
    )
    .unwrap();
    let (code, said) = lucarne(path, &["check"]);
    assert_eq!(code, 1, "{said}");
    for part in [
        "logs[a].instances: requires a log in a bucket",
        "logs[a].instances.address: `here` is not an address that other machines can reach",
        "create a key with `openssl rand -base64 32`",
        "logs[a].instances.more",
    ] {
        assert_has(&said, part);
    }
}

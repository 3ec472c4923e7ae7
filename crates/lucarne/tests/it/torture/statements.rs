//! Faults of statements to the lock's database: connections that are cut before their effect, after
//! it or in the middle of the response, and responses that are late or have a flipped bit.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use lucarne_testkit::{DatabaseKind, DatabaseProxy, DatabaseServer, Place, StatementFate};
use rand::seq::IndexedRandom;
use rand::{Rng, rngs::StdRng};

use super::Cases;
use super::life::Life;
use super::requests::goes_on;
use crate::common::EVENT_TIMEOUT;

/// Statements of a start, including logins, and of some rounds after it.
const STATEMENTS: u64 = 30;

#[test]
fn statements_to_mariadb_that_go_wrong_lose_nothing() {
    torture("a statement to MariaDB goes wrong", DatabaseKind::MariaDb);
}

#[test]
fn statements_to_postgresql_that_go_wrong_lose_nothing() {
    torture(
        "a statement to PostgreSQL goes wrong",
        DatabaseKind::Postgres,
    );
}

fn torture(class: &'static str, kind: DatabaseKind) {
    let mut cases = Cases::new(class, 6);
    let server = DatabaseServer::shared(kind).unwrap();
    let proxy = DatabaseProxy::start(server.address()).unwrap();
    let place = || {
        Place::directory()
            .with_lock_behind(&proxy, &server)
            .unwrap()
    };
    let mut life = Life::new(place());
    while let Some(mut luck) = cases.next() {
        let fault = strike(&life, &proxy, &mut luck);
        life.is_whole(&fault);
        if life.is_over() {
            life.settle();
            life = Life::new(place());
        }
    }
    life.settle();
}

/// Strikes one statement, or three in a row, of a working server. Returns a description of the
/// fault.
fn strike(life: &Life, proxy: &DatabaseProxy, luck: &mut StdRng) -> String {
    let fates = [
        StatementFate::Delay(Duration::from_millis(700)),
        StatementFate::Lose,
        StatementFate::LoseAnswer,
        StatementFate::HalveAnswer,
        StatementFate::FlipAnswer(luck.random_range(0..4_000)),
    ];
    let fate = *fates.choose(luck).unwrap();
    let first = luck.random_range(1..=STATEMENTS);
    let last = first + if luck.random_bool(0.5) { 0 } else { 2 };
    let fault = format!("{fate:?} of statements {first} to {last}");
    let (number, before) = (AtomicU64::new(0), proxy.struck());
    proxy.judge(move || {
        let number = number.fetch_add(1, SeqCst) + 1;
        if (first..=last).contains(&number) {
            fate
        } else {
            StatementFate::Pass
        }
    });
    let mut server = life.log.launch("serve").spawn().unwrap();
    let started = Instant::now();
    let unstruck = || proxy.struck() <= before + (last - first);
    while unstruck() && server.try_wait().unwrap().is_none() {
        assert!(
            started.elapsed() < EVENT_TIMEOUT,
            "{fault}: never\n{}",
            server.output()
        );
        // A poll with a deadline: no verdict depends on the interval.
        std::thread::sleep(Duration::from_millis(2));
    }
    goes_on(life, &mut server, &fault);
    let _ = server.kill();
    proxy.judge(|| StatementFate::Pass);
    fault
}

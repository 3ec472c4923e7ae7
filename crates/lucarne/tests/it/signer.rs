//! The key in a separate process. There is only one history after any failure of the log's server
//! or the signer.

pub(crate) mod apart;
mod token;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lucarne_ct::verify_checkpoint;
use lucarne_testkit::Client;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::runtime::Runtime;

use self::apart::{Apart, Copied};
use crate::common::load::{Load, is_retry_later};
use crate::common::{EVENT_TIMEOUT, assert_has, edit, eventually, pki, ready, run, submission};

/// The message names the failure and its reason once.
#[test]
fn a_signer_without_a_place_for_its_memory_says_why_once() {
    let apart = Apart::prepare();
    let configuration = apart.log.path().join("signer.yaml");
    edit(&configuration, "memory: memory", "memory: seed.bin/memory");
    for task in [&["first-use", &apart.log.origin()][..], &[]] {
        let (code, said) = apart.signer_task(task);
        assert_eq!(code, 1, "{said}");
        assert_eq!(said.matches("os error").count(), 1, "{said}");
    }
}

const KILLS: usize = 24;

/// Entries that are submitted again.
const OLD: usize = 300;

/// Waits until `/health` contains `part`.
async fn says(apart: &Apart, part: &str) {
    let site = Client::new(format!("http://{}", apart.log.address()));
    eventually(&format!("/health says {part:?}"), async || {
        let answer = site.get("health").await;
        answer.is_ok_and(|answer| answer.text().contains(part))
    })
    .await;
}

async fn submit(apart: &Apart, body: &str) -> lucarne_testkit::Response {
    let client = apart.log.client();
    client
        .post("ct/v1/add-chain", body.to_owned())
        .await
        .unwrap()
}

#[test]
fn a_new_log_and_one_that_exists_are_given_to_a_signer() {
    let apart = Apart::prepare();
    // Before an operator confirms that the log is new, nothing is signed and no log is created.
    let (code, said) = apart.signer_task(&[]);
    assert_eq!(code, 1);
    assert_has(&said, "lucarne signer first-use");
    let origin = apart.log.origin();
    assert_eq!(apart.signer_task(&["first-use", &origin]).0, 0);
    let (code, said) = apart.signer_task(&["first-use", &origin]);
    assert_eq!(code, 1);
    assert_has(&said, "never replaced");
    let signer = apart.start_signer();
    assert!(apart.log.launch("init").run().unwrap().status.success());
    let server = apart.log.start().unwrap();
    run(async {
        ready(&apart.log).await;
        let load = Load::new(&apart.log);
        for _ in 0..20 {
            let fresh = load.fresh();
            assert_eq!(load.submit(&fresh).await, Some(true));
            assert_eq!(load.submit(&fresh).await, Some(true), "again");
        }
        load.settle_accounts().await.assert_clean();
    });
    drop((server, signer));

    // The signer's memory is lost, and recreated from the published checkpoint.
    fs::remove_file(apart.memory()).unwrap();
    assert_eq!(apart.signer_task(&["adopt", "data/checkpoint"]).0, 0);
    let _signer = apart.start_signer();
    let _server = apart.log.start().unwrap();
    run(async {
        ready(&apart.log).await;
        // The server has lost its issued SCTs, and the signer has only the adopted checkpoint.
        let load = Load::new(&apart.log);
        let fresh = load.fresh();
        assert_eq!(load.submit(&fresh).await, Some(true));
    });
}

#[test]
fn kills_of_server_and_signer_lose_and_repeat_nothing() {
    let seed = 1;
    println!("moments of death: {seed}");
    let mut moments = StdRng::seed_from_u64(seed);
    let apart = Apart::new();
    let runtime = Runtime::new().unwrap();
    let load = Arc::new(Load::new(&apart.log));
    let mut at_work: Vec<_> = (0..4)
        .map(|_| {
            let load = load.clone();
            runtime.spawn(async move { load.submit_on().await })
        })
        .collect();
    let polling = load.clone();
    at_work.push(runtime.spawn(async move { polling.poll_on().await }));
    let (mut signer, mut server) = (apart.start_signer(), apart.log.start().unwrap());
    let mut committed = 0;
    for _ in 0..KILLS {
        let before = load.promised.load(Ordering::SeqCst);
        let started = Instant::now();
        while load.promised.load(Ordering::SeqCst) == before {
            assert!(
                started.elapsed() < EVENT_TIMEOUT,
                "no SCT:\n{}",
                server.output()
            );
            // A poll with a deadline: no verdict depends on the interval.
            std::thread::sleep(Duration::from_millis(1));
        }
        // The moment of the kill: no entry may be lost at any moment.
        std::thread::sleep(Duration::from_millis(moments.random_range(0..200)));
        let both = moments.random_range(0..3);
        if both != 0 {
            signer.kill().unwrap();
            signer = apart.start_signer();
        }
        if both != 1 {
            server.kill().unwrap();
            committed += usize::from(
                server
                    .output()
                    .contains("committing a checkpoint that is already signed"),
            );
            server = apart.log.start().unwrap();
        }
    }
    runtime.block_on(ready(&apart.log));
    load.end();
    let report = runtime.block_on(async {
        for task in at_work {
            task.await.unwrap();
        }
        load.settle_accounts().await
    });
    println!("{committed} rounds that only the signer had committed\n{report}");
    report.assert_clean();
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// A lock that cannot be written prolongs the moment between signature and commit.
#[test]
fn what_was_signed_and_not_committed_is_committed_at_the_next_start() {
    let apart = Apart::new();
    let _signer = apart.start_signer();
    let mut server = apart.log.start().unwrap();
    let body = submission(&pki().p256);
    let lock = rusqlite::Connection::open(apart.log.path().join("lock.sqlite")).unwrap();
    run(async {
        ready(&apart.log).await;
        let load = Load::new(&apart.log);
        let fresh = load.fresh();
        assert_eq!(load.submit(&fresh).await, Some(true));
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        let signed = fs::read(apart.memory()).unwrap();
        let (client, again) = (apart.log.client(), body.clone());
        tokio::spawn(async move { client.post("ct/v1/add-chain", again).await.map(drop) });
        eventually("two entries are signed", async || {
            fs::read(apart.memory()).unwrap() != signed && apart.remembered() == 2
        })
        .await;
    });
    server.kill().unwrap();
    drop(lock);
    let signed = fs::read(apart.memory()).unwrap();

    let server = apart.log.start().unwrap();
    run(async {
        ready(&apart.log).await;
        assert_has(
            &server.output(),
            "committing a checkpoint that is already signed",
        );
        let answer = submit(&apart, &body).await;
        assert_eq!(answer.status, 200);
        let sct = lucarne_ct::Sct::parse(&answer.body).unwrap();
        assert_eq!(sct.index(), Some(1));
        // The timestamp is that of the signed head.
        let (origin, key) = (apart.log.origin(), apart.log.public_key());
        let (_, timestamp) = verify_checkpoint(&signed, &origin, key).unwrap();
        assert_eq!(sct.timestamp, timestamp);
        apart
            .log
            .audit()
            .unwrap()
            .run()
            .await
            .unwrap()
            .assert_clean();
    });
}

#[test]
fn a_log_that_was_rolled_back_with_its_lock_is_refused() {
    let apart = Apart::new();
    let _signer = apart.start_signer();
    let grow = |entries: usize| {
        let mut server = apart.log.start().unwrap();
        run(async {
            ready(&apart.log).await;
            for _ in 0..entries {
                assert_eq!(submit(&apart, &submission(&pki().p256)).await.status, 200);
            }
        });
        assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    };
    grow(2);
    let old = Copied::of(&apart);
    grow(3);
    let newest = Copied::of(&apart);
    let signed = fs::read(apart.memory()).unwrap();

    old.restore(&apart);
    let server = apart.log.start().unwrap();
    run(async {
        says(&apart, "the signer has signed 5 entries").await;
        let answer = submit(&apart, &submission(&pki().p256)).await;
        assert!(is_retry_later(&answer), "{}", answer.text());
    });
    drop(server);
    assert_eq!(
        fs::read(apart.memory()).unwrap(),
        signed,
        "nothing was signed"
    );

    newest.restore(&apart);
    grow(1);
    assert_eq!(apart.remembered(), 6);

    // A signer with another history does not sign for this history either.
    old.restore(&apart);
    fs::remove_file(apart.memory()).unwrap();
    drop(_signer);
    assert_eq!(apart.signer_task(&["adopt", "data/checkpoint"]).0, 0);
    let _signer = apart.start_signer();
    grow(5);
    newest.restore(&apart);
    let _server = apart.log.start().unwrap();
    run(says(&apart, "the signer has signed 7 entries"));
}

#[test]
fn a_signer_with_an_old_memory_is_shown_how_the_log_grew() {
    let apart = Apart::new();
    let old = fs::read(apart.memory()).unwrap();
    let signer = apart.start_signer();
    let mut server = apart.log.start().unwrap();
    run(async {
        ready(&apart.log).await;
        for _ in 0..3 {
            assert_eq!(submit(&apart, &submission(&pki().p256)).await.status, 200);
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    drop(signer);
    fs::write(apart.memory(), old).unwrap();
    let _signer = apart.start_signer();
    let _server = apart.log.start().unwrap();
    run(async {
        ready(&apart.log).await;
        assert_eq!(submit(&apart, &submission(&pki().p256)).await.status, 200);
    });
    assert_eq!(apart.remembered(), 4);
}

#[test]
fn without_its_signer_a_log_takes_nothing_and_goes_on_by_itself() {
    let apart = Apart::new();
    let mut signer = apart.start_signer();
    let _server = apart.log.start().unwrap();
    let body = submission(&pki().p256);
    run(async {
        ready(&apart.log).await;
        assert_eq!(submit(&apart, &body).await.status, 200);
        signer.kill().unwrap();
        let answer = submit(&apart, &submission(&pki().p256)).await;
        assert!(is_retry_later(&answer), "{}", answer.text());
        says(&apart, "is unavailable").await;
        // Reads still work all the time.
        assert_eq!(
            apart.log.client().get("checkpoint").await.unwrap().status,
            200
        );

        // A signer that accepts only another user does not help.
        let mut stranger = apart.start_signer_for("4294967294");
        // Time for requests to the signer. If the log has not tried yet on a busy machine, its
        // response is the same.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let answer = submit(&apart, &body).await;
        assert!(is_retry_later(&answer), "{}", answer.text());
        stranger.kill().unwrap();

        let _signer = apart.start_signer();
        ready(&apart.log).await;
        assert_eq!(submit(&apart, &body).await.status, 200);
        assert_eq!(submit(&apart, &submission(&pki().p256)).await.status, 200);
        apart
            .log
            .audit()
            .unwrap()
            .run()
            .await
            .unwrap()
            .assert_clean();
    });
}

/// Any client can read the certificates of a public log, and submit them again.
#[test]
fn those_who_submit_known_certificates_again_stop_no_round() {
    let apart = Apart::new();
    let signer = apart.start_signer();
    let mut server = apart.log.start().unwrap();
    let load = Arc::new(Load::new(&apart.log));
    let runtime = Runtime::new().unwrap();
    let old: Arc<Vec<_>> = Arc::new((0..OLD).map(|_| load.fresh()).collect());
    runtime.block_on(async {
        ready(&apart.log).await;
        let (load, old) = (&load, &old);
        let parts = old.chunks(OLD / 10).map(|part| async move {
            for one in part {
                assert_eq!(load.submit(one).await, Some(true));
            }
        });
        futures_util::future::join_all(parts).await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());

    // The restarted server has lost its issued SCTs, so each is signed again.
    let server = apart.log.start().unwrap();
    runtime.block_on(ready(&apart.log));
    let again: Vec<_> = (0..64)
        .map(|at| {
            let (load, old) = (load.clone(), old.clone());
            runtime.spawn(async move {
                for one in old.iter().cycle().skip(at * OLD / 64) {
                    if load.is_over() {
                        return;
                    }
                    load.submit(one).await;
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for _ in 0..30 {
            let fresh = load.fresh();
            eventually("a fresh certificate gets its SCT", async || {
                load.submit(&fresh).await == Some(true)
            })
            .await;
        }
        load.end();
        for task in again {
            task.await.unwrap();
        }
        load.settle_accounts().await.assert_clean();
    });
    for said in [server.output(), signer.output()] {
        assert!(!said.contains("ERROR"), "{said}");
    }
}

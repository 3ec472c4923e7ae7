//! Faults of database servers under a lock in use: restarts, crashes, hangs and wrong settings.
//! Each test has a separate server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lucarne_storage::{Lock, LockError, SqlLock};
use lucarne_testkit::{DatabaseKind, DatabaseServer, until};

const LOG: [u8; 32] = [9; 32];

struct Place {
    server: DatabaseServer,
    name: String,
}

impl Place {
    async fn new(kind: DatabaseKind) -> (Self, SqlLock) {
        let server = DatabaseServer::start(kind).unwrap();
        let name = server.new_database().unwrap();
        let place = Self { server, name };
        let lock = SqlLock::create(&place.url()).await.unwrap();
        lock.create(&LOG, b"0").await.unwrap();
        (place, lock)
    }

    fn url(&self) -> String {
        self.server.url(&self.name)
    }
}

macro_rules! both {
    ($($case:ident)*) => {
        mod mariadb {
            use super::*;
            $( #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
               async fn $case() { super::$case(DatabaseKind::MariaDb).await } )*
        }
        mod postgres {
            use super::*;
            $( #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
               async fn $case() { super::$case(DatabaseKind::Postgres).await } )*
        }
    };
}

both! {
    restarts_between_commits_are_not_noticed
    nothing_is_lost_or_done_twice_when_it_is_killed
    a_server_that_hangs_is_given_up
    a_server_that_forgets_is_refused
}

/// All open connections have been closed: the next call of each log reconnects.
async fn restarts_between_commits_are_not_noticed(kind: DatabaseKind) {
    let (mut place, lock) = Place::new(kind).await;
    for step in 0..2 {
        let (old, new) = (step.to_string(), (step + 1).to_string());
        place.server.restart(&[]).unwrap();
        lock.replace(&LOG, old.as_bytes(), new.as_bytes())
            .await
            .unwrap();
    }
    place.server.restart(&[]).unwrap();
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"2");
    place.server.stop().unwrap();
    let start = Instant::now();
    let gone = lock.load(&LOG).await.unwrap_err().to_string();
    assert!(gone.contains("is the server running"), "{gone}");
    assert!(start.elapsed() < Duration::from_secs(60));
    place.server.begin(&[]).unwrap();
    lock.replace(&LOG, b"2", b"3").await.unwrap();
}

/// Commits of a log, as fast as possible, while its server is killed three times. Every successful
/// commit is stored. A failed commit may be stored or not, which a read decides. No process gets a
/// conflict with its own commit.
async fn nothing_is_lost_or_done_twice_when_it_is_killed(kind: DatabaseKind) {
    let (mut place, lock) = Place::new(kind).await;
    let (lock, stop) = (Arc::new(lock), Arc::new(AtomicBool::new(false)));
    let commits = Arc::new(AtomicU64::new(0));
    let committing = tokio::spawn({
        let (lock, stop, commits) = (lock.clone(), stop.clone(), commits.clone());
        async move {
            let mut last = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let (old, new) = (last.to_string(), (last + 1).to_string());
                match lock.replace(&LOG, old.as_bytes(), new.as_bytes()).await {
                    Ok(()) => last += 1,
                    Err(LockError::Failed { .. }) => {
                        // Waits and reads, like a log.
                        let found = loop {
                            match lock.load(&LOG).await {
                                Ok(found) => break found.unwrap(),
                                Err(error) => {
                                    assert!(matches!(error, LockError::Failed { .. }), "{error}")
                                }
                            }
                        };
                        let found: u64 = String::from_utf8(found).unwrap().parse().unwrap();
                        assert!(found == last || found == last + 1, "{last} became {found}");
                        last = found;
                    }
                    Err(error) => panic!("{error}"),
                }
                commits.fetch_add(1, Ordering::Relaxed);
            }
            last
        }
    });
    let go_on = async || {
        let enough = commits.load(Ordering::Relaxed) + 10;
        until("commits go on", || {
            commits.load(Ordering::Relaxed) >= enough
        })
        .await;
    };
    for _ in 0..3 {
        // Most kills interrupt a commit.
        go_on().await;
        place.server.kill().unwrap();
        place.server.begin(&[]).unwrap();
    }
    // Commits also succeed after the last start.
    go_on().await;
    stop.store(true, Ordering::Relaxed);
    let last = committing.await.unwrap();
    let stored = lock.load(&LOG).await.unwrap().unwrap();
    assert_eq!(stored, last.to_string().as_bytes());
}

/// The commit in progress may still happen. The lock reports a failure in time, and works again
/// when the server does.
async fn a_server_that_hangs_is_given_up(kind: DatabaseKind) {
    let (mut place, lock) = Place::new(kind).await;
    place.server.freeze().unwrap();
    let start = Instant::now();
    let failed = lock.replace(&LOG, b"0", b"1").await.unwrap_err();
    assert!(matches!(failed, LockError::Failed { .. }), "{failed}");
    assert!(failed.to_string().contains("no response"), "{failed}");
    let opening = SqlLock::open(&place.url()).await.err().unwrap();
    assert!(opening.to_string().contains("no response"), "{opening}");
    assert!(start.elapsed() < Duration::from_secs(60));
    place.server.thaw().unwrap();
    let found = lock.load(&LOG).await.unwrap().unwrap();
    match lock.replace(&LOG, &found, b"2").await {
        Ok(()) => {}
        // The first commit arrived between the two.
        Err(LockError::Conflict { found, .. }) => {
            lock.replace(&LOG, &found.unwrap(), b"2").await.unwrap();
        }
        Err(error) => panic!("{error}"),
    }
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"2");
}

/// A server whose settings risk the loss of commits is refused when it is opened, and after it
/// restarts with such settings.
async fn a_server_that_forgets_is_refused(kind: DatabaseKind) {
    let (mut place, lock) = Place::new(kind).await;
    let settings: &[&[&str]] = match kind {
        DatabaseKind::MariaDb => &[
            &["innodb-flush-log-at-trx-commit=2"],
            &["innodb-flush-log-at-trx-commit=0"],
            &["log-bin=binlog", "sync-binlog=0"],
        ],
        DatabaseKind::Postgres => &[&["fsync=off"]],
    };
    for settings in settings {
        place.server.restart(settings).unwrap();
        for refused in [
            lock.replace(&LOG, b"0", b"1").await.unwrap_err(),
            SqlLock::open(&place.url()).await.err().unwrap(),
        ] {
            let message = refused.to_string();
            assert!(message.contains("loses commits"), "{message}");
        }
    }
    let settings: &[&str] = match kind {
        DatabaseKind::MariaDb => &["log-bin=binlog", "sync-binlog=1"],
        DatabaseKind::Postgres => &["synchronous_commit=off"],
    };
    place.server.restart(settings).unwrap();
    lock.replace(&LOG, b"0", b"1").await.unwrap();
}

/// The server is read-only, like a replica before its promotion to primary.
#[tokio::test]
async fn a_mariadb_that_is_read_only_is_named() {
    let (place, lock) = Place::new(DatabaseKind::MariaDb).await;
    place.server.admin("", "SET GLOBAL read_only = 1").unwrap();
    for refused in [lock.check().await, lock.replace(&LOG, b"0", b"1").await] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("primary"), "{refused}");
    }
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"0");
    place.server.admin("", "SET GLOBAL read_only = 0").unwrap();
    lock.replace(&LOG, b"0", b"1").await.unwrap();
}

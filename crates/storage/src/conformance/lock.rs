//! The test cases for [`Lock`](crate::Lock).

use std::sync::Arc;

use super::LockBackend;
use crate::{Lease, LeaseError, Lock, LockError, LogId};

type Backend<'b> = &'b dyn LockBackend;

const LOG: LogId = [7; 32];
const OTHER: LogId = [8; 32];

async fn load(lock: &dyn Lock, log: &LogId) -> Option<Vec<u8>> {
    lock.load(log).await.unwrap()
}

/// Returns the stored checkpoint that a conflict reports.
fn found(result: Result<(), LockError>) -> Option<Vec<u8>> {
    match result {
        Err(LockError::Conflict { found, .. }) => found,
        other => panic!("not a conflict: {other:?}"),
    }
}

/// Loading a log that was never created returns `None`.
pub async fn an_unknown_log_is_none(backend: Backend<'_>) {
    let lock = backend.open().await;
    assert_eq!(load(&*lock, &LOG).await, None);
    assert!(!lock.location().is_empty());
}

/// A stored checkpoint is loaded byte for byte, even in the next process.
pub async fn a_created_log_is_loaded_as_it_was(backend: Backend<'_>) {
    let body = "log.example/2026h1\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n\n— é\n";
    backend
        .open()
        .await
        .create(&LOG, body.as_bytes())
        .await
        .unwrap();
    assert_eq!(
        load(&*backend.open().await, &LOG).await.unwrap(),
        body.as_bytes()
    );
}

/// The second creation is refused and changes nothing.
pub async fn a_log_is_created_once(backend: Backend<'_>) {
    let lock = backend.open().await;
    lock.create(&LOG, b"first").await.unwrap();
    for body in [&b"second"[..], b"first"] {
        let again = backend.open().await.create(&LOG, body).await;
        assert!(matches!(again, Err(LockError::Exists { .. })), "{again:?}");
    }
    assert_eq!(load(&*lock, &LOG).await.unwrap(), b"first");
}

/// Each log has its own checkpoint.
pub async fn logs_do_not_mix(backend: Backend<'_>) {
    let lock = backend.open().await;
    lock.create(&LOG, b"a").await.unwrap();
    lock.create(&OTHER, b"a").await.unwrap();
    lock.replace(&LOG, b"a", b"b").await.unwrap();
    assert_eq!(load(&*lock, &LOG).await.unwrap(), b"b");
    assert_eq!(load(&*lock, &OTHER).await.unwrap(), b"a");
}

/// A replacement must name the complete old checkpoint: a prefix or other letter case conflicts.
pub async fn replacing_needs_the_old_checkpoint(backend: Backend<'_>) {
    let lock = backend.open().await;
    lock.create(&LOG, b"checkpoint\n").await.unwrap();
    for old in [
        &b""[..],
        b"checkpoint",
        b"CHECKPOINT\n",
        b"checkpoint\n\n",
        b"checkpoint\n\0",
    ] {
        let result = lock.replace(&LOG, old, b"new").await;
        assert_eq!(found(result).unwrap(), b"checkpoint\n");
    }
    lock.replace(&LOG, b"checkpoint\n", b"new").await.unwrap();
    lock.replace(&LOG, b"new", b"new").await.unwrap();
    assert_eq!(load(&*lock, &LOG).await.unwrap(), b"new");
}

/// `replace` never creates a log.
pub async fn replacing_an_unknown_log_conflicts(backend: Backend<'_>) {
    let lock = backend.open().await;
    assert_eq!(found(lock.replace(&LOG, b"a", b"b").await), None);
    assert_eq!(found(lock.replace(&LOG, b"", b"b").await), None);
    assert_eq!(load(&*lock, &LOG).await, None);
}

/// The loser of a conflict gets the winner's checkpoint.
pub async fn a_conflict_changes_nothing(backend: Backend<'_>) {
    let (one, two) = (backend.open().await, backend.open().await);
    one.create(&LOG, b"0").await.unwrap();
    one.replace(&LOG, b"0", b"1").await.unwrap();
    assert_eq!(found(two.replace(&LOG, b"0", b"2").await).unwrap(), b"1");
    assert_eq!(load(&*one, &LOG).await.unwrap(), b"1");
}

/// A checkpoint may have any bytes and be long: signatures of other algorithms are large.
pub async fn any_bytes_are_kept(backend: Backend<'_>) {
    let lock = backend.open().await;
    lock.create(&LOG, b"start").await.unwrap();
    let mut old = b"start".to_vec();
    for new in [
        "é—✓\n".repeat(5000).into_bytes(),
        b"'; --\n".to_vec(),
        b"123".to_vec(),
    ] {
        lock.replace(&LOG, &old, &new).await.unwrap();
        assert_eq!(load(&*lock, &LOG).await.unwrap(), new);
        old = new;
    }
}

/// An open connection that has already read a checkpoint sees the replacement by another
/// connection.
pub async fn a_replacement_is_seen_by_others(backend: Backend<'_>) {
    let (one, two) = (backend.open().await, backend.open().await);
    one.create(&LOG, b"0").await.unwrap();
    for step in 0..20 {
        let (old, new) = (step.to_string(), (step + 1).to_string());
        assert_eq!(load(&*two, &LOG).await.unwrap(), old.as_bytes());
        one.replace(&LOG, old.as_bytes(), new.as_bytes())
            .await
            .unwrap();
    }
    assert_eq!(load(&*two, &LOG).await.unwrap(), b"20");
}

/// Fifty tasks on five handles try each step at the same time. One wins; the others conflict and
/// get the winner's checkpoint.
pub async fn one_of_fifty_wins_each_step(backend: Backend<'_>) {
    let mut locks: Vec<Arc<dyn Lock>> = Vec::new();
    for _ in 0..5 {
        locks.push(Arc::from(backend.open().await));
    }
    locks[0].create(&LOG, b"start").await.unwrap();
    let mut old = b"start".to_vec();
    for step in 0..10 {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..50 {
            let (lock, old) = (locks[task % locks.len()].clone(), old.clone());
            tasks.spawn(async move {
                let new = format!("step {step} by {task}").into_bytes();
                let result = lock.replace(&LOG, &old, &new).await;
                (new, result)
            });
        }
        let (winners, losers): (Vec<_>, Vec<_>) = tasks
            .join_all()
            .await
            .into_iter()
            .partition(|(_, result)| result.is_ok());
        assert_eq!(winners.len(), 1, "step {step}");
        old = winners[0].0.clone();
        for (_, result) in losers {
            assert_eq!(found(result).unwrap(), old);
        }
        assert_eq!(load(&*locks[0], &LOG).await.unwrap(), old);
    }
}

/// Twenty logs commit at the same time; none conflicts with another.
pub async fn many_logs_share_a_lock(backend: Backend<'_>) {
    let lock: Arc<dyn Lock> = Arc::from(backend.open().await);
    let mut tasks = tokio::task::JoinSet::new();
    for log in 0..20 {
        let lock = lock.clone();
        tasks.spawn(async move {
            let log = [log; 32];
            lock.create(&log, b"0").await.unwrap();
            for step in 0..20 {
                let (old, new) = (step.to_string(), (step + 1).to_string());
                lock.replace(&log, old.as_bytes(), new.as_bytes())
                    .await
                    .unwrap();
            }
            assert_eq!(load(&*lock, &log).await.unwrap(), b"20");
        });
    }
    tasks.join_all().await;
}

/// `check` may be called at any time by any process and changes nothing.
pub async fn checking_changes_nothing(backend: Backend<'_>) {
    let (one, two) = (backend.open().await, backend.open().await);
    one.check().await.unwrap();
    one.create(&LOG, b"0").await.unwrap();
    for _ in 0..3 {
        one.check().await.unwrap();
        two.check().await.unwrap();
    }
    assert_eq!(load(&*two, &LOG).await.unwrap(), b"0");
    two.replace(&LOG, b"0", b"1").await.unwrap();
}

/// The lease is a separate value: of several processes that read the same lease, only one can take
/// it.
pub async fn a_lease_is_taken_once(backend: Backend<'_>) {
    let mut locks: Vec<Arc<dyn Lock>> = Vec::new();
    for _ in 0..3 {
        locks.push(Arc::from(backend.open().await));
    }
    locks[0].create(&LOG, b"checkpoint").await.unwrap();
    let lease = |holder: u8, epoch| Lease {
        holder: Some([holder; 16]),
        address: format!("10.0.0.{holder}:6963"),
        epoch,
        renewal: 0,
    };
    let first = lease(0, 1);
    first.create(&*locks[0], &LOG).await.unwrap();
    let mut seen = Vec::new();
    // All processes read before any of them takes the lease: a later reader may take the lease from
    // its new holder.
    for lock in &locks {
        seen.push(Lease::load(&**lock, &LOG).await.unwrap().unwrap());
    }
    let mut tasks = tokio::task::JoinSet::new();
    for ((lock, seen), holder) in locks.iter().cloned().zip(seen).zip(1..) {
        let taken = lease(holder, 2);
        tasks.spawn(async move { (seen.replace(&taken, &*lock, &LOG).await, taken) });
    }
    let (taken, lost): (Vec<_>, Vec<_>) = tasks
        .join_all()
        .await
        .into_iter()
        .partition(|it| it.0.is_ok());
    assert_eq!(taken.len(), 1);
    assert!(lost.iter().all(|it| matches!(it.0, Err(LeaseError::Lost))));
    for lock in &locks {
        let found = Lease::load(&**lock, &LOG).await.unwrap();
        assert_eq!(found.as_ref(), Some(&taken[0].1));
        assert_eq!(load(&**lock, &LOG).await.unwrap(), b"checkpoint");
    }
}

//! The race that tests whether a store's conditional puts are atomic.
//!
//! A store that ignores conditions always fails. A store that checks first and writes later, like
//! several clones of S3, fails when two requests meet in between. No test can prove that this never
//! happens.

use std::sync::atomic::Ordering::Relaxed;

use futures_util::future::join_all;
use object_store::{ObjectStoreExt, PutMode, UpdateVersion};
use tokio::time::{Instant, timeout};

use super::ObjectLock;
use super::put::{Put, Stored, mark};
use super::request_failure::Failure;
use crate::LockError;

/// Number of races that must have a winner. Each race uses a separate key, because some stores
/// (GCS) accept only one write to a key per second.
const RACES: usize = 3;

/// Maximum number of races to get enough winners.
const ATTEMPTS: usize = 10;

/// Number of concurrent puts in a race.
const CONTESTANTS: usize = 8;

/// Time limit of all races, as a multiple of a call's limit.
const LIMIT: u32 = 6;

/// The reasons why a race does not show that puts are atomic.
enum Verdict {
    /// Two processes could sign for one log.
    Unsafe(Evidence),
    /// The race proves nothing: no put won, or a request failed.
    Open(Failure),
}

/// The evidence that conditional puts are not atomic.
#[derive(Debug, thiserror::Error)]
enum Evidence {
    #[error("a put object was not stored")]
    NotStored,
    #[error("the winner's object was not stored")]
    WinnerNotStored,
    #[error("{0} of {CONTESTANTS} concurrent puts won a race")]
    Winners(usize),
    #[error("the objects of the store have no e-tags")]
    NoTags,
    #[error("a put replaced {0} against its condition")]
    AgainstCondition(&'static str),
}

pub(super) async fn run(lock: &ObjectLock) -> Result<(), LockError> {
    let unusable = |reason: String| LockError::Unusable {
        location: lock.location.clone(),
        reason,
    };
    let end = Instant::now() + lock.limits.call * LIMIT;
    let (mut won, mut last) = (0, Failure::Silence);
    for _ in 0..ATTEMPTS {
        let key = lock.prefix.clone().join(format!("probe-{}", mark()));
        let verdict = race(lock, &key).await;
        clean(lock, &key).await;
        match verdict {
            Ok(()) => won += 1,
            Err(Verdict::Unsafe(seen)) => {
                return Err(unusable(format!(
                    "this store's conditional puts are not atomic: {seen}. Two processes could \
                     sign for one log, so this store cannot hold checkpoints; use an SQL database \
                     for `checkpoints`, or another store (docs/reference/storage.md lists some)"
                )));
            }
            Err(Verdict::Open(failure)) if failure.is_final() => {
                return Err(unusable(failure.message()));
            }
            Err(Verdict::Open(failure)) if failure.is_absence() => {
                return Err(LockError::Failed {
                    location: lock.location.clone(),
                    action: "open the lock",
                    reason: failure.message(),
                });
            }
            Err(Verdict::Open(failure)) => last = failure,
        }
        if won == RACES {
            return Ok(());
        }
        if Instant::now() > end {
            break;
        }
    }
    Err(unusable(format!(
        "cannot show that this store's conditional puts are atomic: {}",
        last.message()
    )))
}

/// Runs the creators and the updaters, with puts that come too early or too late.
async fn race(lock: &ObjectLock, key: &object_store::path::Path) -> Result<(), Verdict> {
    let bodies = |what: &str| -> Vec<_> {
        let body = |i| format!("{what} {i}").into_bytes();
        (0..CONTESTANTS).map(body).collect()
    };
    let absent = UpdateVersion {
        e_tag: Some("\"d41d8cd98f00b204e9800998ecf8427e\"".into()),
        version: Some("1".into()),
    };
    let too_early = Put::new(key.clone(), b"too early", lock.deadline());
    never(
        lock,
        &too_early,
        PutMode::Update(absent),
        "an absent object",
    )
    .await?;
    let created = one_wins(lock, key, &bodies("creator"), PutMode::Create).await?;
    let late = Put::new(key.clone(), b"late creator", lock.deadline());
    never(lock, &late, PutMode::Create, "an object that existed").await?;
    let update = || PutMode::Update(created.version.clone());
    one_wins(lock, key, &bodies("updater"), update()).await?;
    let late = Put::new(key.clone(), b"late updater", lock.deadline());
    never(lock, &late, update(), "an object that had changed").await
}

/// Starts all puts concurrently. Exactly one may succeed, and its object must be stored.
async fn one_wins(
    lock: &ObjectLock,
    key: &object_store::path::Path,
    bodies: &[Vec<u8>],
    mode: PutMode,
) -> Result<Stored, Verdict> {
    let puts: Vec<_> = bodies
        .iter()
        .map(|body| Put::new(key.clone(), body, lock.deadline()))
        .collect();
    let results = join_all(puts.iter().map(|put| lock.put(put, mode.clone()))).await;
    let is_whole = |stored: &Stored| {
        let is_put = |put: &Put<'_>| stored.is_by(put) && stored.body == put.body;
        puts.iter().any(is_put)
    };
    let read = || async { lock.read(key, lock.deadline()).await.map_err(Verdict::Open) };
    let mut stored = read().await?;
    // One corrupted response does not prove that the store is unsafe, so read again.
    if stored.as_ref().is_some_and(|stored| !is_whole(stored)) {
        stored = read().await?;
    }
    let Some(stored) = stored else {
        return Err(match results.into_iter().find_map(Result::err) {
            Some(failure) => Verdict::Open(failure),
            None => Verdict::Unsafe(Evidence::NotStored),
        });
    };
    if stored.has_md5() {
        lock.md5.store(true, Relaxed);
    }
    // The response of a successful put may have been lost: the mark identifies its object.
    let won = |(put, result): &(&Put<'_>, &Result<_, _>)| result.is_ok() || stored.is_by(put);
    let winners: Vec<_> = puts.iter().zip(&results).filter(won).collect();
    match &winners[..] {
        [] => {}
        [(winner, _)] if stored.is_by(winner) && stored.body == winner.body => {}
        [_] => return Err(Verdict::Unsafe(Evidence::WinnerNotStored)),
        winners => return Err(Verdict::Unsafe(Evidence::Winners(winners.len()))),
    }
    if stored.version.e_tag.is_none() && stored.version.version.is_none() {
        return Err(Verdict::Unsafe(Evidence::NoTags));
    }
    let nobody = winners.is_empty();
    let failed = |result| match result {
        Ok(_) | Err(Failure::Lost) => None,
        Err(failure) => Some(failure),
    };
    match results.into_iter().find_map(failed) {
        Some(failure) => Err(Verdict::Open(failure)),
        None if nobody => Err(Verdict::Open(Failure::Lost)),
        None => Ok(stored),
    }
}

/// Sends a put that must not succeed.
async fn never(
    lock: &ObjectLock,
    put: &Put<'_>,
    mode: PutMode,
    what: &'static str,
) -> Result<(), Verdict> {
    match lock.put(put, mode).await {
        Err(Failure::Lost) => Ok(()),
        Err(failure) => Err(Verdict::Open(failure)),
        Ok(_) => Err(Verdict::Unsafe(Evidence::AgainstCondition(what))),
    }
}

/// Deletes the test object. A failure is harmless.
async fn clean(lock: &ObjectLock, key: &object_store::path::Path) {
    let deleted = timeout(lock.limits.response, lock.store.delete(key)).await;
    if let Ok(Err(error)) = deleted
        && !matches!(error, object_store::Error::NotFound { .. })
    {
        let error = crate::object::failure::detail(&error);
        tracing::warn!(
            error,
            "{}: cannot delete the probe object of a race",
            lock.location
        );
    }
}

//! Objects that are written before a run, and removed after the run.

use std::error::Error;
use std::time::Duration;

use futures_util::future::join_all;
use lucarne_load::http::{Body, Client, Response};
use lucarne_load::{Failure, PrepareError};
use parking_lot::Mutex;
use rusty_s3::actions::ListObjectsV2;

use super::acknowledged::acknowledgement;
use super::content::{Content, Header};
use super::store::{S3Request, Store};
use crate::connection_options::wrong;
use crate::preparing::Retries;

/// Limit of concurrent requests.
const AT_ONCE: usize = 8;
/// Name of the check that a store accepts objects before the run.
pub(super) const READY: &str = "store is ready";
/// Number of retries for a store that is not ready, one per second.
const RETRIES: u32 = 30;

/// Checks that the bucket exists, or creates it if `create`. Returns whether the function created
/// the bucket.
pub(super) async fn require_bucket(store: &Store, create: bool) -> Result<bool, PrepareError> {
    let (bucket, name) = (store.bucket.name(), &store.name);
    let found = patiently(store, S3Request::HeadBucket).await?;
    match found.status {
        200 => return Ok(false),
        404 if create => {}
        404 => {
            return Err(wrong(format!(
                "there is no bucket `{bucket}` at {name}: create it, or use --create-bucket"
            )));
        }
        401 | 403 => {
            return Err(wrong(format!(
                "{name} refuses the key for the bucket `{bucket}` ({}): check key, secret and region",
                found.status
            )));
        }
        500.. => {
            let status = found.status;
            return Err(faulty(format!(
                "{name} responds with {status} to HEAD of the bucket `{bucket}`"
            )));
        }
        status => {
            return Err(wrong(format!(
                "{name} responds with {status} to HEAD of the bucket `{bucket}`: is it an S3 store?"
            )));
        }
    }
    let made = patiently(store, S3Request::CreateBucket).await?;
    match made.exchange.outcome {
        Ok(()) => Ok(true),
        Err(failure) if made.status >= 500 => Err(faulty(format!(
            "the bucket `{bucket}` cannot be created at {name}: {failure}"
        ))),
        Err(failure) => Err(wrong(format!(
            "the bucket `{bucket}` cannot be created at {name}: {failure}"
        ))),
    }
}

/// Returns the error of a store that is not ready for a run.
pub(super) fn faulty(detail: String) -> PrepareError {
    let check = READY;
    PrepareError::Faulty { check, detail }
}

/// Repeats the request until the store is ready.
async fn patiently(store: &Store, request: S3Request<'_>) -> Result<Response, PrepareError> {
    let mut client = client(store).map_err(|failure| wrong(failure.detail))?;
    let (mut tries, attempts) = (0, Retries::Brief.begin());
    // If a request to create the bucket was reset, the store may have created the bucket.
    let is_safe = matches!(request, S3Request::HeadBucket);
    loop {
        let response = store.send(&mut client, request, Body::Empty).await;
        match &response.exchange.outcome {
            Err(failure) if response.status == 0 => {
                if is_safe && attempts.again_after(failure).await {
                    continue;
                }
                return Err(PrepareError::of_request(&store.name, failure));
            }
            _ if response.status == 503 && tries < RETRIES => {
                tries += 1;
                // S3 documents for the error SlowDown: retry later.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            _ => return Ok(response),
        }
    }
}

/// Name of the check that a list has exactly the objects of the run.
pub(super) const LISTED: &str = "list is that of the run's objects";

/// The reasons why objects were not removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemoveError {
    #[error(transparent)]
    Request(#[from] Failure),
    #[error(transparent)]
    List(#[from] ListError),
}

/// The reasons why a list does not have exactly the objects of the run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error("the list of objects cannot be parsed: {0}")]
    Malformed(#[source] Box<dyn Error + Send + Sync>),
    #[error("{0} objects are listed although removed")]
    Removed(usize),
    /// The store ignores the prefix, and lists objects of other clients.
    #[error("expected objects under {prefix}, found {found}")]
    Foreign { prefix: String, found: String },
    #[error("expected at most {written} objects, found {found} or more")]
    TooMany { written: u64, found: u64 },
    #[error("expected at least {acknowledged} objects, found {found}")]
    TooFew { acknowledged: u64, found: u64 },
}

/// Removes every object whose name begins with `prefix`, and returns their number. Fails if the
/// store lists other objects, more objects than were written, or removed objects.
pub(super) async fn remove(store: &Store, prefix: &str) -> Result<u64, RemoveError> {
    let mut client = client(store)?;
    let mut removed = 0;
    let mut last = Vec::new();
    loop {
        // Each list starts from the beginning, because the listed objects are removed.
        let list = store
            .send(&mut client, S3Request::List(prefix), Body::Empty)
            .await;
        list.exchange.outcome.clone()?;
        let keys = keys(&list)?;
        if keys.is_empty() {
            return Ok(removed);
        }
        if keys == last {
            return Err(ListError::Removed(keys.len()).into());
        }
        if let Some(found) = keys.iter().find(|key| !key.starts_with(prefix)) {
            let (prefix, found) = (prefix.to_owned(), found.clone());
            return Err(ListError::Foreign { prefix, found }.into());
        }
        let (found, written) = (removed + keys.len() as u64, store.writes());
        if found > written {
            return Err(ListError::TooMany { written, found }.into());
        }
        all(store, keys.iter().map(|key| Job::Delete(key)).collect()).await?;
        removed += keys.len() as u64;
        last = keys;
    }
}

fn keys(list: &Response) -> Result<Vec<String>, ListError> {
    let text = String::from_utf8_lossy(&list.body);
    let parsed =
        ListObjectsV2::parse_response(&text).map_err(|error| ListError::Malformed(error.into()))?;
    Ok(parsed.contents.into_iter().map(|it| it.key).collect())
}

/// An operation on one object.
enum Job<'a> {
    Put(&'a str, [&'a [u8]; 2]),
    Delete(&'a str),
}

/// Writes objects of `size` bytes. Returns the names with their entity tags.
pub(super) async fn write(
    store: &Store,
    objects: &[(String, Header)],
    content: &Content,
    size: u64,
) -> Result<Vec<(String, String)>, Failure> {
    let jobs = objects
        .iter()
        .map(|(key, header)| Job::Put(key, content.parts(header, size)));
    all(store, jobs.collect()).await
}

/// Runs all jobs concurrently and stops at the first failure. Returns the entity tags of the
/// written objects.
async fn all(store: &Store, jobs: Vec<Job<'_>>) -> Result<Vec<(String, String)>, Failure> {
    let workers = AT_ONCE.min(jobs.len());
    let jobs = Mutex::new(jobs.into_iter());
    let workers = (0..workers).map(|_| work(store, &jobs));
    let each: Result<Vec<_>, _> = join_all(workers).await.into_iter().collect();
    Ok(each?.concat())
}

async fn work(
    store: &Store,
    jobs: &Mutex<std::vec::IntoIter<Job<'_>>>,
) -> Result<Vec<(String, String)>, Failure> {
    let mut client = client(store)?;
    let mut written = Vec::new();
    loop {
        let job = jobs.lock().next();
        match job {
            None => return Ok(written),
            Some(Job::Put(key, parts)) => {
                let body = Body::Parts(&parts);
                let response = store.send(&mut client, S3Request::Put(key), body).await;
                response.exchange.outcome.clone()?;
                let tag = acknowledgement(&response);
                let tag =
                    tag.map_err(|how| Failure::new("content", format!("PUT of {key}: {how}")))?;
                written.push((key.to_owned(), tag));
            }
            Some(Job::Delete(key)) => {
                let deleted = store.send(&mut client, S3Request::Delete(key), Body::Empty);
                deleted.await.exchange.outcome?;
            }
        }
    }
}

/// Removes the bucket.
pub(super) async fn remove_bucket(store: &Store) -> Result<(), Failure> {
    let mut client = client(store)?;
    let gone = store.send(&mut client, S3Request::DeleteBucket, Body::Empty);
    gone.await.exchange.outcome
}

fn client(store: &Store) -> Result<Client, Failure> {
    let why = "the store's address has not been resolved";
    store.client().ok_or_else(|| Failure::new("s3", why))
}

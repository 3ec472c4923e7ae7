//! The read endpoints of RFC 6962 (sections 4.3 to 4.6 and 4.8), for clients that do not support
//! tiles.
//!
//! A response that can never change has a cache lifetime of one year: a proof between two sizes, or
//! existing entries. Responses with entries count towards the budget of the client until the client
//! has received them.

use std::sync::Arc;

use base64_simd::STANDARD;
use http::{HeaderValue, StatusCode};
use lucarne_log::{Log, LogEntry, ReadError, Rfc6962Error, Rfc6962Reads};
use lucarne_tlog::Hash;
use tokio::task::spawn_blocking;

use self::parameters::Parameters;
use crate::budget::{Client, Looking, MAX_LOOKING_EACH, Reservation};
use crate::error_response::ErrorResponse;
use crate::monitoring::say_state;
use crate::reply::{Response, plain, value};

mod endpoint;
mod parameters;

pub(crate) use endpoint::Rfc6962Read;

/// Responds to a GET or HEAD.
pub(crate) async fn respond(
    log: &Log,
    read: Rfc6962Read,
    query: Option<&str>,
    client: &Arc<Client>,
) -> Response {
    let parameters = Parameters::of(query);
    let response = match log.rfc6962() {
        None => Err(off(log)),
        Some(reads) => match read {
            Rfc6962Read::Sth => sth(log, &reads).await,
            Rfc6962Read::SthConsistency => consistency(log, &reads, &parameters).await,
            Rfc6962Read::ProofByHash => proof_by_hash(log, &reads, &parameters, client).await,
            Rfc6962Read::Entries => entries(log, &reads, &parameters, client).await,
            Rfc6962Read::EntryAndProof => entry_and_proof(log, &reads, &parameters, client).await,
        },
    };
    response.unwrap_or_else(ErrorResponse::into_response)
}

/// Creates the refusal of a log that only serves tiles.
fn off(log: &Log) -> ErrorResponse {
    let detail = format!(
        "this log serves reads by the static CT API (https://c2sp.org/static-ct-api) below {}; \
         its operator has not enabled the reads of RFC 6962",
        log.config().monitoring_prefix
    );
    ErrorResponse::read(StatusCode::NOT_FOUND, "rfc6962_off", detail)
}

/// `get-sth`, section 4.3.
async fn sth(log: &Log, reads: &Rfc6962Reads<'_>) -> Result<Response, ErrorResponse> {
    log.newest_published().await;
    let mut response = json(reads.tree_head()?.to_json(), &value::MOMENT);
    say_state(log, &mut response);
    Ok(response)
}

/// `get-sth-consistency`, section 4.4.
async fn consistency(
    log: &Log,
    reads: &Rfc6962Reads<'_>,
    parameters: &Parameters<'_>,
) -> Result<Response, ErrorResponse> {
    let (first, second) = (parameters.number("first")?, parameters.number("second")?);
    log.reach(second).await.map_err(Rfc6962Error::from)?;
    let proof = reads.consistency(first, second).await?;
    let mut body = b"{\"consistency\":".to_vec();
    push_hashes(&proof, &mut body);
    body.push(b'}');
    Ok(json(body, &value::FOREVER_PRIVATE))
}

/// `get-proof-by-hash`, section 4.5.
async fn proof_by_hash(
    log: &Log,
    reads: &Rfc6962Reads<'_>,
    parameters: &Parameters<'_>,
    client: &Arc<Client>,
) -> Result<Response, ErrorResponse> {
    let (hash, tree_size) = (parameters.hash("hash")?, parameters.number("tree_size")?);
    let _looking = looking(client)?;
    log.reach(tree_size).await.map_err(Rfc6962Error::from)?;
    let (index, path) = reads.proof_by_hash(&hash, tree_size).await?;
    let mut body = format!("{{\"leaf_index\":{index},\"audit_path\":").into_bytes();
    push_hashes(&path, &mut body);
    body.push(b'}');
    Ok(json(body, &value::FOREVER_PRIVATE))
}

/// `get-entries`, section 4.6.
async fn entries(
    log: &Log,
    reads: &Rfc6962Reads<'_>,
    parameters: &Parameters<'_>,
    client: &Arc<Client>,
) -> Result<Response, ErrorResponse> {
    let (start, end) = (parameters.number("start")?, parameters.number("end")?);
    let _looking = looking(client)?;
    let needed = start.saturating_add(1);
    log.reach(needed).await.map_err(Rfc6962Error::from)?;
    let found = reads.entries(start, end).await?;
    let cache = if found.is_final {
        &value::FOREVER_PRIVATE
    } else {
        &value::MOMENT_PRIVATE
    };
    made_for(client, cache, move || {
        let mut body = b"{\"entries\":[".to_vec();
        for (place, entry) in found.entries.iter().enumerate() {
            body.extend_from_slice(if place == 0 { b"{" } else { b",{" });
            push_entry(entry, &mut body);
            body.push(b'}');
        }
        body.extend_from_slice(b"]}");
        body
    })
    .await
}

/// `get-entry-and-proof`, section 4.8.
async fn entry_and_proof(
    log: &Log,
    reads: &Rfc6962Reads<'_>,
    parameters: &Parameters<'_>,
    client: &Arc<Client>,
) -> Result<Response, ErrorResponse> {
    let leaf_index = parameters.number("leaf_index")?;
    let tree_size = parameters.number("tree_size")?;
    let _looking = looking(client)?;
    log.reach(tree_size).await.map_err(Rfc6962Error::from)?;
    let (entry, path) = reads.entry_and_proof(leaf_index, tree_size).await?;
    made_for(client, &value::FOREVER_PRIVATE, move || {
        let mut body = b"{".to_vec();
        push_entry(&entry, &mut body);
        body.extend_from_slice(b",\"audit_path\":");
        push_hashes(&path, &mut body);
        body.push(b'}');
        body
    })
    .await
}

/// Counts a request that costs the log more than a tile.
fn looking(client: &Arc<Client>) -> Result<Looking, ErrorResponse> {
    Looking::enter(client).ok_or_else(|| {
        let detail = format!(
            "this client has {MAX_LOOKING_EACH} requests for entries or proofs in flight, the \
             maximum for one client: wait for their responses first"
        );
        let status = StatusCode::TOO_MANY_REQUESTS;
        ErrorResponse::read(status, "too_many_requests", detail).and_retry(1)
    })
}

/// Creates a large response, and encodes it on a thread that may block.
async fn made_for(
    client: &Arc<Client>,
    cache: &HeaderValue,
    encode: impl FnOnce() -> Vec<u8> + Send + 'static,
) -> Result<Response, ErrorResponse> {
    let body = spawn_blocking(encode).await.map_err(ReadError::from);
    let body = body.map_err(Rfc6962Error::Read)?;
    Ok(json(Reservation::of_response(client, body.into())?, cache))
}

fn json(body: impl Into<bytes::Bytes>, cache: &HeaderValue) -> Response {
    plain(StatusCode::OK, &value::JSON, cache, body)
}

/// Appends `leaf_input` and `extra_data`, without braces.
fn push_entry(entry: &LogEntry, body: &mut Vec<u8>) {
    body.extend_from_slice(b"\"leaf_input\":\"");
    STANDARD.encode_append(&entry.leaf_input, body);
    body.extend_from_slice(b"\",\"extra_data\":\"");
    STANDARD.encode_append(&entry.extra_data, body);
    body.push(b'"');
}

fn push_hashes(hashes: &[Hash], body: &mut Vec<u8>) {
    body.push(b'[');
    for (place, hash) in hashes.iter().enumerate() {
        body.extend_from_slice(if place == 0 { b"\"" } else { b",\"" });
        STANDARD.encode_append(hash.0, body);
        body.push(b'"');
    }
    body.push(b']');
}

impl From<Rfc6962Error> for ErrorResponse {
    fn from(error: Rfc6962Error) -> Self {
        let words = error.to_string();
        let refused = |code| ErrorResponse::read(StatusCode::BAD_REQUEST, code, words.clone());
        let later = |code, words: &str, seconds| {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            ErrorResponse::read(status, code, words).and_retry(seconds)
        };
        match error {
            Rfc6962Error::BeyondTree { .. } => refused("beyond_tree"),
            Rfc6962Error::Order { .. } => refused("bad_range"),
            Rfc6962Error::UnknownLeaf { .. } => {
                ErrorResponse::read(StatusCode::NOT_FOUND, "unknown_leaf", words)
            }
            Rfc6962Error::NoTree => later("unavailable", &words, 1),
            Rfc6962Error::NotIndexed { .. } => later("not_indexed", &words, 5),
            Rfc6962Error::Busy => later("busy", &words, 1),
            Rfc6962Error::Read(ReadError::Unavailable(reason)) => {
                tracing::warn!("a read failed: {reason}");
                let words = "the log's storage does not respond; retry in a moment";
                later("unavailable", words, 1)
            }
            Rfc6962Error::Read(ReadError::Damaged { .. }) => {
                tracing::error!("a read failed: {words}");
                let words = "the stored file is damaged; the operator has been informed";
                later("damaged", words, 1)
            }
            Rfc6962Error::Read(ReadError::Storage(_)) => {
                tracing::error!("a read failed: {words}");
                let words = "the log cannot read its storage; the operator has been informed";
                ErrorResponse::read(StatusCode::INTERNAL_SERVER_ERROR, "failed", words)
            }
        }
    }
}

//! Access to the published files of a log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lucarne_ctread::{Problem, ReadError, Source, SourceError, cut, file, stored};
use lucarne_load::Failure;
use lucarne_load::http::{Request, Response};
use lucarne_tlog::Tile;

use super::checks::{self, Finding};
use crate::content_coding::{at_most, decode, problem};
use crate::retry_after::retry_after;

/// Errors of reading a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The log or the network is unavailable, so there is no result about the file.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// The response is wrong.
    #[error("{}", .0.detail)]
    Faulty(Finding),
}

/// The reasons why there is no response with the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreachable {
    /// The request failed.
    #[error("cannot fetch {path}: {}", source.detail)]
    NoResponse {
        /// Path of the file.
        path: String,
        /// Failure of the request.
        source: Failure,
    },
    /// The log throttles requests, or is being restarted.
    #[error("cannot fetch {path}: status {status}")]
    Status {
        /// Path of the file.
        path: String,
        /// Status of the response.
        status: u16,
        /// Wait in Retry-After, if the response has a valid one.
        retry_after: Option<Duration>,
    },
    /// The log responded with 304 to an unconditional request for this path.
    #[error(
        "cannot fetch {0}: expected status 200, found 304 although the request has no condition"
    )]
    NotModified(String),
    /// Another source of files failed.
    #[error("{0}")]
    Other(String),
}

impl Unreachable {
    /// Returns the reason for a response whose status postpones the request for `path`.
    pub(crate) fn of_status(path: &str, response: &Response) -> Self {
        let retry_after = retry_after(response).ok();
        Unreachable::Status {
            path: path.to_owned(),
            status: response.status,
            retry_after,
        }
    }
}

impl From<Finding> for FetchError {
    fn from(finding: Finding) -> Self {
        Self::Faulty(finding)
    }
}

impl From<FetchError> for SourceError {
    fn from(error: FetchError) -> Self {
        match &error {
            FetchError::Faulty(finding) if finding.check == checks::TILE_SERVED => {
                SourceError::Refused(Arc::new(error))
            }
            _ => SourceError::unavailable(error),
        }
    }
}

impl From<ReadError> for FetchError {
    fn from(error: ReadError) -> Self {
        match &error.problem {
            Problem::Source(source) => match source.reason::<FetchError>() {
                Some(reason) => reason.clone(),
                None => Unreachable::Other(error.to_string()).into(),
            },
            _ => FetchError::Faulty(error.into()),
        }
    }
}

impl From<ReadError> for Finding {
    fn from(error: ReadError) -> Self {
        let check = match &error.problem {
            Problem::Missing | Problem::Source(_) => served(&error.path),
            Problem::Checkpoint(_) => checks::CHECKPOINT_WELLFORMED,
            Problem::Smaller { .. } => checks::CHECKPOINT_GROWTH,
            Problem::Size(_) | Problem::Length { .. } => checks::TILE_WELLFORMED,
            Problem::Root { .. } | Problem::Hashes | Problem::Beyond => checks::TILE_CONSISTENT,
            Problem::Gzip(_) => checks::ENCODING,
            Problem::Entry { .. } | Problem::Rest(_) => checks::ENTRY_WELLFORMED,
            Problem::Index { .. } => checks::ENTRY_INDEX,
            Problem::Leaf(_) => checks::ENTRY_HASH,
            Problem::Issuer(_) => checks::ISSUER_HASH,
        };
        Finding::new(check, error)
    }
}

/// Reads a file.
///
/// # Errors
/// If the log is unavailable, or does not serve the file.
pub async fn get(source: &dyn Source, path: &str) -> Result<Bytes, FetchError> {
    Ok(file(source, path).await?)
}

/// Reads a tile of the given width. The source has decoded the content coding, and a data tile that
/// is still compressed is wrong.
pub(crate) async fn tile(source: &dyn Source, tile: Tile) -> Result<Bytes, FetchError> {
    let (stored, bytes) = stored(source, tile).await?;
    let bytes = cut(tile, stored, bytes);
    Ok(bytes.map_err(|problem| ReadError::new(tile.path(), problem))?)
}

/// Returns the check that fails if the path is not served.
pub(crate) fn served(path: &str) -> &'static str {
    match path {
        "checkpoint" => checks::CHECKPOINT_SERVED,
        path if path.starts_with("issuer/") => checks::ISSUER_SERVED,
        _ => checks::TILE_SERVED,
    }
}

/// Returns the finding for a response that is not the file.
pub(crate) fn not_served(path: &str, status: u16, body: &[u8]) -> Finding {
    let detail = format!("{path}: status {status}: {}", super::sct::excerpt(body));
    Finding::new(served(path), detail)
}

/// Returns the finding for a body that exceeds the limit of [`limited`]. `detail` has the limit.
pub(crate) fn too_long(path: &str, detail: &str) -> Finding {
    let check = match path {
        "checkpoint" => checks::CHECKPOINT_WELLFORMED,
        path if path.starts_with("issuer/") => checks::ISSUER_HASH,
        path if path.starts_with("tile/data/") => checks::ENTRY_WELLFORMED,
        _ => checks::TILE_WELLFORMED,
    };
    Finding::new(check, format!("{path}: {detail}"))
}

/// Limits the body of the response with the file at `path`. Only data tiles have the limit of the
/// client.
pub(crate) fn limited<'a>(request: Request<'a>, path: &str) -> Request<'a> {
    match path {
        "checkpoint" | "log.v3.json" => request.max_body(LARGEST_NOTE),
        path if path.starts_with("issuer/") => request.max_body(LARGEST_OTHER as usize),
        path if path.starts_with("tile/data/") => request,
        _ => request.max_body(LARGEST_HASH_TILE),
    }
}

/// Size limit of a checkpoint and of `log.v3.json`.
const LARGEST_NOTE: usize = 1 << 20;
/// Size limit of a hash tile, which has at most 8 KiB without a content coding.
const LARGEST_HASH_TILE: usize = 64 << 10;
/// Size limit of a data tile. 256 entries of 2^24 bytes would be larger, but no log accepts entries
/// of this size.
const LARGEST: u64 = 256 << 20;
/// Size limit of all other files: the largest certificate in a log has 2^24 bytes (RFC 6962,
/// section 3.1).
const LARGEST_OTHER: u64 = 16 << 20;

/// Decodes the content coding of a body. A log may send gzip unrequested (static-ct-api, "Log
/// Entries"), but zstd only if it is in `accept`.
pub(crate) fn decoded(
    path: &str,
    coding: Option<&str>,
    accept: &str,
    body: Bytes,
) -> Result<Bytes, Finding> {
    let coding = coding.unwrap_or("identity").trim();
    let found = |detail: String| Finding::new(checks::ENCODING, format!("{path}: {detail}"));
    let most = if path.starts_with("tile/data/") {
        LARGEST
    } else {
        LARGEST_OTHER
    };
    let allowed = match coding {
        "" | "identity" => return Ok(body),
        "gzip" | "x-gzip" => true,
        other => accept.contains(other),
    };
    match decode(coding, &body, &mut at_most(most)).filter(|_| allowed) {
        Some(Ok(plain)) => Ok(plain.into()),
        Some(Err(error)) => Err(found(problem(coding, &error, most))),
        None => Err(found(format!(
            "the response has the content coding {coding}, expected {accept}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn codings_are_taken_off_and_judged() {
        let plain = b"entries ".repeat(100);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = zstd::encode_all(&plain[..], 1).unwrap();
        let take = |coding, accept, body: &[u8]| {
            decoded(
                "tile/data/000",
                coding,
                accept,
                Bytes::copy_from_slice(body),
            )
        };
        assert_eq!(take(None, "gzip", &plain).unwrap(), plain);
        assert_eq!(take(Some("gzip"), "identity", &gzip).unwrap(), plain);
        assert_eq!(take(Some("zstd"), "gzip, zstd", &zstd).unwrap(), plain);
        for (coding, accept, body) in [
            ("zstd", "gzip", &zstd[..]),
            ("gzip", "gzip", &zstd[..]),
            ("gzip", "gzip", &gzip[..gzip.len() - 9]),
            ("br", "gzip", &plain[..]),
        ] {
            let finding = take(Some(coding), accept, body).unwrap_err();
            assert_eq!(finding.check, checks::ENCODING);
        }
    }

    #[test]
    fn a_small_file_that_decodes_to_much_is_refused() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&vec![0; (LARGEST_OTHER + 1) as usize])
            .unwrap();
        let gzip = Bytes::from(gzip.finish().unwrap());
        for path in ["checkpoint", "tile/0/000"] {
            let finding = decoded(path, Some("gzip"), "gzip", gzip.clone()).unwrap_err();
            let detail =
                format!("{path}: the body is larger than 16 MiB when it is decoded (gzip)");
            assert_eq!(finding, Finding::new(checks::ENCODING, detail));
        }
        assert!(decoded("tile/data/000", Some("gzip"), "gzip", gzip).is_ok());
    }
}

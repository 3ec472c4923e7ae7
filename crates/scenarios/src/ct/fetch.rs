//! Reading what a log publishes.

use std::future::Future;

use bytes::Bytes;
use lucarne_ct::TileLeafRef;
use lucarne_tlog::{Hash, Level, Tile};

use super::checks::{self, Finding};
use crate::content_coding::{decode, problem};

/// The error of something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// No answer: the log is away, or the network. That is not the log's word.
    Unreachable(String),
    /// The answer is wrong.
    Faulty(Finding),
}

impl From<Finding> for FetchError {
    fn from(finding: Finding) -> Self {
        Self::Faulty(finding)
    }
}

impl std::fmt::Display for FetchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FetchError::Unreachable(reason) => f.write_str(reason),
            FetchError::Faulty(finding) => f.write_str(&finding.detail),
        }
    }
}

/// The files below a log's monitoring prefix.
pub trait Fetch: Send {
    /// One file, its content coding taken off.
    fn get(&mut self, path: &str) -> impl Future<Output = Result<Bytes, FetchError>> + Send;

    /// Several, in the order of `paths`; side by side where that is possible.
    fn get_all(
        &mut self,
        paths: &[String],
    ) -> impl Future<Output = Vec<Result<Bytes, FetchError>>> + Send {
        async move {
            let mut all = Vec::with_capacity(paths.len());
            for path in paths {
                all.push(self.get(path).await);
            }
            all
        }
    }
}

/// The bytes of a tile at its width. Once its full tile is there, a partial one
/// need not be served any more (static-ct-api, "Merkle Tree"): then it is cut
/// from the full one.
pub(crate) async fn tile<F: Fetch>(fetch: &mut F, tile: &Tile) -> Result<Bytes, FetchError> {
    resolve(fetch, tile, None).await
}

/// [`tile`], with the answer to its path at hand.
pub(crate) async fn resolve<F: Fetch>(
    fetch: &mut F,
    tile: &Tile,
    answer: Option<Result<Bytes, FetchError>>,
) -> Result<Bytes, FetchError> {
    let answer = match answer {
        Some(answer) => answer,
        None => fetch.get(&tile.path()).await,
    };
    let missing = |error: &FetchError| matches!(error, FetchError::Faulty(finding) if finding.check == checks::TILE_SERVED);
    match answer {
        Err(error) if missing(&error) && !tile.is_full() => {
            match fetch.get(&tile.full().path()).await {
                Ok(full) => Ok(cut(tile, full)),
                Err(_) => Err(error),
            }
        }
        answer => answer,
    }
}

/// The beginning of a full tile, as wide as `tile`.
fn cut(tile: &Tile, full: Bytes) -> Bytes {
    let end = match tile.level() {
        Level::Hashes(_) => usize::from(tile.width()) * Hash::LENGTH,
        Level::Data => {
            let mut rest = &full[..];
            let read = (0..tile.width()).try_for_each(|_| TileLeafRef::read(&mut rest).map(drop));
            match read {
                Ok(()) => full.len() - rest.len(),
                Err(_) => full.len(),
            }
        }
    };
    full.slice(..end.min(full.len()))
}

/// The check that a path's absence fails.
pub(crate) fn served(path: &str) -> &'static str {
    match path {
        "checkpoint" => checks::CHECKPOINT_SERVED,
        path if path.starts_with("issuer/") => checks::ISSUER_SERVED,
        _ => checks::TILE_SERVED,
    }
}

/// The finding of an answer instead of the file.
pub(crate) fn not_served(path: &str, status: u16, body: &[u8]) -> Finding {
    let detail = format!("{path}: status {status}: {}", super::sct::excerpt(body));
    Finding::new(served(path), detail)
}

/// No tile is larger: 256 entries of 2^24 bytes would be, but no log takes them.
const LARGEST: u64 = 256 << 20;

/// Takes the content coding off a body. gzip needs no asking for
/// (static-ct-api, "Log Entries"), zstd must be in `accept`.
pub(crate) fn decoded(
    path: &str,
    coding: Option<&str>,
    accept: &str,
    body: Bytes,
) -> Result<Bytes, Finding> {
    let coding = coding.unwrap_or("identity").trim();
    let found = |detail: String| Finding::new(checks::ENCODING, format!("{path}: {detail}"));
    let allowed = match coding {
        "" | "identity" => return Ok(body),
        "gzip" | "x-gzip" => true,
        other => accept.contains(other),
    };
    match decode(coding, &body, LARGEST).filter(|_| allowed) {
        Some(Ok(plain)) => Ok(plain.into()),
        Some(Err(error)) => Err(found(problem(coding, &error, LARGEST))),
        None => Err(found(format!(
            "the answer is in {coding}, asked for was {accept}"
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
}

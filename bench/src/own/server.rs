//! The cheapest log that a load test accepts: it signs every submission, and stores nothing.

use std::{
    convert::Infallible,
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use base64_simd::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming};
use lucarne_ct::{LogKey, SignedEntry};
use lucarne_tlog::EMPTY_ROOT;

use crate::answering;

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Address to listen on
    #[arg(long)]
    listen: SocketAddr,
    /// Seed of the log's key
    #[arg(long)]
    seed: PathBuf,
    /// Delay of each response in milliseconds
    #[arg(long, default_value_t = 0)]
    delay: u64,
}

/// Serves until the process is killed.
pub(crate) fn serve(options: &Options) -> Result<()> {
    let file = options.seed.display();
    let seed = fs::read(&options.seed).with_context(|| format!("cannot read the seed {file}"))?;
    let log = Arc::new(Signer {
        key: LogKey::from_seed(&seed).with_context(|| format!("the seed {file} is invalid"))?,
        origin: options.listen.to_string(),
        delay: Duration::from_millis(options.delay),
        next: AtomicU64::new(0),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(answering::forever(options.listen, move |request| {
        answer(log.clone(), request)
    }))
}

struct Signer {
    key: LogKey,
    origin: String,
    delay: Duration,
    next: AtomicU64,
}

#[derive(serde::Deserialize)]
struct Submission<'a> {
    #[serde(borrow)]
    chain: Vec<&'a str>,
}

async fn answer(
    log: Arc<Signer>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/checkpoint" {
        let text = log.checkpoint().unwrap_or_default();
        return Ok(Response::new(Full::new(Bytes::from(text))));
    }
    let body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let (status, text) = match log.promise(&body) {
        Ok(json) => (200, json),
        Err(error) => (400, error.to_string().into_bytes()),
    };
    // The delay of a log's rounds, so that many submissions are in flight.
    if !log.delay.is_zero() {
        tokio::time::sleep(log.delay).await;
    }
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    Ok(response)
}

impl Signer {
    fn promise(&self, body: &[u8]) -> Result<Vec<u8>> {
        let submission: Submission<'_> = serde_json::from_slice(body)?;
        let leaf = submission
            .chain
            .first()
            .context("expected a chain with a leaf, found an empty chain")?;
        let entry = SignedEntry::X509 {
            certificate: STANDARD.decode_to_vec(leaf)?.into(),
        };
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(self.key.sign_sct(now()?, &entry, index)?.to_json())
    }

    /// Returns the checkpoint of an empty tree, which clients use to identify the log.
    fn checkpoint(&self) -> Result<String> {
        let signed = self
            .key
            .sign_checkpoint(&self.origin, 0, &EMPTY_ROOT, now()?);
        Ok(signed?)
    }
}

/// Returns the time in milliseconds since 1970.
fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64)
}

//! The cheapest log that a load test cannot tell from one: it signs whatever
//! it is sent, and keeps nothing.

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
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use lucarne_ct::{LogKey, SignedEntry};
use tokio::net::TcpListener;

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Where to listen
    #[arg(long)]
    listen: SocketAddr,
    /// The seed of the log's key
    #[arg(long)]
    seed: PathBuf,
    /// Milliseconds before each answer
    #[arg(long, default_value_t = 0)]
    delay: u64,
}

/// Serves until killed.
pub(crate) fn serve(options: &Options) -> Result<()> {
    let seed = fs::read(&options.seed).context("the seed")?;
    let log = Arc::new(Signer {
        key: LogKey::from_seed(&seed).context("the seed")?,
        delay: Duration::from_millis(options.delay),
        next: AtomicU64::new(0),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(options.listen).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let log = log.clone();
            let service = service_fn(move |request| answer(log.clone(), request));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    })
}

struct Signer {
    key: LogKey,
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
    let body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let (status, text) = match log.promise(&body) {
        Ok(json) => (200, json),
        Err(error) => (400, error.to_string().into_bytes()),
    };
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
        let leaf = submission.chain.first().context("an empty chain")?;
        let entry = SignedEntry::X509 {
            certificate: STANDARD.decode_to_vec(leaf)?.into(),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(self.key.sign_sct(now, &entry, index)?.to_json())
    }
}

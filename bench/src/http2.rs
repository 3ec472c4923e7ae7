//! GETs over HTTP/2 in a closed loop: one request at a time on each connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use lucarne_load::http::{Client, ClientOptions, Endpoint, Request, Version};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::{add_chain::wait, load::Plan};

/// Fetches `path` from the server at `url`, and returns the number of responses in the measured
/// time. `mark` is called when this time begins and ends.
pub(crate) fn run(
    url: &str,
    path: &str,
    plan: &Plan,
    mark: &mut dyn FnMut() -> Result<()>,
) -> Result<u64> {
    wait(fetch(url, path.into(), plan, mark))?
}

async fn fetch(
    url: &str,
    path: Arc<str>,
    plan: &Plan,
    mark: &mut dyn FnMut() -> Result<()>,
) -> Result<u64> {
    let options = Arc::new(ClientOptions {
        version: Version::Http2,
        insecure: true,
        ..ClientOptions::default()
    });
    let endpoint = Endpoint::resolve(url, &options).await?;
    let answered = Arc::new(AtomicU64::new(0));
    let mut loops = JoinSet::new();
    for _ in 0..plan.connections {
        let client = Client::new(endpoint.clone(), options.clone());
        loops.spawn(repeat(client, path.clone(), answered.clone()));
    }
    // The loops run in their tasks during the warm-up.
    sleep(plan.warm_up).await;
    mark()?;
    let before = answered.load(Ordering::Relaxed);
    // The measured time.
    sleep(plan.duration).await;
    let count = answered.load(Ordering::Relaxed) - before;
    mark()?;
    match loops.try_join_next() {
        // A loop ends only with an error.
        Some(ended) => ended?.with_context(|| format!("a GET of {url}{path} failed"))?,
        None if count == 0 => bail!("{url}{path}: no response in the measured time"),
        None => {}
    }
    Ok(count)
}

/// Repeats the same GET until it fails.
async fn repeat(mut client: Client, path: Arc<str>, answered: Arc<AtomicU64>) -> Result<()> {
    let request = Request::get(&path).headers(&[("accept-encoding", "gzip")]);
    loop {
        let response = client.send(&request).await;
        let outcome = &response.exchange.outcome;
        ensure!(
            response.is(&[200]),
            "status {}, {outcome:?}",
            response.status
        );
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

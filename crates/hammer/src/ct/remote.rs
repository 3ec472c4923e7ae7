//! Reading a log over HTTP.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use lucarne_load::http::{Client, ClientOptions, Endpoint, Request, Response};

use super::fetch::{self, Fetch, Trouble};
use super::outage::Outage;

/// Connections that tiles are read over side by side.
const CONNECTIONS: usize = 4;

/// A log's monitoring prefix, read beside the load: what it sends is not
/// counted as load.
pub struct Remote {
    clients: Vec<Client>,
    prefix: Arc<str>,
    outage: Arc<Outage>,
}

/// What the follower accepts: full data tiles are kept in gzip by every log.
const ACCEPT: &str = "gzip";

impl Remote {
    /// Of `endpoint`, whose path is the log's monitoring prefix. What happens to
    /// requests is told to `outage`.
    pub fn new(
        endpoint: &Arc<Endpoint>,
        options: &Arc<ClientOptions>,
        outage: Arc<Outage>,
    ) -> Self {
        let client = || Client::new(Arc::clone(endpoint), Arc::clone(options));
        Self {
            clients: (0..CONNECTIONS).map(|_| client()).collect(),
            prefix: endpoint.prefix.as_str().into(),
            outage,
        }
    }
}

async fn get(
    client: &mut Client,
    prefix: &str,
    outage: &Outage,
    path: &str,
) -> Result<Bytes, Trouble> {
    let target = format!("{prefix}/{path}");
    let headers = [("accept-encoding", ACCEPT)];
    let response = client.send(&Request::get(&target).headers(&headers)).await;
    judge(path, ACCEPT, outage, response)
}

/// The file in an answer.
pub(crate) fn judge(
    path: &str,
    accept: &str,
    outage: &Outage,
    response: Response,
) -> Result<Bytes, Trouble> {
    if let Err(failure) = &response.exchange.outcome {
        outage.bad(response.exchange.started);
        return Err(Trouble::Unreachable(format!("{path}: {failure}")));
    }
    if outage.expected() && matches!(response.status, 502..=504) {
        outage.bad(response.exchange.started);
        let reason = format!("{path}: status {}", response.status);
        return Err(Trouble::Unreachable(reason));
    }
    outage.good();
    if response.status != 200 {
        return Err(fetch::not_served(path, response.status, &response.body).into());
    }
    let coding = response.headers.get("content-encoding");
    Ok(fetch::decoded(path, coding, accept, response.body.clone())?)
}

impl Fetch for Remote {
    async fn get(&mut self, path: &str) -> Result<Bytes, Trouble> {
        match self.clients.first_mut() {
            Some(client) => get(client, &self.prefix, &self.outage, path).await,
            None => Err(Trouble::Unreachable("no connection".to_owned())),
        }
    }

    async fn get_all(&mut self, paths: &[String]) -> Vec<Result<Bytes, Trouble>> {
        let (prefix, outage) = (&self.prefix, &self.outage);
        let step = self.clients.len().max(1);
        let columns = self
            .clients
            .iter_mut()
            .enumerate()
            .map(|(first, client)| async move {
                let mut column = Vec::new();
                for path in paths.iter().skip(first).step_by(step) {
                    column.push(get(client, prefix, outage, path).await);
                }
                column.into_iter()
            });
        let mut columns = join_all(columns).await;
        (0..paths.len())
            .filter_map(|number| columns[number % step].next())
            .collect()
    }
}

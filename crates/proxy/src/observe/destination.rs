//! Destination logs of chains, and the choice among them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::{Certificate, DerError, ListedLog, LogList, LogStatus, PublicKey};
use lucarne_net::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use url::Url;

use super::submitter::PendingSubmission;
use crate::time::day;

/// Size limit of `log.v3.json` in bytes; published files have one or two kB.
const MAX_BYTES: usize = 64 << 10;
/// Time that a log may take to send `log.v3.json` while the proxy starts.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// A log that receives chains.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) log: Url,
    pub(crate) key: Option<Arc<PublicKey>>,
    /// Range of notAfter from the log's own `log.v3.json`, in Unix milliseconds.
    pub(crate) window: Option<Range<u64>>,
    pub(crate) send: mpsc::Sender<PendingSubmission>,
}

/// How well a certificate fits a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    No,
    /// The log has no known range of notAfter.
    Any,
    /// The certificate is within the range of the log.
    Within,
}

impl Destination {
    fn fit(&self, list: Option<&LogList>, not_after_ms: u64) -> Fit {
        use LogStatus::{ReadOnly, Rejected, Retired};
        let listed = list.and_then(|list| listed(list, &self.log, self.key.as_deref()));
        let state = listed.and_then(|log| log.state);
        if state.is_some_and(|state| matches!(state.status, ReadOnly | Retired | Rejected)) {
            return Fit::No;
        }
        let window = match listed {
            Some(log) => log.temporal_interval.as_ref(),
            None => self.window.as_ref(),
        };
        match window {
            None => Fit::Any,
            Some(window) if window.contains(&not_after_ms) => Fit::Within,
            Some(_) => Fit::No,
        }
    }
}

/// Chooses the log for a certificate: the first log whose range contains the notAfter, otherwise
/// the first log without a range.
///
/// # Errors
/// If no log accepts the certificate.
pub(crate) fn choose<'d>(
    destinations: &'d [Destination],
    list: Option<&LogList>,
    leaf: &[u8],
) -> Result<&'d Destination, NoDestination> {
    let leaf = Certificate::parse(leaf)?;
    let not_after = leaf.not_after().and_then(|time| u64::try_from(time).ok());
    let not_after = not_after.ok_or(NoDestination::NotAfter)?;
    let mut best: Option<(Fit, &Destination)> = None;
    for destination in destinations {
        let fit = destination.fit(list, not_after);
        if fit > best.map_or(Fit::No, |(fit, _)| fit) {
            best = Some((fit, destination));
        }
    }
    let best = best.map(|(_, destination)| destination);
    best.ok_or_else(|| NoDestination::Window(day(not_after)))
}

/// Reasons why a certificate is sent to no log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDestination {
    #[error("the certificate cannot be parsed: {0}")]
    Certificate(#[from] DerError),
    #[error("the notAfter of the certificate cannot be read")]
    NotAfter,
    #[error("none of the configured logs accepts certificates that expire on {0}")]
    Window(String),
}

/// Returns the log from the list, by its key if known, otherwise by its URL.
pub(crate) fn listed<'l>(
    list: &'l LogList,
    log: &Url,
    key: Option<&PublicKey>,
) -> Option<&'l Arc<ListedLog>> {
    match key {
        Some(key) => list.get(&key.log_id()),
        None => list.iter().find(|listed| {
            let url = listed.submission_url();
            url.trim_end_matches('/') == log.as_str().trim_end_matches('/')
        }),
    }
}

/// Returns the range of notAfter from `log.v3.json`, which operators of static CT logs publish next
/// to the submission prefix. The file is not signed. It is sufficient to choose a log for a
/// submission, but not to trust the log's key.
pub(crate) async fn window(client: &Client, log: &Url) -> Option<Range<u64>> {
    let url = format!("{}/log.v3.json", log.as_str().trim_end_matches('/'));
    let body = timeout(FETCH_TIMEOUT, client.get(&url, MAX_BYTES)).await;
    let log: Value = serde_json::from_slice(&body.ok()?.ok()?).ok()?;
    // The fields are the same as in a log list.
    let list = json!({"operators": [{"name": "", "tiled_logs": [log]}]});
    let list = LogList::parse(list.to_string().as_bytes()).ok()?;
    list.iter().next()?.temporal_interval.clone()
}

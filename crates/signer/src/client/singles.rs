//! SCTs of single entries. Clients cause these requests at any rate by submitting known
//! certificates again. The requests share a bounded queue and two connections, each of which
//! carries several requests at once.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::RESPONSE_TIMEOUT;
use super::line::Line;

/// Number of connections to the signer for single entries.
pub(super) const CONNECTIONS: usize = 2;

/// Maximum number of requests sent at once: few enough for a slow token.
const TOGETHER: usize = 16;

/// Maximum number of waiting requests; more are refused.
pub(super) const MAX_WAITING: usize = 256;

/// The reasons why there is no response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoResponse {
    /// Too many requests are waiting.
    Busy,
    /// There was no response in time.
    Late,
    Failed(String),
}

type Response = Result<Vec<u8>, NoResponse>;

struct Waiting {
    frame: Vec<u8>,
    response: oneshot::Sender<Response>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Number of tasks that send requests.
    sending: usize,
}

pub(super) struct Singles {
    line: Line,
    queue: Mutex<Queue>,
}

impl std::fmt::Debug for Singles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Singles")
    }
}

impl Singles {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            line: Line::new(path, CONNECTIONS),
            queue: Mutex::default(),
        }
    }

    /// Sends a frame together with others, and returns its response.
    pub(super) async fn ask(self: &Arc<Self>, frame: Vec<u8>) -> Response {
        let (response, receiver) = oneshot::channel();
        {
            let mut queue = self.queue.lock();
            if queue.waiting.len() >= MAX_WAITING {
                return Err(NoResponse::Busy);
            }
            queue.waiting.push_back(Waiting { frame, response });
            if queue.sending < CONNECTIONS {
                queue.sending += 1;
                // A separate task, because the callers may give up.
                tokio::spawn(self.clone().send_all());
            }
        }
        match timeout(RESPONSE_TIMEOUT, receiver).await {
            Ok(Ok(response)) => response,
            _ => Err(NoResponse::Late),
        }
    }

    async fn send_all(self: Arc<Self>) {
        while let Some(batch) = self.next_batch() {
            self.send(batch).await;
        }
    }

    /// Takes the requests that have waited longest; `None` ends the task if no requests wait.
    fn next_batch(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.queue.lock();
        // Drop requests whose callers have given up.
        queue.waiting.retain(|it| !it.response.is_closed());
        let together = queue.waiting.len().min(TOGETHER);
        let batch: Vec<Waiting> = queue.waiting.drain(..together).collect();
        if batch.is_empty() {
            queue.sending -= 1;
            return None;
        }
        Some(batch)
    }

    async fn send(&self, batch: Vec<Waiting>) {
        let (frames, callers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|it| (it.frame, it.response)).unzip();
        let turn = self.line.turn().await;
        let responses: Vec<Response> = match timeout(RESPONSE_TIMEOUT, turn.exchange(&frames)).await
        {
            Ok(Ok(responses)) => responses.into_iter().map(Ok).collect(),
            Ok(Err(error)) => frames
                .iter()
                .map(|_| Err(NoResponse::Failed(error.to_string())))
                .collect(),
            Err(_) => frames.iter().map(|_| Err(NoResponse::Late)).collect(),
        };
        for (caller, response) in callers.into_iter().zip(responses) {
            let _ = caller.send(response);
        }
    }
}

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_load::http::{Client, Handshake, Keep, Request, Response, kind};
use lucarne_load::{Failure, Iteration, Recorder, Tags, VirtualUser};

use super::shared_state::SharedState;
use crate::connection_options::list;
use crate::random::Random;

/// Check: a user with a session resumes it.
pub(super) const RESUMED: &str = "handshake_resumed";
/// Check: the response has an expected status.
pub(super) const STATUS: &str = "status";

/// A user: its client, and its sessions to resume.
pub(super) struct TlsUser {
    shared: Arc<SharedState>,
    client: Option<Client>,
    random: Random,
    /// Tags of iterations without a handshake, with a full handshake, and with a resumed handshake.
    tags: [Tags; 3],
    /// Whether there is a session to resume.
    has_session: bool,
}

impl TlsUser {
    pub(super) fn new(shared: Arc<SharedState>, number: u64, recorder: &Recorder) -> Self {
        let kinds = ["none", "full", "resumed"];
        Self {
            client: shared.client(),
            random: Random::new(shared.seed, number),
            tags: kinds.map(|kind| recorder.tags(&[("handshake", kind)])),
            has_session: false,
            shared,
        }
    }

    fn tags(&self, handshake: Option<&Handshake>) -> Tags {
        self.tags[handshake.map_or(0, |handshake| 1 + usize::from(handshake.resumed))]
    }
}

#[async_trait]
impl VirtualUser for TlsUser {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let shared = self.shared.clone();
        let Some(client) = &mut self.client else {
            return;
        };
        if !shared.jitter.is_zero() {
            let most = shared.jitter.as_nanos() as u64;
            iteration.postpone(Duration::from_nanos(self.random.below(most)));
            // Jitter of the plan, so that handshakes do not start at regular intervals.
            iteration.pause_until(iteration.intended()).await;
        }
        // The handshake has not begun, so its kind is unknown.
        let pending = iteration.pending(self.tags[0], client.protocol());
        let mut response = match &shared.request {
            None => pending.until(client.handshake()).await,
            Some(request) => {
                let headers = request.headers.iter();
                let headers: Vec<(&str, &str)> = headers
                    .map(|(name, value)| (name.as_str(), value.as_str()))
                    .collect();
                let ask = Request::new(&request.method, &request.path)
                    .headers(&headers)
                    .keep(Keep::Start);
                pending.until(client.send(&ask)).await
            }
        };
        let handshake = response.handshake.take();
        let tags = self.tags(handshake.as_deref());
        if let Some(handshake) = &handshake {
            shared.count(handshake);
            self.resumption(handshake, tags, iteration);
        }
        judge(
            &shared,
            handshake.as_deref(),
            tags,
            &mut response,
            iteration,
        );
        iteration.request(tags, &response.exchange);
    }
}

impl TlsUser {
    /// Checks that the handshake has resumed the session of the last connection, if `resume` is
    /// set.
    fn resumption(&mut self, handshake: &Handshake, tags: Tags, iteration: &Iteration) {
        if !self.shared.client.resume {
            return;
        }
        if self.has_session {
            let outcome = if handshake.resumed {
                Ok(())
            } else {
                Err("the server responded with a full handshake".to_owned())
            };
            iteration.check(tags, RESUMED, outcome);
        }
        self.has_session = true;
    }
}

/// Checks the certificate and the status of the response. A failed check is a failed request.
fn judge(
    shared: &SharedState,
    handshake: Option<&Handshake>,
    tags: Tags,
    response: &mut Response,
    iteration: &Iteration,
) {
    let mut wrong = None;
    if let (Some(examiner), Some(handshake)) = (shared.examiner(), handshake) {
        for (check, outcome) in &*examiner.examine(handshake) {
            if let (Err(how), None) = (outcome, &wrong)
                && !iteration.excuses(check)
            {
                wrong = Some(Failure::new(kind::CERTIFICATE, format!("{check}: {how}")));
            }
            let outcome = outcome.as_ref().copied().map_err(ToString::to_string);
            iteration.check(tags, check, outcome);
        }
    }
    if response.exchange.outcome.is_err() {
        return;
    }
    if let Some(request) = &shared.request {
        let status = response.status;
        let outcome = if request.expect.iter().any(|it| it.contain(status)) {
            Ok(())
        } else {
            Err(format!(
                "expected status {}, found {status}",
                list(&request.expect)
            ))
        };
        if let (Err(how), None) = (&outcome, &wrong)
            && !iteration.excuses(STATUS)
        {
            let detail = format!("{} {}: {how}", request.method, request.path);
            wrong = Some(Failure::new(kind::STATUS, detail));
        }
        iteration.check(tags, STATUS, outcome);
    }
    if let Some(failure) = wrong {
        response.exchange.outcome = Err(failure);
    }
}

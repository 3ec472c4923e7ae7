use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_load::http::{Client, Handshake, Request, Response, kind};
use lucarne_load::{Failure, Iteration, Recorder, Tags, VirtualUser};

use super::shared_state::SharedState;
use crate::connection_options::list;
use crate::random::Random;

/// A check: a user that has a session resumes it.
const RESUMED: &str = "handshake_resumed";
/// A check: the answer to the request has a status that is right.
const STATUS: &str = "status";

/// One user: its client, and the sessions that it can resume.
pub(super) struct TlsUser {
    shared: Arc<SharedState>,
    client: Option<Client>,
    random: Random,
    /// Of iterations without a handshake, with a full one, with a resumed one.
    tags: [Tags; 3],
    /// `true` if there is a session to be resumed.
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
            // What the plan asks for: arrivals that are not on the beat.
            iteration.pause_until(iteration.intended()).await;
        }
        // No handshake yet; whether it will be a full one is not known.
        let pending = iteration.pending(self.tags[0], client.protocol());
        let mut response = match &shared.request {
            None => pending.until(client.handshake()).await,
            Some(request) => {
                let headers = request.headers.iter();
                let headers: Vec<(&str, &str)> = headers
                    .map(|(name, value)| (name.as_str(), value.as_str()))
                    .collect();
                let ask = Request::new(&request.method, &request.path).headers(&headers);
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
    /// Returns whether the session of the last connection was resumed, if it was to be.
    fn resumption(&mut self, handshake: &Handshake, tags: Tags, iteration: &Iteration) {
        if !self.shared.resume {
            return;
        }
        if self.has_session {
            let outcome = match handshake.resumed {
                true => Ok(()),
                false => Err("the server made a full handshake of it".to_owned()),
            };
            iteration.check(tags, RESUMED, outcome);
        }
        self.has_session = true;
    }
}

/// Looks at the certificate and at the status of the answer. What is wrong is a
/// failed request.
fn judge(
    shared: &SharedState,
    handshake: Option<&Handshake>,
    tags: Tags,
    response: &mut Response,
    iteration: &Iteration,
) {
    let mut wrong = None;
    if let (Some(examiner), Some(handshake)) = (shared.examiner(), handshake) {
        for (check, outcome) in &*examiner.examine(&handshake.certificates) {
            if let (Err(how), None) = (outcome, &wrong)
                && !iteration.excuses(check)
            {
                wrong = Some(Failure::new(kind::CERTIFICATE, format!("{check}: {how}")));
            }
            iteration.check(tags, check, outcome.clone());
        }
    }
    if response.exchange.outcome.is_err() {
        return;
    }
    if let Some(request) = &shared.request {
        let status = response.status;
        let outcome = match request.expect.iter().any(|it| it.contain(status)) {
            true => Ok(()),
            false => Err(format!("{status} instead of {}", list(&request.expect))),
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

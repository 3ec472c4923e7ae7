//! A user of `ct-write`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_ct::EntryKind;
use lucarne_load::http::{Body, Client, Request, Response};
use lucarne_load::{Failure, Iteration, Recorder, Tags, VirtualUser};
use lucarne_mint::now_ms;

use super::recent_submissions::AnsweredSubmission;
use super::shared_state::{Buffers, Log, SharedState};
use crate::ct::backoff::Backoff;
use crate::ct::checks::{self, Finding};
use crate::ct::outage::Outage;
use crate::ct::sct::excerpt;
use crate::ct::{Submission, VerifiedSct, timestamp_sane};
use crate::random::Random;

/// A user that submits to logs.
pub(super) struct Writer {
    scenario: Arc<SharedState>,
    random: Random,
    sessions: Vec<LogSession>,
}

/// Connection to one of the logs.
struct LogSession {
    client: Client,
    /// Paths of `add-chain` and `add-pre-chain`.
    paths: [String; 2],
    tags: [Tags; 2],
    throttled: Tags,
    /// The submission that was sent and has no SCT yet.
    pending: Option<PendingSubmission>,
    /// Whether the finished submission was written as a new leaf; `None` while a submission is
    /// pending.
    written: Option<bool>,
}

struct PendingSubmission {
    submission: Submission,
    /// First SCT, if this is a repetition.
    first_sct: Option<VerifiedSct>,
    /// Time of the first attempt, in milliseconds since 1970.
    sent: u64,
}

/// Pause of a user that has nothing to submit.
const PAUSE: Duration = Duration::from_millis(200);

/// Rate of submissions with an SCT as response.
const ACCEPTED: &str = "ct_accepted";
/// Rate of responses that throttle a submission (429, 503).
pub(in crate::ct) const THROTTLED: &str = "throttled";

/// Size limit of a response, which is an SCT or a message.
const LARGEST: usize = 1 << 20;

const HEADERS: [(&str, &str); 1] = [("content-type", "application/json")];

impl Writer {
    pub(super) fn new(scenario: Arc<SharedState>, number: u64, recorder: &Recorder) -> Self {
        let sessions = scenario
            .logs
            .all()
            .iter()
            .map(|log| LogSession::new(log, recorder));
        Self {
            random: Random::new(scenario.seed, number),
            sessions: sessions.collect(),
            scenario,
        }
    }
}

#[async_trait]
impl VirtualUser for Writer {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let scenario = Arc::clone(&self.scenario);
        let opened = scenario.logs.of_iteration(&mut self.sessions, iteration);
        let Some((log, session)) = opened else { return };
        let pending = match session.pending.take() {
            Some(pending) => pending,
            None if !scenario.goal.claim() => {
                // The submissions in flight may reach the goal; if one fails, another user
                // continues.
                iteration.idle();
                return iteration.pause(PAUSE).await;
            }
            None => match choose(&scenario, log, &mut self.random, iteration) {
                Ok(pending) => pending,
                Err(failure) => {
                    scenario.goal.finish(false);
                    return iteration.fail(failure);
                }
            },
        };
        let mut buffers = scenario.buffers.lock().pop().unwrap_or_default();
        pending.submission.encode_leaf(&mut buffers.leaf);
        let backoff = session.submit(log, pending, &mut buffers, iteration).await;
        if let Some(written) = session.written.take() {
            scenario.goal.finish(written);
        }
        scenario.buffers.lock().push(buffers);
        if let Some(backoff) = backoff {
            backoff.wait(iteration).await;
        }
    }
}

/// Chooses a new chain, or a repetition.
fn choose(
    scenario: &SharedState,
    log: &Log,
    random: &mut Random,
    iteration: &Iteration,
) -> Result<PendingSubmission, Failure> {
    let sent = now_ms();
    if random.chance(scenario.options.duplicates.0)
        && let Some(answered) = log.recent.lock().choose(random)
    {
        return Ok(PendingSubmission {
            submission: answered.submission,
            first_sct: Some(answered.verified),
            sent,
        });
    }
    let (submission, stocked) = log
        .chains
        .next(random)
        .map_err(|error| Failure::new("minting", error.to_string()))?;
    if !stocked && scenario.options.ahead > 0 {
        let recorder = iteration.recorder();
        recorder.count(recorder.base(), "ct_minted_late", 1);
    }
    Ok(PendingSubmission {
        submission,
        first_sct: None,
        sent,
    })
}
impl LogSession {
    fn new(log: &Log, recorder: &Recorder) -> Self {
        let target = &log.monitored.target;
        let path = |op: &str| format!("{}/ct/v1/{op}", target.submission.prefix);
        let tags = |op: &str| recorder.tags(&[("op", op), ("log", &target.origin)]);
        Self {
            client: Client::new(Arc::clone(&target.submission), Arc::clone(&target.writer)),
            paths: [path("add-chain"), path("add-pre-chain")],
            tags: [tags("add-chain"), tags("add-pre-chain")],
            throttled: tags("throttled"),
            pending: None,
            written: None,
        }
    }

    /// Sends a chain and judges the response. Returns the wait before the next submission, if any.
    async fn submit(
        &mut self,
        log: &Log,
        pending: PendingSubmission,
        buffers: &mut Buffers,
        iteration: &mut Iteration,
    ) -> Option<Backoff> {
        let which = usize::from(pending.submission.kind == EntryKind::Precert);
        let tags = self.tags[which];
        let parts = pending.submission.parts(&buffers.leaf);
        let request = Request::post(&self.paths[which], Body::Parts(&parts))
            .headers(&HEADERS)
            .max_body(LARGEST);
        let open = iteration.pending(tags, self.client.protocol());
        let mut response = open.until(self.client.send(&request)).await;
        let outage = &log.monitored.outage;
        if response.exchange.outcome.is_err() || away(outage, response.status) {
            self.pending = Some(pending);
            outage.request_failed(response.exchange.started);
            if outage.expected() {
                iteration.recorder().count(tags, "ct_outage_errors", 1);
                return Some(Backoff::Outage);
            }
            iteration.request(tags, &response.exchange);
            iteration.recorder().rate(tags, ACCEPTED, false);
            return None;
        }
        outage.answered();
        let put_off = matches!(response.status, 429 | 503);
        iteration.recorder().rate(tags, THROTTLED, put_off);
        match response.status {
            200 => {
                iteration.request(tags, &response.exchange);
                let accepted = judge(log, tags, &pending, &response, buffers, iteration);
                iteration.recorder().rate(tags, ACCEPTED, accepted);
                self.written = Some(accepted && pending.first_sct.is_none());
                None
            }
            429 | 503 => {
                self.pending = Some(pending);
                iteration.request(self.throttled, &response.exchange);
                iteration.recorder().rate(tags, ACCEPTED, false);
                let backoff = Backoff::throttled(self.throttled, &response, iteration);
                if let Backoff::Throttled(Some(wait)) = backoff {
                    let recorder = iteration.recorder();
                    recorder.trend(self.throttled, "ct_retry_after", wait);
                }
                Some(backoff)
            }
            status => {
                self.written = Some(false);
                iteration.recorder().rate(tags, ACCEPTED, false);
                let detail = format!("status {status}: {}", excerpt(&response.body));
                let failure = Failure::new(checks::SUBMISSION_ACCEPTED, detail.clone());
                response.exchange.outcome = Err(failure);
                iteration.request(tags, &response.exchange);
                let recorder = iteration.recorder();
                recorder.check(tags, checks::SUBMISSION_ACCEPTED, Err(detail));
                None
            }
        }
    }
}

/// Returns whether the status means that the log is being restarted: the log itself responds with
/// 503 while it stops or starts, and a proxy in front of the log with 502 to 504.
fn away(outage: &Outage, status: u16) -> bool {
    outage.expected() && matches!(status, 502..=504)
}

/// Judges a response with status 200. Returns whether the response is a valid SCT.
fn judge(
    log: &Log,
    tags: Tags,
    pending: &PendingSubmission,
    response: &Response,
    buffers: &mut Buffers,
    iteration: &mut Iteration,
) -> bool {
    let recorder = iteration.recorder();
    recorder.passed(tags, checks::SUBMISSION_ACCEPTED);
    let verified = log
        .verifier
        .verify(&response.body, &pending.submission, &mut buffers.message);
    let verified = match verified {
        Ok(verified) => verified,
        Err(wrong) => {
            Finding::from(wrong).fail(tags, iteration);
            return false;
        }
    };
    for name in [
        checks::SCT_WELLFORMED,
        checks::SCT_LOG_ID,
        checks::SCT_INDEX,
        checks::SCT_SIGNATURE,
    ] {
        recorder.passed(tags, name);
    }
    let repeated = pending.first_sct.is_some();
    let tolerance = log.monitored.clock_tolerance();
    let sane = timestamp_sane(
        verified.timestamp,
        pending.sent,
        now_ms(),
        repeated,
        tolerance,
    );
    let outcome = match (&pending.first_sct, sane) {
        (_, Err(error)) => Err(Finding::new(checks::SCT_TIMESTAMP, error)),
        (Some(first), Ok(())) => same(first, &verified),
        (None, Ok(())) => made(log, pending, verified),
    };
    match outcome {
        Ok(check) => {
            recorder.passed(tags, checks::SCT_TIMESTAMP);
            recorder.passed(tags, check);
        }
        Err(finding) => finding.fail(tags, iteration),
    }
    true
}

/// Checks that a repetition received the first SCT. Returns the passed check.
fn same(first: &VerifiedSct, again: &VerifiedSct) -> Result<&'static str, Finding> {
    if (first.index, first.timestamp) == (again.index, again.timestamp) {
        return Ok(checks::DUPLICATE_SAME);
    }
    let detail = format!(
        "one submission was promised index {} at {}, then index {} at {}",
        first.index, first.timestamp, again.index, again.timestamp
    );
    Err(Finding::new(checks::DUPLICATE_SAME, detail))
}

/// Records the promise of a new entry. Returns the passed check.
fn made(
    log: &Log,
    pending: &PendingSubmission,
    verified: VerifiedSct,
) -> Result<&'static str, Finding> {
    log.recent.lock().remember(AnsweredSubmission {
        submission: pending.submission.clone(),
        verified,
    });
    if log.monitored.audits() {
        let due = log.monitored.due();
        let extra_data = log.monitored.expects(&pending.submission);
        let mut pending_scts = log.monitored.pending_scts.lock();
        let made = pending_scts.add(&verified, extra_data, due);
        made.map_err(|error| Finding::new(checks::SCT_INDEX_UNIQUE, error))?;
    }
    Ok(checks::SCT_INDEX_UNIQUE)
}

//! Requests to the ACME server: sending, checking and recording.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use lucarne_load::http::{Client, Request, Response};
use lucarne_load::{Failure, Iteration, Tags};

use super::account::Account;
use super::directory::{Directory, path};
use super::jws::{AccountKey, Signer};
use super::media_type;
use super::nonces::{NonceError, is_nonce};
use super::problem::{Problem, ProblemError, unexpected};
use super::shared_state::SharedState;
use super::step::{Step, StepTags};
use crate::retry_after::retry_after;

/// The iteration cannot continue. The failure has been recorded.
#[derive(Debug)]
pub(super) struct Failed;

/// Number of nonces refused in a row after which the request has failed.
const MOST_NONCES: u32 = 5;

/// Kind of the failures by rate limits.
const RATE_LIMITED: &str = "rate_limited";

const JOSE: (&str, &str) = ("content-type", "application/jose+json");

/// The connection of one user to the server.
pub(super) struct AcmeClient {
    pub(super) shared: Arc<SharedState>,
    client: Client,
    tags: StepTags,
}

impl AcmeClient {
    pub(super) fn new(shared: Arc<SharedState>, client: Client, tags: StepTags) -> Self {
        Self {
            shared,
            client,
            tags,
        }
    }

    pub(super) fn tags(&self, step: Step) -> Tags {
        self.tags.of(step)
    }

    /// Requests the directory.
    pub(super) async fn directory(
        &mut self,
        iteration: &mut Iteration,
    ) -> Result<Directory, Failed> {
        let at = self.shared.directory_path.clone();
        let response = self.get(iteration, Step::Directory, &at, &[200]).await?;
        let outcome = Directory::read(&response.body);
        self.document(iteration, Step::Directory, "directory", response, outcome)
    }

    /// Requests a nonce with HEAD of newNonce (RFC 8555, section 7.2).
    pub(super) async fn new_nonce(
        &mut self,
        iteration: &mut Iteration,
        directory: &Directory,
    ) -> Result<Arc<str>, Failed> {
        let at = self.path(iteration, &directory.new_nonce)?.to_owned();
        let shared = self.shared.clone();
        let headers = shared.headers(None);
        let request = Request::new(&Method::HEAD, &at).headers(&headers);
        // Status 204 is specified for GET, but some servers also send it for HEAD.
        let response = self
            .send(iteration, Step::NewNonce, &request, &[200, 204])
            .await?;
        let outcome = self.nonce_of(&response);
        self.judge(iteration, Step::NewNonce, "replay_nonce", response, outcome)
    }

    /// Sends a GET whose response the caller judges.
    pub(super) async fn get(
        &mut self,
        iteration: &mut Iteration,
        step: Step,
        path: &str,
        expected: &[u16],
    ) -> Result<Response, Failed> {
        let shared = self.shared.clone();
        let headers = shared.headers(None);
        let request = Request::get(path).headers(&headers);
        self.send(iteration, step, &request, expected).await
    }

    /// Sends a signed POST; without a payload this is a POST-as-GET. Repeats the request with a new
    /// nonce after a refused nonce, and after a rate limit.
    pub(super) async fn post(
        &mut self,
        iteration: &mut Iteration,
        directory: &Directory,
        post: Post<'_>,
    ) -> Result<Response, Failed> {
        let at = self.path(iteration, post.url)?.to_owned();
        let mut refused = 0;
        loop {
            let nonce = match self.shared.nonces.take() {
                Some(nonce) => nonce,
                None => self.new_nonce(iteration, directory).await?,
            };
            let body = post.key.sign(post.signer, post.url, &nonce, &post.payload);
            let body = body.map_err(|error| fail(iteration, "signing", error))?;
            let headers = self.shared.headers(Some(JOSE));
            let request = Request::post(&at, body.as_str()).headers(&headers);
            self.shared.limits.pass(post.step, iteration).await;
            let pending = iteration.pending(self.tags(post.step), self.client.protocol());
            let mut response = pending.until(self.client.send(&request)).await;
            let failure = match self.classify(&response, post.expected) {
                Answer::Right if response.status < 400 => {
                    self.keep_nonce(iteration, post.step, &response);
                    return Ok(response);
                }
                // An error response should contain a nonce, but need not (RFC 8555, section 6.5).
                Answer::Right => {
                    if let Ok(nonce) = self.nonce_of(&response) {
                        self.shared.nonces.put(nonce);
                    }
                    return Ok(response);
                }
                Answer::BadNonce => {
                    refused += 1;
                    iteration.count(self.tags(post.step), "acme_bad_nonce", 1);
                    let words = format!("the server refused {refused} nonces in a row");
                    (refused == MOST_NONCES).then(|| Failure::new("bad_nonce", words))
                }
                Answer::Limited(wait) => Some(self.limited(iteration, post.step, &response, wait)),
                Answer::Wrong(failure) => Some(failure),
            };
            if let Ok(nonce) = self.nonce_of(&response) {
                self.shared.nonces.put(nonce);
            }
            let again = failure.as_ref().is_none_or(|it| it.kind == RATE_LIMITED);
            if let Some(failure) = failure {
                response.exchange.outcome = Err(failure);
            }
            self.record(iteration, post.step, &response);
            if !again {
                return Err(Failed);
            }
        }
    }

    /// Sends an unsigned request. Records the response only if it is wrong; [`judge`](Self::judge)
    /// records correct responses.
    async fn send(
        &mut self,
        iteration: &mut Iteration,
        step: Step,
        request: &Request<'_>,
        expected: &[u16],
    ) -> Result<Response, Failed> {
        self.shared.limits.pass(step, iteration).await;
        let pending = iteration.pending(self.tags(step), self.client.protocol());
        let mut response = pending.until(self.client.send(request)).await;
        let failure = match self.classify(&response, expected) {
            Answer::Right => return Ok(response),
            Answer::Limited(wait) => self.limited(iteration, step, &response, wait),
            Answer::BadNonce => unexpected(&response),
            Answer::Wrong(failure) => failure,
        };
        response.exchange.outcome = Err(failure);
        self.record(iteration, step, &response);
        Err(Failed)
    }

    fn classify(&self, response: &Response, expected: &[u16]) -> Answer {
        if let Err(failure) = &response.exchange.outcome {
            return Answer::Wrong(failure.clone());
        }
        let right = expected.contains(&response.status);
        if right && response.status < 400 {
            return Answer::Right;
        }
        let problem = Problem::read(response).ok();
        let is = |name| problem.as_ref().is_some_and(|problem| problem.is(name));
        if response.status == 429 || is("rateLimited") {
            return Answer::Limited(retry_after(response).ok());
        }
        match (is("badNonce"), right) {
            (true, _) => Answer::BadNonce,
            (false, true) => Answer::Right,
            (false, false) => Answer::Wrong(unexpected(response)),
        }
    }

    /// Records a rate limit and closes this step for all users until the limit ends.
    fn limited(
        &self,
        iteration: &mut Iteration,
        step: Step,
        response: &Response,
        wait: Option<Duration>,
    ) -> Failure {
        iteration.count(self.tags(step), "acme_rate_limited", 1);
        self.shared.limits.close(step, wait);
        let header = response.headers.get("retry-after").unwrap_or("none");
        let words = format!(
            "status {} for {}, Retry-After: {header}",
            response.status,
            step.name()
        );
        Failure::new(RATE_LIMITED, words)
    }

    /// Records a response of the right status, together with the result of its content check.
    pub(super) fn judge<T, E: fmt::Display>(
        &self,
        iteration: &mut Iteration,
        step: Step,
        check: &'static str,
        mut response: Response,
        outcome: Result<T, E>,
    ) -> Result<T, Failed> {
        let verdict = outcome.as_ref().map(|_| ()).map_err(E::to_string);
        if let Err(words) = &verdict {
            response.exchange.outcome = Err(Failure::new("content", words.clone()));
        }
        iteration.check(self.tags(step), check, verdict);
        self.record(iteration, step, &response);
        outcome.map_err(|_| Failed)
    }

    /// Records a response with a JSON document like [`judge`](Self::judge), and checks its media
    /// type.
    pub(super) fn document<T, E: fmt::Display>(
        &self,
        iteration: &mut Iteration,
        step: Step,
        check: &'static str,
        response: Response,
        outcome: Result<T, E>,
    ) -> Result<T, Failed> {
        let kind = media_type::check(response.headers.get("content-type"), media_type::JSON);
        iteration.check(self.tags(step), "json_type", kind);
        self.judge(iteration, step, check, response, outcome)
    }

    /// Records checks of the content of a response, which failed as `kind` if a check fails whose
    /// failures count.
    pub(super) fn require<E: fmt::Display>(
        &self,
        iteration: &mut Iteration,
        (step, kind): (Step, &'static str),
        findings: impl IntoIterator<Item = (&'static str, Result<(), E>)>,
    ) -> Result<(), Failed> {
        let mut wrong = None;
        for (check, outcome) in findings {
            iteration.check(self.tags(step), check, outcome.as_ref().copied());
            if !iteration.excuses(check) {
                wrong = wrong.or(outcome.err());
            }
        }
        match wrong {
            None => Ok(()),
            Some(error) => Err(fail(iteration, kind, error)),
        }
    }

    fn record(&self, iteration: &mut Iteration, step: Step, response: &Response) {
        let tags = self.tags(step);
        let down = response.status == 0 || response.status >= 500;
        iteration.rate(tags, "acme_server_errors", down);
        iteration.request(tags, &response.exchange);
    }

    /// Stores the nonce of a successful POST response for the next request (RFC 8555, section 6.5).
    fn keep_nonce(&self, iteration: &mut Iteration, step: Step, response: &Response) {
        let nonce = self.nonce_of(response);
        let nonce = nonce.map(|nonce| self.shared.nonces.put(nonce));
        iteration.check(self.tags(step), "replay_nonce", nonce);
    }

    /// Returns the nonce of a response. Each response must have a new nonce.
    fn nonce_of(&self, response: &Response) -> Result<Arc<str>, NonceError> {
        self.shared.nonces.note(replay_nonce(response)?)
    }

    /// Returns the path of a URL that the server sent.
    pub(super) fn path<'u>(
        &self,
        iteration: &mut Iteration,
        url: &'u str,
    ) -> Result<&'u str, Failed> {
        path(url, &self.shared.origin).map_err(|error| fail(iteration, "content", error))
    }

    /// Returns the wait before the first poll: zero, unless the server requests a wait.
    pub(super) fn first_look(&self, response: &Response) -> Duration {
        retry_after(response).unwrap_or_default()
    }

    /// Returns the wait before the next poll of an unfinished object (RFC 8555, section 7.5.1).
    pub(super) fn next_look(&self, response: &Response) -> Duration {
        match retry_after(response) {
            Ok(wait) if !wait.is_zero() => wait,
            _ => self.shared.options.poll.0,
        }
    }
}

/// A POST request: payload and signer.
pub(super) struct Post<'a> {
    pub(super) step: Step,
    pub(super) url: &'a str,
    pub(super) key: &'a AccountKey,
    pub(super) signer: Signer<'a>,
    pub(super) payload: String,
    pub(super) expected: &'a [u16],
}

impl<'a> Post<'a> {
    /// Creates a request that `account` signs, with the expected status 200.
    pub(super) fn new(step: Step, account: &'a Account, url: &'a str, payload: String) -> Self {
        Self {
            step,
            url,
            key: &account.key,
            signer: Signer::Account(&account.url),
            payload,
            expected: &[200],
        }
    }

    /// Creates a POST-as-GET (RFC 8555, section 6.3).
    pub(super) fn as_get(step: Step, account: &'a Account, url: &'a str) -> Self {
        Self::new(step, account, url, String::new())
    }
}

enum Answer {
    Right,
    BadNonce,
    /// Rate limit, with the wait from a valid `Retry-After`, if any.
    Limited(Option<Duration>),
    Wrong(Failure),
}

/// Records a failure that does not belong to a request.
pub(super) fn fail(
    iteration: &mut Iteration,
    kind: &'static str,
    detail: impl fmt::Display,
) -> Failed {
    iteration.fail(Failure::new(kind, detail.to_string()));
    Failed
}

fn replay_nonce(response: &Response) -> Result<&str, NonceError> {
    match response.headers.get("replay-nonce") {
        Some(nonce) if is_nonce(nonce) => Ok(nonce),
        Some(other) => Err(NonceError::Malformed(other.to_owned())),
        None => Err(NonceError::Missing {
            status: response.status,
        }),
    }
}

/// Checks that the response is a problem document.
pub(super) fn problem(response: &Response) -> Result<(), ProblemError> {
    let found = response.headers.get("content-type");
    media_type::check(found, media_type::PROBLEM).map_err(|source| ProblemError::MediaType {
        status: response.status,
        source,
        excerpt: response.excerpt(),
    })?;
    Problem::read(response).map(|_| ())
}

use std::error::Error;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use lucarne_load::http::{
    Body, BodyBudget, Client, Headers, HeldBody, Request as Ask, Response, Version, kind,
};
use lucarne_load::{Failure, Iteration, Recorder, Tags, VirtualUser};
use url::Url;

use super::cookies::Jar;
use super::options::{Connections, Cookies, SystemTag};
use super::request::{Request, RequestBody};
use super::response_checks::OwnMetric;
use super::shared_state::{Order, SharedState};
use super::template::Values;
use crate::content_coding;

/// Kind of failure: the status is right, but the content is not.
pub(super) const CONTENT: &str = "content";
/// Kind of failure: a request needs a value that no response has provided.
pub(super) const MISSING: &str = "missing_value";

/// Wait of a user that could not be set up.
const FAILED_SETUP: Duration = Duration::from_millis(100);

/// A user: a connection to each server, and its remembered values.
pub(super) struct RestUser {
    pub(super) shared: Arc<SharedState>,
    /// Clients of the servers, also of those in `other_servers`.
    pub(super) clients: Vec<Client>,
    /// Servers that only redirects name.
    pub(super) other_servers: Vec<String>,
    jar: Jar,
    /// Cookies after `setup` and `userSetup`, with which iterations begin.
    first_jar: Jar,
    /// Tags of each request.
    tags: Vec<RequestTags>,
    pub(super) values: Values,
    /// Whether the user has not yet performed `userSetup`.
    is_new: bool,
    /// Position in each of the row files.
    places: Vec<u64>,
    /// Buffers for the current request.
    pub(super) written: Buffers,
}

/// Tags of a request: without a result, with success, and without success.
#[derive(Clone, Copy)]
struct RequestTags {
    op: Tags,
    expected: Tags,
    unexpected: Tags,
}

/// State of a user that other users can begin with.
#[derive(Debug)]
pub(super) struct Session(Values, Jar);

#[derive(Default)]
pub(super) struct Buffers {
    path: String,
    body: String,
    /// Values of headers that contain templates.
    headers: Vec<String>,
    /// Stored cookies for the request.
    cookie: String,
}

#[async_trait]
impl VirtualUser for RestUser {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let shared = self.shared.clone();
        self.values.begin(iteration, &shared.forgotten);
        if shared.cookies == Cookies::Iteration {
            self.jar.clone_from(&self.first_jar);
        }
        self.take_rows(&shared);
        if !shared.jitter.is_zero() {
            let most = shared.jitter.as_nanos() as u64;
            let wait = Duration::from_nanos(self.values.random().below(most));
            iteration.postpone(wait);
            // Jitter of the plan, so that requests do not arrive at regular intervals.
            iteration.pause_until(iteration.intended()).await;
        }
        self.compute(&shared);
        if self.is_new && !self.set_up(&shared, iteration).await {
            return;
        }
        match shared.order {
            Order::One => {
                let index = self.pick(&shared);
                self.request(&shared, index, iteration).await;
            }
            Order::Turn => {
                let index = iteration.number() % shared.requests.len() as u64;
                self.request(&shared, index as usize, iteration).await;
            }
            Order::Steps => {
                let mut index = 0;
                while let Some(request) = shared.requests.get(index) {
                    let end = index + request.concurrent;
                    if request.concurrent == 1 {
                        self.request(&shared, index, iteration).await;
                    } else {
                        // Boxed, so that the future without these requests stays small.
                        Box::pin(self.parallel(&shared, index..end, iteration)).await;
                    }
                    index = end;
                }
            }
        }
        if shared.connections == Connections::Iteration {
            self.close();
        }
    }
}

impl RestUser {
    pub(super) fn new(shared: Arc<SharedState>, number: u64, recorder: &Recorder) -> Self {
        let mut values = Values::new(shared.common(), number);
        let session = shared.phases.session.get();
        if let Some(Session(known, _)) = session {
            values.begin_with(known);
        }
        let jar = session.map(|Session(_, jar)| jar.clone());
        let jar = jar.unwrap_or_default();
        Self {
            first_jar: jar.clone(),
            jar,
            ..Self::with(shared, number, values, recorder)
        }
    }

    /// Creates the user of `setup` and `teardown`.
    pub(super) fn of_run(shared: Arc<SharedState>, recorder: &Recorder) -> Self {
        let values = Values::of_run(shared.common());
        let mut user = Self::with(shared.clone(), 0, values, recorder);
        user.compute(&shared);
        user
    }

    fn with(
        shared: Arc<SharedState>,
        number: u64,
        mut values: Values,
        recorder: &Recorder,
    ) -> Self {
        let tags = |request: &Request| request_tags(&shared.system_tags, request, recorder);
        let places = shared
            .data
            .iter()
            .map(|rows| rows.place(number, values.random()));
        Self {
            places: places.collect(),
            clients: shared.clients(),
            tags: shared.requests.iter().map(tags).collect(),
            other_servers: Vec::new(),
            jar: Jar::default(),
            first_jar: Jar::default(),
            values,
            is_new: !shared.phases.user_setup.is_empty(),
            written: Buffers::default(),
            shared,
        }
    }

    pub(super) fn session(&self) -> Session {
        Session(self.values.clone(), self.jar.clone())
    }

    /// Closes all connections.
    pub(super) fn close(&mut self) {
        self.clients.iter_mut().for_each(Client::close);
    }

    /// Performs `userSetup`, which postpones the iteration. Returns whether it had success.
    async fn set_up(&mut self, shared: &SharedState, iteration: &mut Iteration) -> bool {
        if shared.phases.has_failed() {
            iteration.idle();
            // The run ends soon. Until then, the user must not repeat its setup.
            iteration.pause(FAILED_SETUP).await;
            return false;
        }
        let begun = Instant::now();
        let recorder = iteration.recorder().clone();
        self.values.set_up(true);
        let performed = self.perform(&shared.phases.user_setup, &recorder).await;
        self.values.set_up(false);
        match performed {
            Ok(()) => {
                self.is_new = false;
                self.first_jar.clone_from(&self.jar);
                self.compute(shared);
                iteration.postpone(begun.elapsed());
                true
            }
            Err(failure) => {
                iteration.fail(failure.clone());
                shared.phases.fail(failure);
                false
            }
        }
    }

    /// Computes the missing values of `vars`, as far as the values in them are available.
    fn compute(&mut self, shared: &SharedState) {
        for (slot, template) in &shared.vars {
            if self.values.get(*slot).is_none() && template.is_ready(&self.values) {
                let text = template.text(&mut self.values);
                self.values.set(*slot, text);
            }
        }
    }

    /// Takes this iteration's row of each file.
    fn take_rows(&mut self, shared: &SharedState) {
        for (rows, place) in shared.data.iter().zip(&mut self.places) {
            for (slot, value) in rows.take(place, self.values.random(), shared.common.part()) {
                self.values.copy(slot, value);
            }
        }
    }

    /// Picks a request by weight, preferably one whose values are available.
    fn pick(&mut self, shared: &SharedState) -> usize {
        let requests = &shared.requests;
        let total = requests.last().map_or(0.0, |last| last.weight);
        let chance = self.values.random().fraction() * total;
        let picked = requests.iter().position(|request| chance < request.weight);
        let picked = picked.unwrap_or(0);
        if is_ready(&requests[picked], &self.values) {
            return picked;
        }
        let ready = requests
            .iter()
            .position(|request| is_ready(request, &self.values));
        ready.unwrap_or(picked)
    }

    async fn request(&mut self, shared: &SharedState, index: usize, iteration: &mut Iteration) {
        let request = &shared.requests[index];
        if !request.applies(&mut self.values) {
            return;
        }
        if let Err(missing) = self.check_ready(request) {
            iteration.fail(missing);
            return;
        }
        let tags = self.tags[index].op;
        let pending = iteration.pending(tags, self.clients[request.server].protocol());
        let response = pending.until(self.send(request)).await;
        self.complete(request, index, response, iteration).await;
        if let Some(pause) = request.think_time {
            // Think time of the plan.
            iteration.pause(pause.pick(self.values.random())).await;
        }
    }

    /// Follows the redirects of a response, checks the last response, and records it.
    async fn complete(
        &mut self,
        request: &Request,
        index: usize,
        mut response: Response,
        iteration: &mut Iteration,
    ) {
        let tags = self.tags[index];
        if request.redirects > 0 {
            let load = Some((&mut *iteration, tags.expected));
            response = Box::pin(self.follow(request, response, load)).await;
        }
        self.judge(request, &mut response, Some((iteration, tags.op)));
        let tags = match response.exchange.outcome {
            Ok(()) => tags.expected,
            Err(_) => tags.unexpected,
        };
        iteration.request(tags, &response.exchange);
    }

    /// Sends requests concurrently over one connection.
    async fn parallel(
        &mut self,
        shared: &SharedState,
        group: Range<usize>,
        iteration: &mut Iteration,
    ) {
        let think_time = shared.requests[group.end - 1].think_time;
        let mut all = Vec::new();
        for index in group {
            let request = &shared.requests[index];
            if !request.applies(&mut self.values) {
                continue;
            }
            match self.check_ready(request) {
                Err(missing) => iteration.fail(missing),
                Ok(()) => {
                    self.write(request);
                    all.push((index, std::mem::take(&mut self.written)));
                }
            }
        }
        let responses = self.send_together(shared, &all, iteration).await;
        for ((index, written), response) in all.into_iter().zip(responses) {
            let request = &shared.requests[index];
            self.written = written;
            if shared.cookies != Cookies::None {
                self.store_cookies(&self.url(request), &response);
            }
            self.complete(request, index, response, iteration).await;
        }
        if let Some(pause) = think_time {
            // Think time of the plan.
            iteration.pause(pause.pick(self.values.random())).await;
        }
    }

    /// Sends written requests to one server. The first of them includes a new connection.
    async fn send_together(
        &mut self,
        shared: &SharedState,
        all: &[(usize, Buffers)],
        iteration: &Iteration,
    ) -> Vec<Response> {
        let Some((first, _)) = all.first() else {
            return Vec::new();
        };
        let client = &mut self.clients[shared.requests[*first].server];
        let pending = |index: usize| iteration.pending(self.tags[index].op, Version::Http2.name());
        let opened = pending(*first).until(client.connect()).await;
        if let Some(failed) = opened.as_ref().filter(|it| it.exchange.outcome.is_err()) {
            return vec![failed.clone(); all.len()];
        }
        let each = all.iter().map(|(index, written)| {
            let (request, pending) = (&shared.requests[*index], pending(*index));
            let mut client = client.share();
            async move {
                let headers = written.headers(request, |_| true);
                pending
                    .until(client.send(&written.ask(request, &headers)))
                    .await
            }
        });
        let mut responses = join_all(each).await;
        if let (Some(opened), Some(first)) = (opened, responses.first_mut()) {
            first.exchange.includes_connection(&opened.exchange);
        }
        if shared.connections == Connections::Request {
            client.close();
        }
        responses
    }

    /// Checks that all values of the request are available.
    pub(super) fn check_ready(&self, request: &Request) -> Result<(), Failure> {
        if is_ready(request, &self.values) {
            return Ok(());
        }
        let name = &request.name;
        let why = format!("`{name}` needs a value that no response has provided");
        Err(Failure::new(MISSING, why))
    }

    /// Writes the request into the buffers, with the stored cookies.
    fn write(&mut self, request: &Request) {
        let Buffers {
            path,
            body,
            headers,
            ..
        } = &mut self.written;
        let values = &mut self.values;
        let mut write = |template: &super::template::Template, out: &mut String| {
            out.clear();
            template.write(out, values);
        };
        write(&request.path, path);
        if let Some(RequestBody::Template(template)) = &request.body {
            write(template, body);
        }
        headers.resize_with(headers.len().max(request.headers.len()), String::new);
        for ((_, value), written) in request.headers.iter().zip(&mut *headers) {
            if value.as_fixed().is_none() {
                write(value, written);
            }
        }
        if self.shared.cookies != Cookies::None {
            self.choose_cookies(&self.url(request));
        }
    }

    pub(super) async fn send(&mut self, request: &Request) -> Response {
        self.write(request);
        let headers = self.written.headers(request, |_| true);
        let ask = self.written.ask(request, &headers);
        let response = self.clients[request.server].send(&ask).await;
        if self.shared.cookies != Cookies::None {
            self.store_cookies(&self.url(request), &response);
        }
        response
    }

    /// Returns the URL of the written request.
    pub(super) fn url(&self, request: &Request) -> Url {
        let server = &self.shared.servers[request.server];
        let url = Url::parse(&format!("{server}{}", self.written.path));
        // Every server is a URL without a path, and every path begins with a slash.
        url.unwrap_or_else(|_| unreachable!("{server} and a path are a URL"))
    }

    /// Writes the stored cookies for a request of `url` into the buffers.
    pub(super) fn choose_cookies(&mut self, url: &Url) {
        self.jar.write(url, &mut self.written.cookie);
    }

    pub(super) fn store_cookies(&mut self, url: &Url, response: &Response) {
        if self.shared.cookies != Cookies::None {
            self.jar.store(url, &response.headers);
        }
    }

    /// Checks a response, if there is one. A response that fails a check is a failed request,
    /// regardless of its status. Records the checks if the request belongs to the load.
    pub(super) fn judge(
        &mut self,
        request: &Request,
        response: &mut Response,
        load: Option<(&Iteration, Tags)>,
    ) {
        let excuses = |name| load.is_some_and(|(iteration, _)| iteration.excuses(name));
        if response.exchange.outcome.is_err() {
            return;
        }
        let wrong =
            |error: &dyn Error| Failure::new(CONTENT, format!("{}: {error}", request.shown()));
        let budget = self.shared.options.body_budget.as_ref();
        if let Err(error) = decode(&response.headers, &mut response.body, budget) {
            let kind = error.kind();
            response.exchange.outcome = Err(Failure {
                kind,
                ..wrong(&error)
            });
            return;
        }
        let status = request.status(response);
        let outcome = match &status {
            Err(_) if excuses(request.status_check) => Ok(()),
            Err(error) => Err(Failure::new(
                kind::STATUS,
                format!("{}: {error}", request.name),
            )),
            Ok(()) if request.checks.is_empty() => Ok(()),
            Ok(()) => request
                .checks
                .look(response, &mut self.values, |name, outcome| {
                    if let Some((iteration, tags)) = load {
                        iteration.check(tags, name, outcome);
                    }
                    !excuses(name)
                })
                .map_err(|failed| wrong(&failed)),
        };
        if let Some((iteration, tags)) = load {
            iteration.check(tags, request.status_check, status);
            let measure = |metric: &OwnMetric, holds: bool| {
                if metric.is_rate {
                    iteration.rate(tags, metric.name, holds);
                } else {
                    iteration.count(tags, metric.name, holds.into());
                }
            };
            request.checks.measure(response, &mut self.values, measure);
        }
        response.exchange.outcome = outcome;
    }
}

impl Buffers {
    /// Returns the headers of the written request that `keep` accepts, and the stored cookies.
    pub(super) fn headers<'b>(
        &'b self,
        request: &'b Request,
        keep: impl Fn(&str) -> bool,
    ) -> Vec<(&'b str, &'b str)> {
        let mut all = Vec::with_capacity(request.headers.len() + 1);
        let headers = request.headers.iter().zip(&self.headers);
        let headers = headers
            .map(|((name, value), written)| (name.as_str(), value.as_fixed().unwrap_or(written)));
        all.extend(headers.filter(|(name, _)| keep(name)));
        let is_cookie = |(name, _): &(&str, &str)| name.eq_ignore_ascii_case("cookie");
        if !self.cookie.is_empty() && !all.iter().any(is_cookie) {
            all.push(("cookie", self.cookie.as_str()));
        }
        all
    }

    /// Returns the written request with these headers.
    fn ask<'b>(&'b self, request: &'b Request, headers: &'b [(&'b str, &'b str)]) -> Ask<'b> {
        let ask = Ask::new(&request.method, &self.path).headers(headers);
        let ask = match self.body(request) {
            Some(body) => ask.body(Body::One(body)),
            None => ask,
        };
        ask.keep(request.kept_body())
    }

    /// Returns the body of the written request, if it has one.
    pub(super) fn body<'b>(&'b self, request: &'b Request) -> Option<&'b [u8]> {
        request.body.as_ref().map(|body| match body {
            RequestBody::Template(_) => self.body.as_bytes(),
            RequestBody::Bytes(bytes) => bytes,
        })
    }
}

/// Returns the tags of a request, with the tags of k6 that the plan selects.
fn request_tags(selected: &[SystemTag], request: &Request, recorder: &Recorder) -> RequestTags {
    let name = request.name.as_str();
    let mut tags = vec![("op", name)];
    if selected.contains(&SystemTag::Name) {
        tags.push(("name", name));
    }
    let op = recorder.tags(&tags);
    let with_result = |expected| {
        if !selected.contains(&SystemTag::ExpectedResponse) {
            return op;
        }
        let result = [("expected_response", expected)];
        recorder.tags(&[tags.as_slice(), &result].concat())
    };
    RequestTags {
        op,
        expected: with_result("true"),
        unexpected: with_result("false"),
    }
}

/// Returns whether all values of the request are available.
fn is_ready(request: &Request, values: &Values) -> bool {
    request.path.is_ready(values)
        && match &request.body {
            Some(RequestBody::Template(body)) => body.is_ready(values),
            Some(RequestBody::Bytes(_)) | None => true,
        }
        && request
            .headers
            .iter()
            .all(|(_, value)| value.is_ready(values))
}

/// Reasons why a body cannot be decoded.
#[derive(Debug, thiserror::Error)]
enum DecodeError {
    #[error("the response has the unsupported content coding {0}")]
    Unsupported(String),
    #[error("the body is not {coding}: {source}")]
    Body { coding: String, source: io::Error },
    /// The decoded body exceeds the limit of bodies in memory, which `source` states.
    #[error("decoding {coding}: {source}")]
    TooLarge { coding: String, source: io::Error },
}

impl DecodeError {
    fn kind(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => kind::MAX_BODY,
            Self::Unsupported(_) | Self::Body { .. } => CONTENT,
        }
    }
}

/// Decodes the content codings of a body, the last one first (RFC 9110, section 8.4). `budget`
/// limits the decoded body.
fn decode(
    headers: &Headers,
    body: &mut Bytes,
    budget: Option<&Arc<BodyBudget>>,
) -> Result<(), DecodeError> {
    if body.is_empty() {
        return Ok(());
    }
    let codings: Vec<String> = headers
        .all("content-encoding")
        .flat_map(|value| value.split(','))
        .map(|coding| coding.trim().to_ascii_lowercase())
        .filter(|coding| !coding.is_empty() && coding != "identity")
        .collect();
    for coding in codings.into_iter().rev() {
        let mut held = HeldBody::new(budget.cloned());
        let mut grow = |more| {
            let too_large = |error| io::Error::new(io::ErrorKind::FileTooLarge, error);
            held.grow(more).map_err(too_large)
        };
        let plain = match content_coding::decode(&coding, body, &mut grow) {
            Some(Ok(plain)) => plain,
            Some(Err(source)) if source.kind() == io::ErrorKind::FileTooLarge => {
                return Err(DecodeError::TooLarge { coding, source });
            }
            Some(Err(source)) => return Err(DecodeError::Body { coding, source }),
            None => return Err(DecodeError::Unsupported(coding)),
        };
        *body = held.attach(plain);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_that_cannot_be_decoded() {
        let unsupported = DecodeError::Unsupported("br".into());
        assert_eq!(
            unsupported.to_string(),
            "the response has the unsupported content coding br"
        );
        let not_gzip = DecodeError::Body {
            coding: "gzip".into(),
            source: io::Error::other("wrong length"),
        };
        assert_eq!(not_gzip.to_string(), "the body is not gzip: wrong length");
    }

    #[test]
    fn a_decoded_body_counts_among_the_bodies_in_memory() {
        let plain = vec![7; 100_000];
        let body = zstd::encode_all(&plain[..], 1).unwrap();
        for (most, fits) in [(100_000, true), (99_999, false)] {
            let budget = BodyBudget::new(most, "`--max-body`", Arc::default());
            let headers = Headers::of_lines("content-encoding: zstd\r\n");
            let mut decoded_body = Bytes::from(body.clone());
            let decoded = decode(&headers, &mut decoded_body, Some(&budget));
            assert_eq!(decoded.is_ok(), fits, "{decoded:?}");
            assert_eq!(budget.held(), if fits { 100_000 } else { 0 });
            if let Err(error) = decoded {
                assert_eq!(error.kind(), kind::MAX_BODY);
                assert_eq!(
                    error.to_string(),
                    "decoding zstd: the body does not fit into 99999B, the limit of all bodies in \
                     memory together: raise `--max-body`"
                );
            }
        }
    }
}

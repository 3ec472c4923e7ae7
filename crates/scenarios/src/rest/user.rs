use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_load::http::{self, Body, Client, Response, kind};
use lucarne_load::{Failure, Iteration, Recorder, Tags, VirtualUser};

use super::options::Connections;
use super::request::{Request, RequestBody};
use super::shared_state::{Order, SharedState};
use super::template::Values;
use crate::content_coding;

/// Kind of failure: the status is right, but the content is not.
pub(super) const CONTENT: &str = "content";
/// Kind of failure: a request needs a value that no response has provided.
pub(super) const MISSING: &str = "missing_value";

/// A user: a connection to each server, and its remembered values.
pub(super) struct RestUser {
    shared: Arc<SharedState>,
    clients: Vec<Client>,
    /// Tags of each request.
    tags: Vec<Tags>,
    values: Values,
    /// Position in each of the row files.
    places: Vec<u64>,
    /// Buffers for the current request.
    written: Buffers,
}

#[derive(Default)]
struct Buffers {
    path: String,
    body: String,
    /// Values of headers that contain templates.
    headers: Vec<String>,
}

#[async_trait]
impl VirtualUser for RestUser {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let shared = self.shared.clone();
        self.values.begin(iteration, &shared.forgotten);
        self.take_rows(&shared);
        if !shared.jitter.is_zero() {
            let most = shared.jitter.as_nanos() as u64;
            let wait = Duration::from_nanos(self.values.random().below(most));
            iteration.postpone(wait);
            // Jitter of the plan, so that requests do not arrive at regular intervals.
            iteration.pause_until(iteration.intended()).await;
        }
        for (slot, template) in &shared.vars {
            if template.is_ready(&self.values) {
                let text = template.text(&mut self.values);
                self.values.set(*slot, text);
            }
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
                for index in 0..shared.requests.len() {
                    self.request(&shared, index, iteration).await;
                }
            }
        }
        if shared.connections == Connections::Iteration {
            self.clients.iter_mut().for_each(Client::close);
        }
    }
}

impl RestUser {
    pub(super) fn new(shared: Arc<SharedState>, number: u64, recorder: &Recorder) -> Self {
        let tags = |request: &Request| recorder.tags(&[("op", request.name.as_str())]);
        let mut values = Values::new(shared.common(), number);
        let places = shared
            .data
            .iter()
            .map(|rows| rows.place(number, values.random()));
        Self {
            places: places.collect(),
            clients: shared.clients(),
            tags: shared.requests.iter().map(tags).collect(),
            values,
            written: Buffers::default(),
            shared,
        }
    }

    /// Takes this iteration's row of each file.
    fn take_rows(&mut self, shared: &SharedState) {
        for (rows, place) in shared.data.iter().zip(&mut self.places) {
            for (slot, value) in rows.take(place, self.values.random()) {
                self.values.copy(slot, value);
            }
        }
    }

    /// Picks a request by weight, preferably one whose values are available.
    fn pick(&mut self, shared: &SharedState) -> usize {
        let requests = &shared.requests;
        let total = requests.last().map_or(0.0, |last| last.weight);
        let chance = (self.values.random().next() >> 11) as f64 / (1_u64 << 53) as f64 * total;
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
        if !is_ready(request, &self.values) {
            let why = format!(
                "`{}` needs a value that no response has provided",
                request.name
            );
            iteration.fail(Failure::new(MISSING, why));
            return;
        }
        let tags = self.tags[index];
        let pending = iteration.pending(tags, self.clients[request.server].protocol());
        let mut response = pending.until(self.send(request)).await;
        self.judge(request, tags, &mut response, iteration);
        iteration.request(tags, &response.exchange);
        if let Some(pause) = request.think_time {
            // Think time of the plan.
            iteration.pause(pause.pick(self.values.random())).await;
        }
    }

    async fn send(&mut self, request: &Request) -> Response {
        let Buffers {
            path,
            body,
            headers,
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
        let headers: Vec<(&str, &str)> = (request.headers.iter().zip(&*headers))
            .map(|((name, value), written)| (name.as_str(), value.as_fixed().unwrap_or(written)))
            .collect();
        let ask = http::Request::new(&request.method, path).headers(&headers);
        let ask = match &request.body {
            Some(RequestBody::Template(_)) => ask.body(Body::One(body.as_bytes())),
            Some(RequestBody::Bytes(bytes)) => ask.body(Body::One(bytes)),
            None => ask,
        };
        self.clients[request.server].send(&ask).await
    }

    /// Checks a response, if there is one. A response that fails a check is a failed request,
    /// regardless of its status.
    fn judge(
        &mut self,
        request: &Request,
        tags: Tags,
        response: &mut Response,
        iteration: &Iteration,
    ) {
        if response.exchange.outcome.is_err() {
            return;
        }
        let most = self.shared.options.max_body as u64;
        let wrong =
            |error: &dyn Error| Failure::new(CONTENT, format!("{}: {error}", request.shown()));
        if let Err(error) = decode(response, most) {
            response.exchange.outcome = Err(wrong(&error));
            return;
        }
        let status = request.status(response);
        let outcome = match &status {
            Err(_) if iteration.excuses(request.status_check) => Ok(()),
            Err(error) => Err(Failure::new(
                kind::STATUS,
                format!("{}: {error}", request.name),
            )),
            Ok(()) if request.checks.is_empty() => Ok(()),
            Ok(()) => request
                .checks
                .look(response, &mut self.values, |name, outcome| {
                    iteration.check(tags, name, outcome);
                    !iteration.excuses(name)
                })
                .map_err(|failed| wrong(&failed)),
        };
        iteration.check(tags, request.status_check, status);
        response.exchange.outcome = outcome;
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
    #[error("{}", content_coding::problem(.coding, .source, *.most))]
    Body {
        coding: String,
        most: u64,
        source: io::Error,
    },
}

/// Decodes the content codings of a body, the last one first (RFC 9110, section 8.4), up to `most`
/// bytes.
fn decode(response: &mut Response, most: u64) -> Result<(), DecodeError> {
    if response.body.is_empty() {
        return Ok(());
    }
    let codings: Vec<String> = response
        .headers
        .all("content-encoding")
        .flat_map(|value| value.split(','))
        .map(|coding| coding.trim().to_ascii_lowercase())
        .filter(|coding| !coding.is_empty() && coding != "identity")
        .collect();
    for coding in codings.into_iter().rev() {
        response.body = match content_coding::decode(&coding, &response.body, most) {
            Some(Ok(plain)) => plain.into(),
            Some(Err(source)) => {
                return Err(DecodeError::Body {
                    coding,
                    most,
                    source,
                });
            }
            None => return Err(DecodeError::Unsupported(coding)),
        };
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
        let body = |source| {
            let error = DecodeError::Body {
                coding: "gzip".into(),
                most: 1 << 20,
                source,
            };
            error.to_string()
        };
        assert_eq!(
            body(io::ErrorKind::FileTooLarge.into()),
            "the body is larger than 1 MiB when it is decoded (gzip)"
        );
        assert_eq!(
            body(io::Error::other("wrong length")),
            "the body is not gzip: wrong length"
        );
    }
}

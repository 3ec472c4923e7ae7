use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::{ClientOptions, Endpoint, Headers, Request, Response, kind};
use crate::{Exchange, Failure};

/// One user's client: keeps its connection to one endpoint.
pub struct Client {
    endpoint: Arc<Endpoint>,
    options: Arc<ClientOptions>,
}

impl Client {
    /// A client that has not connected yet.
    pub fn new(endpoint: Arc<Endpoint>, options: Arc<ClientOptions>) -> Self {
        Self { endpoint, options }
    }

    /// Where it sends its requests.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&mut self, _request: &Request<'_>) -> Response {
        let now = Instant::now();
        Response {
            exchange: Exchange {
                started: now,
                finished: now,
                connect: None,
                tls: None,
                sending: None,
                first_byte: None,
                body: None,
                status: 0,
                protocol: self.options.version.name(),
                bytes_in: 0,
                bytes_out: 0,
                outcome: Err(Failure::new(kind::CONNECT, "not yet")),
            },
            status: 0,
            headers: Headers::default(),
            body: Bytes::new(),
            resent: false,
        }
    }

    /// Closes its connection; the next request opens another.
    pub fn close(&mut self) {}
}

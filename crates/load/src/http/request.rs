use http::Method;

use super::Keep;

/// A request. The client adds `host`, `content-length`, `user-agent` and `connection`; the caller
/// provides all other headers.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// HTTP method.
    pub method: &'a Method,
    /// Part of the URL after the host, which begins with a slash and is sent unchanged.
    pub path_and_query: &'a str,
    /// Names and values, sent unchanged and in this order. HTTP/2 sends names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// Body of the request.
    pub body: Body<'a>,
    /// Whether to send `expect: 100-continue`, and the body only after the server's response or
    /// after a second without a response (HTTP/1.1 only).
    pub expect_continue: bool,
    /// Limit of the response's body in bytes, if it is below the limit of the client.
    pub max_body: Option<usize>,
    /// Part of the response's body that stays in memory; all by default.
    pub keep: Keep,
}

impl<'a> Request<'a> {
    /// Creates a request without headers or a body.
    pub fn new(method: &'a Method, path_and_query: &'a str) -> Self {
        Self {
            method,
            path_and_query,
            headers: &[],
            body: Body::Empty,
            expect_continue: false,
            max_body: None,
            keep: Keep::All,
        }
    }

    /// Creates a GET request.
    pub fn get(path_and_query: &'a str) -> Self {
        Self::new(&Method::GET, path_and_query)
    }

    /// Creates a POST request with this body.
    pub fn post(path_and_query: &'a str, body: impl Into<Body<'a>>) -> Self {
        Self::new(&Method::POST, path_and_query).body(body)
    }

    /// Sets the headers.
    pub fn headers(mut self, headers: &'a [(&'a str, &'a str)]) -> Self {
        self.headers = headers;
        self
    }

    /// Limits the response's body to this number of bytes.
    pub fn max_body(mut self, most: usize) -> Self {
        self.max_body = Some(most);
        self
    }

    /// Keeps this part of the response's body in memory.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Returns the limit of the response's body, for a client with the limit `most`.
    pub(super) fn limit(&self, most: usize) -> usize {
        self.max_body.map_or(most, |own| own.min(most))
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Body<'a>>) -> Self {
        self.body = body.into();
        self
    }
}

/// Body of a request. Several slices are written in order without being copied together (HTTP/1.1).
#[derive(Clone, Copy, Debug, Default)]
pub enum Body<'a> {
    /// No body.
    #[default]
    Empty,
    /// A single slice.
    One(&'a [u8]),
    /// Several slices, in order.
    Parts(&'a [&'a [u8]]),
}

impl Body<'_> {
    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Body::Empty => 0,
            Body::One(bytes) => bytes.len(),
            Body::Parts(parts) => parts.iter().map(|part| part.len()).sum(),
        }
    }

    /// Returns whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<&'a [u8]> for Body<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Body::One(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Body<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Body::One(bytes)
    }
}

impl<'a> From<&'a str> for Body<'a> {
    fn from(text: &'a str) -> Self {
        Body::One(text.as_bytes())
    }
}

impl<'a> From<&'a [&'a [u8]]> for Body<'a> {
    fn from(parts: &'a [&'a [u8]]) -> Self {
        Body::Parts(parts)
    }
}

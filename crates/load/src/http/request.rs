use http::Method;

/// A request. `host`, `content-length`, `user-agent` and `connection` are added;
/// every other header is the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a Method,
    /// The part after the host: begins with a slash, and is sent as it is.
    pub path_and_query: &'a str,
    /// Names and values, sent in this order and as they are. HTTP/2 sends names
    /// in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: Body<'a>,
    /// Send `expect: 100-continue`, and the body only once the server has asked
    /// for it, or has been silent for a second (HTTP/1.1 only).
    pub expect_continue: bool,
}

impl<'a> Request<'a> {
    /// A request without headers and body.
    pub fn new(method: &'a Method, path_and_query: &'a str) -> Self {
        Self {
            method,
            path_and_query,
            headers: &[],
            body: Body::Empty,
            expect_continue: false,
        }
    }

    /// GET.
    pub fn get(path_and_query: &'a str) -> Self {
        Self::new(&Method::GET, path_and_query)
    }

    /// POST of this body.
    pub fn post(path_and_query: &'a str, body: impl Into<Body<'a>>) -> Self {
        Self::new(&Method::POST, path_and_query).body(body)
    }

    /// With these headers.
    pub fn headers(mut self, headers: &'a [(&'a str, &'a str)]) -> Self {
        self.headers = headers;
        self
    }

    /// With this body.
    pub fn body(mut self, body: impl Into<Body<'a>>) -> Self {
        self.body = body.into();
        self
    }
}

/// The body of a request: one slice or several, written one after the other
/// without being copied together (HTTP/1.1).
#[derive(Clone, Copy, Debug, Default)]
pub enum Body<'a> {
    /// None.
    #[default]
    Empty,
    /// All of it.
    One(&'a [u8]),
    /// Its parts, in order.
    Parts(&'a [&'a [u8]]),
}

impl Body<'_> {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Body::Empty => 0,
            Body::One(bytes) => bytes.len(),
            Body::Parts(parts) => parts.iter().map(|part| part.len()).sum(),
        }
    }

    /// Returns whether it has no bytes.
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

use bytes::Bytes;

use super::Handshake;
use crate::Exchange;

/// Result of a request: `exchange.outcome` states whether the response is complete, and otherwise
/// has the failure.
#[derive(Clone, Debug)]
pub struct Response {
    /// Timings and sizes of the request.
    pub exchange: Exchange,
    /// Status, or 0 without a response.
    pub status: u16,
    /// Headers, if the head is complete.
    pub headers: Headers,
    /// Body as sent, with its content codings: the part that the request keeps
    /// ([`Keep`](super::Keep)). If the exchange failed, the received part.
    pub body: Bytes,
    /// Whether the exchange failed because the body exceeds its limit.
    pub is_too_long: bool,
    /// TLS handshake, if the request performed one.
    pub handshake: Option<Box<Handshake>>,
}

impl Response {
    /// Returns whether the response is complete with one of these statuses.
    pub fn is(&self, statuses: &[u16]) -> bool {
        self.exchange.outcome.is_ok() && statuses.contains(&self.status)
    }

    /// Returns the first 200 bytes of the body as text, for messages.
    pub fn excerpt(&self) -> String {
        let most = self.body.len().min(200);
        String::from_utf8_lossy(&self.body[..most])
            .trim()
            .to_owned()
    }
}

/// Header lines of a response, stored as received and searched on demand.
#[derive(Clone, Debug, Default)]
pub struct Headers(Bytes);

impl Headers {
    /// Creates headers from checked lines `name: value`, each with CR LF.
    pub(super) fn new(lines: Bytes) -> Self {
        Self(lines)
    }

    /// Creates headers from text: lines `name: value`, each with CR LF.
    pub fn of_lines(lines: &str) -> Self {
        Self(Bytes::copy_from_slice(lines.as_bytes()))
    }

    /// Returns the first header of this name, in any case. Returns `None` also if its value is not
    /// text.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut all = self.iter();
        all.find_map(|(other, value)| other.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Returns every header of this name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.iter()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Returns names and values in the received order. Values that are not text are omitted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .split(|byte| *byte == b'\n')
            .filter_map(|line| std::str::from_utf8(line).ok()?.split_once(':'))
            .map(|(name, value)| (name, value.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_in_any_case() {
        let lines = b"Content-Type: text/plain\r\nx-a:1\r\nX-A:  2 \r\nx-b: \xff\r\n";
        let headers = Headers::new(Bytes::from_static(lines));
        assert_eq!(headers.get("content-type"), Some("text/plain"));
        assert_eq!(headers.all("x-a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((headers.get("x-b"), headers.get("x-c")), (None, None));
        assert_eq!(headers.iter().count(), 3);
    }
}

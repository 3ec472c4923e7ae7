use bytes::Bytes;

use super::Handshake;
use crate::Exchange;

/// The response. It always exists: `exchange.outcome` says whether it is whole,
/// and what happened if not.
#[derive(Clone, Debug)]
pub struct Response {
    /// The cost of the request.
    pub exchange: Exchange,
    /// The status, 0 if nothing came.
    pub status: u16,
    /// The headers, as far as they came whole.
    pub headers: Headers,
    /// The body, as sent: content encodings are left alone. What had come of it
    /// if the exchange failed.
    pub body: Bytes,
    /// The TLS handshake, if the request made one.
    pub handshake: Option<Box<Handshake>>,
}

impl Response {
    /// Returns whether it is whole and its status is among these.
    pub fn is(&self, statuses: &[u16]) -> bool {
        self.exchange.outcome.is_ok() && statuses.contains(&self.status)
    }

    /// The beginning of the body as text, for messages.
    pub fn excerpt(&self) -> String {
        let most = self.body.len().min(200);
        String::from_utf8_lossy(&self.body[..most])
            .trim()
            .to_owned()
    }
}

/// The header lines of an answer: kept as they came, searched when asked.
#[derive(Clone, Debug, Default)]
pub struct Headers(Bytes);

impl Headers {
    /// Of lines `name: value`, each ended by CR LF, that have been checked.
    pub(super) fn new(lines: Bytes) -> Self {
        Self(lines)
    }

    /// Of text: lines `name: value`, each ended by CR LF.
    pub fn of_lines(lines: &str) -> Self {
        Self(Bytes::copy_from_slice(lines.as_bytes()))
    }

    /// The first header of this name, in whichever case. `None` also if its
    /// value is not text.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut all = self.iter();
        all.find_map(|(other, value)| other.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Every header of this name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.iter()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Names and values in the order they came, without those that are not text.
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

//! Recognition of the protocol that a client speaks after CONNECT. The first bytes show whether the
//! protocol names a host that the rules must check.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Rewind;

/// Protocols at the beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// A TLS handshake, or a ClientHello in the format of SSL 2.
    Tls,
    /// A request without TLS.
    Http1,
    /// The preface of HTTP/2 without TLS (RFC 9113, section 3.4).
    Http2,
    /// A protocol that names no host.
    Other,
}

/// The first byte of a TLS handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// Returns the protocol that begins with `bytes`, or `None` if more bytes are needed. After `bound`
/// bytes, text that could still be HTTP counts as HTTP.
pub(crate) fn recognise(bytes: &[u8], bound: usize) -> Option<Opening> {
    match *bytes {
        [] => None,
        [HANDSHAKE, ..] => Some(Opening::Tls),
        // A ClientHello in the format of SSL 2 (RFC 5246, section E.2), without a name.
        [0x80..=0xff, _, 1, 3, ..] => Some(Opening::Tls),
        [0x80..=0xff, _, 1] | [0x80..=0xff, _] | [0x80..=0xff] => None,
        _ => text(bytes, bound),
    }
}

/// Returns the protocol of a client that closed its side after `bytes`. Some servers respond to a
/// request line without an end, so a line that mentions HTTP counts as HTTP.
pub(crate) fn ended(bytes: &[u8]) -> Opening {
    if mentions_http(bytes) {
        Opening::Http1
    } else {
        Opening::Other
    }
}

/// Recognises HTTP by its first line, as leniently as any server might read it. The HTTP parser
/// later refuses malformed requests.
fn text(bytes: &[u8], bound: usize) -> Option<Opening> {
    let lead = bytes.iter().position(|b| !is_blank(*b) && *b != b'\n');
    let bytes_left = lead.map_or(&[][..], |lead| &bytes[lead..]);
    let end = bytes_left.iter().position(|b| *b == b'\n');
    let line = &bytes_left[..end.unwrap_or(bytes_left.len())];
    let begins = line.first().is_none_or(|b| is_token(*b));
    // Some servers accept any byte after a method and a blank.
    let after = line.iter().find(|b| is_blank(**b) || b.is_ascii_control());
    if !begins || after.is_some_and(|b| !is_blank(*b)) {
        return Some(Opening::Other);
    }
    match end {
        Some(_) if line.starts_with(b"PRI * HTTP/2") => Some(Opening::Http2),
        Some(_) if mentions_http(line) => Some(Opening::Http1),
        Some(_) => Some(Opening::Other),
        None if bytes.len() >= bound => Some(Opening::Http1),
        None => None,
    }
}

/// Returns whether the line has an HTTP version, or a URL with a host, because HTTP/0.9 has no
/// version.
fn mentions_http(line: &[u8]) -> bool {
    let has = |word: &[u8]| {
        line.windows(word.len())
            .any(|part| part.eq_ignore_ascii_case(word))
    };
    has(b"HTTP/") || has(b"HTTP://") || has(b"HTTPS://")
}

/// Returns whether a method may begin with this byte (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns whether some servers treat this byte as a space: the blanks of RFC 9112, section 3, and
/// the Unicode spaces of ISO 8859-1.
fn is_blank(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | b'\r' | 0x0b | 0x0c | 0x1c..=0x1f | 0x85 | 0xa0
    )
}

/// Client of a server that sent first. In protocols of this kind, the client's first bytes are
/// neither TLS nor HTTP. The proxy disconnects a client that sends TLS or HTTP, because the client
/// may be evading the rules.
pub(crate) struct Second {
    stream: Rewind,
    bound: usize,
    heard: bool,
}

impl Second {
    /// Wraps `stream` and checks at most `bound` of its first bytes.
    pub(crate) fn new(stream: Rewind, bound: usize) -> Self {
        Second {
            stream,
            bound,
            heard: false,
        }
    }

    /// Waits until the first bytes of the client are known to be neither TLS nor HTTP.
    fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.heard {
            let opening = match recognise(self.stream.before(), self.bound) {
                Some(opening) => opening,
                None if ready!(self.stream.poll_fill(cx))? > 0 => continue,
                None => ended(self.stream.before()),
            };
            if opening != Opening::Other {
                tracing::info!(
                    ?opening,
                    "client disconnected: the client began TLS or HTTP after the server sent first"
                );
                return Poll::Ready(Err(io::ErrorKind::PermissionDenied.into()));
            }
            self.heard = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Second {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_heard(cx))?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Second {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_told_by_their_first_bytes() {
        for (bytes, expected) in [
            (&b"\x16\x03\x01"[..], Some(Opening::Tls)),
            (b"\x80\x2e\x01\x03\x01", Some(Opening::Tls)),
            (b"\x80\x2e\x02\x03\x01", Some(Opening::Other)),
            (b"GET / HTTP/1.1\r\n", Some(Opening::Http1)),
            (b"\r\n\nGET / http/1.0\n", Some(Opening::Http1)),
            (b"GET\t/  HTTP/1.1 \r\n", Some(Opening::Http1)),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Opening::Http2)),
            (b"GET /\x01 HTTP/1.1\r\n", Some(Opening::Http1)),
            (b" \tGET / HTTP/1.1\r\n", Some(Opening::Http1)),
            (b"\xa0GET\x0b/\x1fHTTP/1.1\r\n", Some(Opening::Http1)),
            (b"GET http://a.example/\n", Some(Opening::Http1)),
            (b"GET /\x01", None),
            (b"GE\x01T / HTTP/1.1\n", Some(Opening::Other)),
            (b"SSH-2.0-OpenSSH_9.9 Debian\r\n", Some(Opening::Other)),
            (b"EHLO a.example\r\n", Some(Opening::Other)),
            (b"{\"jsonrpc\"", Some(Opening::Other)),
            (b"AMQP\0\0\x09\x01", Some(Opening::Other)),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", Some(Opening::Other)),
            (b"GET / HT", None),
            (b"\r\n", None),
            (b"\x80\x2e\x01", None),
            (b"", None),
        ] {
            assert_eq!(recognise(bytes, 64), expected, "{bytes:?}");
        }
        for (bytes, expected) in [
            (&b"GET / HTTP/1.1"[..], Opening::Http1),
            (b"GET https://a.example/", Opening::Http1),
            (b"GET / HT", Opening::Other),
            (b"STATUS", Opening::Other),
            (b"", Opening::Other),
        ] {
            assert_eq!(
                (recognise(bytes, 64), ended(bytes)),
                (None, expected),
                "{bytes:?}"
            );
        }
        assert_eq!(recognise(&[b'a'; 64], 64), Some(Opening::Http1));
        assert_eq!(recognise(&[b'\n'; 64], 64), Some(Opening::Http1));
    }
}

//! What a client says first after CONNECT, told by its first bytes: whether it
//! names a host that the rules have to know of.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Rewind;

/// What a connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// A TLS handshake, or what can be nothing else.
    Tls,
    /// A request in the clear.
    Http1,
    /// The preface of HTTP/2 in the clear (RFC 9113 3.4).
    Http2,
    /// Something that names no host.
    Other,
}

/// The first byte of a TLS handshake (RFC 8446 5.1).
const HANDSHAKE: u8 = 22;

/// What begins with `bytes`; `None`: more of them would tell. After `bound`
/// bytes it is decided: against the client, where it could still be HTTP.
pub(crate) fn recognise(bytes: &[u8], bound: usize) -> Option<Opening> {
    match *bytes {
        [] => None,
        [HANDSHAKE, ..] => Some(Opening::Tls),
        // A ClientHello in the format of SSL 2 (RFC 5246 E.2), without a name.
        [0x80..=0xff, _, 1, 3, ..] => Some(Opening::Tls),
        [0x80..=0xff, _, 1] | [0x80..=0xff, _] | [0x80..=0xff] => None,
        _ => text(bytes, bound),
    }
}

/// HTTP is told by its first line, as widely as any server might read it:
/// whoever reads it here refuses what is not well-formed.
fn text(bytes: &[u8], bound: usize) -> Option<Opening> {
    let lead = bytes.iter().position(|b| !matches!(b, b'\r' | b'\n'));
    let bytes_left = lead.map_or(&[][..], |lead| &bytes[lead..]);
    let end = bytes_left.iter().position(|b| *b == b'\n');
    let line = &bytes_left[..end.unwrap_or(bytes_left.len())];
    let begins = line.first().is_none_or(|b| is_token(*b));
    if !begins || line.iter().any(|b| is_control(*b)) {
        return Some(Opening::Other);
    }
    let http = || line.windows(5).any(|w| w.eq_ignore_ascii_case(b"HTTP/"));
    match end {
        Some(_) if line.starts_with(b"PRI * HTTP/2") => Some(Opening::Http2),
        Some(_) if http() => Some(Opening::Http1),
        Some(_) => Some(Opening::Other),
        None if bytes.len() >= bound => Some(Opening::Http1),
        None => None,
    }
}

/// Whether a method may begin with it (RFC 9110 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether no line of text has it.
fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r')
}

/// A client whose server spoke first. Protocols in which that happens do not
/// go on with TLS or HTTP: a client that does is after something else, and is
/// cut off.
pub(crate) struct Second {
    stream: Rewind,
    bound: usize,
    heard: bool,
}

impl Second {
    /// `stream`, of whose first bytes so many are looked at.
    pub(crate) fn new(stream: Rewind, bound: usize) -> Self {
        Second {
            stream,
            bound,
            heard: false,
        }
    }

    /// Ready once what the client says first is known to be harmless.
    fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.heard {
            match recognise(self.stream.before(), self.bound) {
                Some(Opening::Other) => self.heard = true,
                Some(opening) => {
                    tracing::info!(
                        ?opening,
                        "a client was cut off: its server had spoken before"
                    );
                    return Poll::Ready(Err(io::ErrorKind::PermissionDenied.into()));
                }
                // What ends so early has not named anything.
                None => self.heard = ready!(self.stream.poll_fill(cx))? == 0,
            }
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
        assert_eq!(recognise(&[b'a'; 64], 64), Some(Opening::Http1));
        assert_eq!(recognise(&[b'\n'; 64], 64), Some(Opening::Http1));
    }
}

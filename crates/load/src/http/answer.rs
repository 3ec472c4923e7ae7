//! Incremental decoder of HTTP/1.1 responses (RFC 9112).
//!
//! The decoder is stricter than RFC 9112 requires: lines end in CR LF, the length is stated once
//! and in one way, and `chunked` is the only transfer coding. A lenient load tester would measure a
//! server that does not work.

use std::mem::MaybeUninit;

use bytes::{Buf, Bytes, BytesMut};
use httparse::{ParserConfig, Status};

use super::body::{RESERVE, ReceivedBody};
use super::{Headers, kind};
use crate::Failure;

/// Limit of the bytes of a head, and of each trailer line.
pub(super) const MAX_HEAD: usize = 64 << 10;
/// Limit of header fields.
const MAX_HEADERS: usize = 256;
/// Limit of the bytes of a line with the size of a chunk.
const MAX_CHUNK_LINE: usize = 256;
/// Limit of interim responses (1xx) before the final response.
const MAX_INTERIM: u32 = 16;
/// Minimum of a body that is read into its buffer without another copy, in bytes.
const DIRECT: u64 = 32 << 10;

/// Decoder of one response.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) body: ReceivedBody<'a>,
    /// Whether the connection can serve another request.
    pub(super) keep: bool,
    state: State,
    /// Received part of an incomplete line or head.
    partial: Vec<u8>,
    to_head: bool,
    interim: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Head,
    /// Number of remaining bytes of the body.
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    UntilClose,
    Done,
}

/// State after an input was decoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Progress {
    /// The response is incomplete.
    More,
    /// An interim response has ended.
    Interim,
    /// The response is complete.
    Done,
}

impl<'a> Answer<'a> {
    /// Creates a decoder for the response to a request. `to_head` is true for HEAD; `body` receives
    /// the body.
    pub(super) fn new(to_head: bool, body: ReceivedBody<'a>) -> Self {
        Self {
            status: 0,
            headers: Headers::default(),
            body,
            keep: false,
            state: State::Head,
            partial: Vec::new(),
            to_head,
            interim: 0,
        }
    }

    /// Consumes the bytes of the response from the front of `input`.
    pub(super) fn feed(&mut self, input: &mut &[u8]) -> Result<Progress, Failure> {
        loop {
            match self.state {
                State::Done => return Ok(Progress::Done),
                _ if input.is_empty() => return Ok(Progress::More),
                State::Head => {
                    if let Some(interim) = self.head(input)? {
                        return Ok(interim);
                    }
                }
                State::Length(left) => {
                    self.state = match self.take(input, left)? {
                        0 => State::Done,
                        left => State::Length(left),
                    }
                }
                State::UntilClose => _ = self.take(input, u64::MAX)?,
                State::ChunkSize => self.chunk_size(input)?,
                State::Chunk(left) => {
                    self.state = match self.take(input, left)? {
                        0 => State::ChunkEnd,
                        left => State::Chunk(left),
                    }
                }
                State::ChunkEnd => self.chunk_end(input)?,
                State::Trailers => self.trailers(input)?,
            }
        }
    }

    /// Handles the end of the connection.
    pub(super) fn eof(&mut self) -> Result<(), Failure> {
        self.keep = false;
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            State::Head if self.partial.is_empty() => Err(Failure::new(
                kind::RESET,
                "the server closed the connection without a response",
            )),
            State::Head => Err(Failure::new(
                kind::RESET,
                "the server closed the connection within the head of its response",
            )),
            State::Length(left) => Err(Failure::new(
                kind::BODY,
                format!("the server closed the connection {left} bytes before the end of the body"),
            )),
            _ => Err(Failure::new(
                kind::BODY,
                "the server closed the connection before the last chunk of the body",
            )),
        }
    }

    /// Returns the buffer into which the next bytes can be read directly, and their number.
    pub(super) fn direct(&mut self) -> Result<Option<(&mut BytesMut, usize)>, Failure> {
        let State::Length(left @ DIRECT..) = self.state else {
            return Ok(None);
        };
        let most = usize::try_from(left).map_or(RESERVE, |left| left.min(RESERVE));
        let buffer = self.body.buffer(most.min(64 << 10))?;
        Ok(buffer.map(|buffer| (buffer, most)))
    }

    /// Records the bytes that were read into the buffer of [`direct`](Self::direct).
    pub(super) fn directly(&mut self, read: usize) {
        if let State::Length(left) = &mut self.state {
            *left = left.saturating_sub(read as u64);
            if *left == 0 {
                self.state = State::Done;
            }
        }
        self.body.length += read as u64;
    }

    /// Returns whether the response is complete.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn head(&mut self, input: &mut &[u8]) -> Result<Option<Progress>, Failure> {
        let interim = if self.partial.is_empty() {
            let Some((length, interim)) = self.parse(input)? else {
                self.set_aside(input)?;
                return Ok(None);
            };
            input.advance(length);
            interim
        } else {
            let before = self.partial.len();
            let taken = input.len().min(MAX_HEAD + 1 - before);
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(&input[..taken]);
            let Some((length, interim)) = self.parse(&whole)? else {
                self.partial = whole;
                input.advance(taken);
                return match self.partial.len() {
                    0..=MAX_HEAD => Ok(None),
                    _ => Err(protocol("its head is longer than 64 KiB")),
                };
            };
            input.advance(length.saturating_sub(before));
            interim
        };
        if !interim {
            return Ok(None);
        }
        self.interim += 1;
        match self.interim {
            0..=MAX_INTERIM => Ok(Some(Progress::Interim)),
            _ => Err(protocol("it has more than 16 interim responses")),
        }
    }

    fn set_aside(&mut self, input: &mut &[u8]) -> Result<(), Failure> {
        if input.len() > MAX_HEAD {
            return Err(protocol("its head is longer than 64 KiB"));
        }
        self.partial.extend_from_slice(input);
        input.advance(input.len());
        Ok(())
    }

    /// Parses the head at the front of `bytes`. Returns its length, and whether it is interim.
    fn parse(&mut self, bytes: &[u8]) -> Result<Option<(usize, bool)>, Failure> {
        if matches!(bytes.first(), Some(b'\r' | b'\n')) {
            return Err(protocol("it begins with an empty line"));
        }
        let mut space = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut head = httparse::Response::new(&mut []);
        let parsed = ParserConfig::default()
            .parse_response_with_uninit_headers(&mut head, bytes, &mut space);
        let length = match parsed {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(None),
            Err(error) => return Err(malformed(error, bytes)),
        };
        let status = head.code.unwrap_or_default();
        if !(100..=599).contains(&status) {
            return Err(protocol(format!(
                "its status is {status}, expected 100 to 599"
            )));
        }
        if status == 101 {
            return Err(protocol(
                "101 Switching Protocols, but no upgrade was requested",
            ));
        }
        let framing = Framing::of(&head)?;
        let lines = lines(&bytes[..length])?;
        if status < 200 {
            return Ok(Some((length, true)));
        }
        self.status = status;
        self.keep = framing.keep;
        self.headers = Headers::new(Bytes::copy_from_slice(lines));
        self.body.begin(&self.headers);
        self.state = self.body_of(status, &framing)?;
        Ok(Some((length, false)))
    }

    /// Returns the state after the head (RFC 9112, section 6.3).
    fn body_of(&mut self, status: u16, framing: &Framing) -> Result<State, Failure> {
        if self.to_head || status == 204 || status == 304 {
            return Ok(State::Done);
        }
        if framing.chunked {
            return Ok(State::ChunkSize);
        }
        match framing.length {
            Some(0) => Ok(State::Done),
            Some(length) => {
                self.body.announce(length)?;
                Ok(State::Length(length))
            }
            None => {
                self.keep = false;
                Ok(State::UntilClose)
            }
        }
    }

    /// Consumes up to `most` bytes of the body. Returns the number of bytes that are still missing.
    fn take(&mut self, input: &mut &[u8], most: u64) -> Result<u64, Failure> {
        let taken = usize::try_from(most).map_or(input.len(), |most| most.min(input.len()));
        self.body.push(&self.headers, &input[..taken])?;
        input.advance(taken);
        Ok(most - taken as u64)
    }

    /// Parses `1f;name=value` CR LF and ignores extensions.
    fn chunk_size(&mut self, input: &mut &[u8]) -> Result<(), Failure> {
        if !self.line(input, MAX_CHUNK_LINE)? {
            return Ok(());
        }
        let line = self.partial.as_slice();
        let line = &line[..line.len() - 2];
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
        let digits = &line[..digits.count()];
        let extension = line[digits.len()..].trim_ascii_start();
        if digits.is_empty() || digits.len() > 15 || !matches!(extension.first(), None | Some(b';'))
        {
            let line = line.escape_ascii().to_string();
            return Err(protocol(format!("`{line}` is not the size of a chunk")));
        }
        // At most 15 hexadecimal digits: neither step can fail.
        let size = std::str::from_utf8(digits).unwrap_or_default();
        let size = u64::from_str_radix(size, 16).unwrap_or(u64::MAX);
        self.partial.clear();
        self.body.announce(size)?;
        self.state = match size {
            0 => State::Trailers,
            size => State::Chunk(size),
        };
        Ok(())
    }

    fn chunk_end(&mut self, input: &mut &[u8]) -> Result<(), Failure> {
        if self.line(input, 2)? {
            if self.partial != b"\r\n" {
                return Err(protocol("a chunk is longer than its size"));
            }
            self.partial.clear();
            self.state = State::ChunkSize;
        }
        Ok(())
    }

    /// Consumes and discards all lines up to an empty line.
    fn trailers(&mut self, input: &mut &[u8]) -> Result<(), Failure> {
        if self.line(input, MAX_HEAD)? {
            if self.partial == b"\r\n" {
                self.state = State::Done;
            } else if !self.partial.contains(&b':') {
                return Err(protocol("a trailer is not `name: value`"));
            }
            self.partial.clear();
        }
        Ok(())
    }

    /// Returns whether `partial` contains a complete line, which ends in CR LF.
    fn line(&mut self, input: &mut &[u8], most: usize) -> Result<bool, Failure> {
        let end = input.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(input.len(), |end| end + 1);
        if self.partial.len() + taken > most {
            return Err(protocol(match most {
                2 => "a chunk is longer than its size",
                _ => "a line within the body is too long",
            }));
        }
        self.partial.extend_from_slice(&input[..taken]);
        input.advance(taken);
        match (end, self.partial.ends_with(b"\r\n")) {
            (Some(_), false) => Err(protocol("a line ends without CR")),
            (end, _) => Ok(end.is_some()),
        }
    }
}

/// Length of the body, and whether the connection stays open.
struct Framing {
    length: Option<u64>,
    chunked: bool,
    keep: bool,
}

impl Framing {
    fn of(head: &httparse::Response<'_, '_>) -> Result<Self, Failure> {
        let mut framing = Framing {
            length: None,
            chunked: false,
            keep: head.version == Some(1),
        };
        for header in head.headers.iter() {
            // Most headers are skipped by the length of their names.
            match header.name.len() {
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    framing.content_length(header.value)?;
                }
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                    if framing.chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                        let value = header.value.escape_ascii();
                        return Err(protocol(format!(
                            "its transfer-encoding is `{value}`, not `chunked`"
                        )));
                    }
                    framing.chunked = true;
                }
                10 if header.name.eq_ignore_ascii_case("connection") => {
                    framing.connection(header.value);
                }
                _ => {}
            }
        }
        match framing {
            // RFC 9112, section 6.3: request smuggling, or an error.
            Framing {
                length: Some(_),
                chunked: true,
                ..
            } => Err(protocol("it has both content-length and transfer-encoding")),
            _ => Ok(framing),
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Failure> {
        let number = std::str::from_utf8(value).ok().filter(|text| {
            !text.is_empty() && text.len() < 19 && text.bytes().all(|byte| byte.is_ascii_digit())
        });
        let Some(length) = number.and_then(|text| text.parse().ok()) else {
            let value = value.escape_ascii();
            return Err(protocol(format!(
                "its content-length `{value}` is not a number"
            )));
        };
        match self.length.replace(length) {
            Some(other) if other != length => Err(protocol("its content-length has two values")),
            _ => Ok(()),
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                self.keep = false;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep = true;
            }
        }
    }
}

/// Returns the header lines of a head, without the status line and the empty line.
fn lines(head: &[u8]) -> Result<&[u8], Failure> {
    let mut ends = head.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    if ends.any(|(at, _)| at == 0 || head[at - 1] != b'\r') {
        return Err(protocol("a line of its head ends without CR"));
    }
    let first = head.iter().position(|byte| *byte == b'\n').unwrap_or(0) + 1;
    Ok(head.get(first..head.len() - 2).unwrap_or_default())
}

fn malformed(error: httparse::Error, bytes: &[u8]) -> Failure {
    use httparse::Error;
    let reason = match error {
        Error::HeaderName => "a header's name is malformed",
        Error::HeaderValue => "a header's value is malformed",
        Error::Status => "its status is malformed",
        Error::TooManyHeaders => "it has more than 256 header fields",
        Error::Version => "it does not begin with HTTP/1.1",
        Error::NewLine | Error::Token => "its head is malformed",
    };
    let begin = bytes[..bytes.len().min(40)].escape_ascii();
    protocol(format!("{reason}; it begins `{begin}`"))
}

fn protocol(reason: impl AsRef<str>) -> Failure {
    Failure::new(
        kind::PROTOCOL,
        format!("not a valid HTTP response: {}", reason.as_ref()),
    )
}

#[cfg(test)]
mod tests;

use std::{
    io::{self, ErrorKind, IoSlice, Read, Write},
    time::Instant,
};

use crate::endpoint::{Endpoint, Stream};

/// Pieces of a request, written one after the other.
pub(crate) type Pieces<'a> = [&'a [u8]; 4];

/// A keep-alive HTTP/1.1 connection with at most one request in flight. Bodies are counted, not
/// kept.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// The request in flight: its number and its intended start.
    pub(crate) request: Option<(u32, Instant)>,
    /// Bytes that the socket has not accepted yet.
    unsent: Vec<u8>,
    /// The beginning of a response whose header is incomplete.
    header: Vec<u8>,
    response: Option<Response>,
}

/// A response whose header has been read.
#[derive(Clone, Copy)]
struct Response {
    status: u16,
    remaining: usize,
}

impl Connection {
    pub(crate) fn open(endpoint: &Endpoint) -> io::Result<Self> {
        Ok(Self {
            stream: endpoint.connect()?,
            request: None,
            unsent: Vec::new(),
            header: Vec::new(),
            response: None,
        })
    }

    /// Sends a request, or as much of it as the socket accepts.
    pub(crate) fn send(&mut self, id: u32, due: Instant, pieces: Pieces<'_>) -> io::Result<()> {
        self.request = Some((id, due));
        let slices = pieces.map(IoSlice::new);
        let mut sent = match self.stream.write_vectored(&slices) {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        for piece in pieces {
            let skip = sent.min(piece.len());
            sent -= skip;
            self.unsent.extend_from_slice(&piece[skip..]);
        }
        Ok(())
    }

    /// Sends more of the request after the socket became writable.
    pub(crate) fn writable(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        match self.stream.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads from the socket. Returns the status of the response after its last byte.
    pub(crate) fn readable(&mut self, buffer: &mut [u8]) -> io::Result<Option<u16>> {
        loop {
            let read = match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            if let Some(status) = self.take(&buffer[..read])? {
                return Ok(Some(status));
            }
            // A read that does not fill the buffer has emptied the socket. Polling is
            // edge-triggered, so the next bytes cause another event.
            if read < buffer.len() && self.stream.reads_all() {
                return Ok(None);
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) -> io::Result<Option<u16>> {
        let mut response = match self.response {
            Some(response) => response,
            None => {
                // The header is almost always complete in one read, and then nothing is copied.
                let earlier = self.header.len();
                if earlier > 0 {
                    self.header.extend_from_slice(bytes);
                }
                let so_far = if earlier > 0 { &self.header[..] } else { bytes };
                let Some(length) = header_length(so_far) else {
                    if earlier == 0 {
                        self.header.extend_from_slice(bytes);
                    }
                    return Ok(None);
                };
                let response = parse_header(&so_far[..length])?;
                bytes = &bytes[length - earlier..];
                self.header.clear();
                response
            }
        };
        let over = bytes.len() > response.remaining;
        if over {
            return Err(io::Error::other(
                "more bytes arrived than Content-Length announced",
            ));
        }
        response.remaining -= bytes.len();
        self.response = (response.remaining > 0).then_some(response);
        Ok((response.remaining == 0).then_some(response.status))
    }
}

fn header_length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(end + 4)
}

fn parse_header(header: &[u8]) -> io::Result<Response> {
    let bad = || io::Error::other("not an HTTP/1.1 response with a Content-Length");
    let status = header.get(9..12).and_then(number).ok_or_else(bad)?;
    let mut lines = header.split(|byte| *byte == b'\n');
    let length = lines.find_map(|line| {
        let (name, value) = line.split_at_checked(15)?;
        name.eq_ignore_ascii_case(b"content-length:")
            .then_some(value)
    });
    let remaining = length
        .and_then(|value| number(value.trim_ascii()))
        .ok_or_else(bad)?;
    Ok(Response {
        status: status as u16,
        remaining,
    })
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (Connection, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = Connection::open(&listener.local_addr().unwrap().into()).unwrap();
        (connection, listener.accept().unwrap().0)
    }

    fn read(connection: &mut Connection) -> io::Result<Option<u16>> {
        std::thread::sleep(std::time::Duration::from_millis(20));
        connection.readable(&mut [0; 64])
    }

    #[test]
    fn responses_arrive_in_any_pieces() {
        let (mut connection, mut server) = pair();
        let response = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\n\r\nhello";
        for cut in [1, 12, 30, 38, 40, response.len() - 1] {
            server.write_all(&response[..cut]).unwrap();
            assert_eq!(read(&mut connection).unwrap(), None, "cut at {cut}");
            server.write_all(&response[cut..]).unwrap();
            assert_eq!(read(&mut connection).unwrap(), Some(200), "cut at {cut}");
        }
        let long = format!(
            "HTTP/1.1 503 X\r\nContent-Length: 200\r\n\r\n{}",
            "x".repeat(200)
        );
        server.write_all(long.as_bytes()).unwrap();
        assert_eq!(read(&mut connection).unwrap(), Some(503));
    }

    #[test]
    fn what_is_no_response_is_an_error() {
        for bad in ["HTTP/1.1 200 OK\r\n\r\n", "nonsense at length\r\n\r\n"] {
            let (mut connection, mut server) = pair();
            server.write_all(bad.as_bytes()).unwrap();
            assert!(read(&mut connection).is_err(), "{bad}");
        }
        let (mut connection, server) = pair();
        drop(server);
        assert!(read(&mut connection).is_err());
    }

    #[test]
    fn pieces_are_sent_in_order_however_slowly_they_are_taken() {
        let (mut connection, mut server) = pair();
        let big = vec![b'b'; 8 << 20];
        connection
            .send(7, Instant::now(), [b"a", &big, b"", b"c"])
            .unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; (8 << 20) + 2];
            server.read_exact(&mut all).map(|()| all)
        });
        while !connection.unsent.is_empty() {
            connection.writable().unwrap();
        }
        let all = reader.join().unwrap().unwrap();
        assert!(all.starts_with(b"ab") && all.ends_with(b"bc"));
    }
}

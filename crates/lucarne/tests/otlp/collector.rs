//! A collector that records the requests that it receives, and a decoder of protobuf.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request of the exporter.
#[derive(Clone)]
pub(crate) struct Received {
    pub(crate) path: String,
    /// Header lines, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// A collector on the loopback interface.
pub(crate) struct Collector {
    pub(crate) endpoint: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::responding([])
    }

    /// Starts a collector that sends these responses first, and accepts all later requests.
    pub(crate) fn responding<const N: usize>(first: [Vec<u8>; N]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let all = Arc::clone(&received);
        let responses = Arc::new(Mutex::new(VecDeque::from(first)));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (all, responses) = (Arc::clone(&all), Arc::clone(&responses));
                thread::spawn(move || serve(stream.unwrap(), &all, &responses));
            }
        });
        Collector { endpoint, received }
    }

    /// Returns the requests so far for this path.
    pub(crate) fn received(&self, path: &str) -> Vec<Received> {
        let all = self.received.lock().unwrap();
        all.iter().filter(|it| it.path == path).cloned().collect()
    }
}

/// Returns a response with these header fields.
pub(crate) fn response(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{fields}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Responds to the requests of one connection. A connection that breaks ends the thread.
fn serve(
    mut stream: TcpStream,
    all: &Mutex<Vec<Received>>,
    responses: &Mutex<VecDeque<Vec<u8>>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let path = head.split(' ').nth(1)?.to_owned();
        let head = head.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1)?.lines().next()?;
        let mut body = vec![0; length.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        all.lock().ok()?.push(Received { path, head, body });
        let next = responses.lock().ok()?.pop_front();
        let response = next.unwrap_or_else(|| response("200 OK", "", b""));
        stream.write_all(&response).ok()?;
    }
}

/// A message, decoded without its definition. Numbers of fields in the tests are from
/// `opentelemetry-proto`.
#[derive(Clone, Debug)]
pub(crate) struct Decoded(Vec<(u64, Value)>);

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Decoded {
    pub(crate) fn of(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Value::Number(varint(&mut bytes)),
                1 => Value::Number(u64::from_le_bytes(taken(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes);
                    Value::Bytes(taken(&mut bytes, length as usize).to_vec())
                }
                other => panic!("unexpected wire type {other}"),
            };
            fields.push((key >> 3, value));
        }
        Decoded(fields)
    }

    fn values(&self, field: u64) -> impl Iterator<Item = &Value> {
        let fields = self.0.iter().filter(move |(number, _)| *number == field);
        fields.map(|(_, value)| value)
    }

    /// Returns the messages in a repeated field.
    pub(crate) fn messages(&self, field: u64) -> Vec<Decoded> {
        let bytes = self.values(field).map(|value| match value {
            Value::Bytes(bytes) => Decoded::of(bytes),
            Value::Number(_) => panic!("field {field} is a number"),
        });
        bytes.collect()
    }

    pub(crate) fn bytes(&self, field: u64) -> Vec<u8> {
        match self.values(field).next() {
            Some(Value::Bytes(bytes)) => bytes.clone(),
            other => panic!("field {field} is {other:?}"),
        }
    }

    pub(crate) fn has(&self, field: u64) -> bool {
        self.values(field).next().is_some()
    }

    pub(crate) fn text(&self, field: u64) -> String {
        String::from_utf8(self.bytes(field)).unwrap()
    }

    pub(crate) fn number(&self, field: u64) -> u64 {
        match self.values(field).next() {
            Some(Value::Number(number)) => *number,
            other => panic!("field {field} is {other:?}"),
        }
    }

    /// Returns the text or number of the attribute with this key, in a field of `KeyValue`.
    pub(crate) fn attribute(&self, field: u64, key: &str) -> String {
        let attributes = self.messages(field);
        let found = attributes.iter().find(|it| it.text(1) == key);
        let value = &found.unwrap_or_else(|| panic!("no {key}")).messages(2)[0];
        if value.has(1) {
            value.text(1)
        } else {
            value.number(3).to_string()
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = taken(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number has more than 64 bits");
}

fn taken<'b>(bytes: &mut &'b [u8], count: usize) -> &'b [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

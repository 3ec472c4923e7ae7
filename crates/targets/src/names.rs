use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;

/// A DNS server (RFC 1035, over TCP) that resolves every name to 127.0.0.1, so that an ACME server
/// finds the responder to its challenges.
#[derive(Debug)]
pub struct Names {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Type A, class IN; and the lifetime of responses in seconds.
const A: [u8; 2] = [0, 1];
const IN: [u8; 2] = [0, 1];
const TTL: u32 = 60;

impl Names {
    /// Starts the server on a free port.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(stream) = stream {
                    thread::spawn(move || converse(stream));
                }
            }
        });
        Ok(Self {
            address,
            over,
            thread: Some(thread),
        })
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Another connection wakes the thread, which checks the flag.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads queries and sends responses, each after its length (RFC 1035, section 4.2.2).
fn converse(mut stream: TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    loop {
        let mut length = [0; 2];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut question).is_err() {
            return;
        }
        let Some(answer) = answer(&question) else {
            return;
        };
        let length = (answer.len() as u16).to_be_bytes();
        if stream.write_all(&[&length[..], &answer].concat()).is_err() {
            return;
        }
    }
}

/// Responds with 127.0.0.1 to a query for an IPv4 address, and without an address to other queries.
/// Returns `None` for an invalid query.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = question.split_at_checked(12)?;
    // Exactly one question (RFC 1035, section 4.1.1).
    if head[4..6] != [0, 1] {
        return None;
    }
    let mut end = 0;
    loop {
        match usize::from(*rest.get(end)?) {
            0 => break,
            length => end += 1 + length,
        }
    }
    let asked = rest.get(..end + 5)?;
    let is_address = asked[end + 1..] == [A, IN].concat()[..];
    let mut answer = head[..2].to_vec();
    // An authoritative response without error: one question and this many answer records.
    answer.extend([0x84, 0, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    answer.extend(asked);
    if is_address {
        answer.extend([0xc0, 12]); // the name in the question
        answer.extend([A, IN].concat());
        answer.extend(TTL.to_be_bytes());
        answer.extend([0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_here() {
        let mut question = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        question.extend(b"\x01a\x07example\x04test\0");
        let with = |kind: u8| [&question[..], &[0, kind, 0, 1]].concat();
        let a = answer(&with(1)).unwrap();
        assert_eq!(
            (&a[..2], &a[a.len() - 4..]),
            (&[7, 7][..], &[127, 0, 0, 1][..])
        );
        let aaaa = answer(&with(28)).unwrap();
        assert_eq!((aaaa[7], aaaa.len()), (0, with(28).len()));
        assert!(answer(&question).is_none() && answer(b"x").is_none());
    }
}

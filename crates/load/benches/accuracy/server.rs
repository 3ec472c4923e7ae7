//! A server with defined delays, which records when it sent each response.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep_until;

/// A time without responses, relative to the first request.
#[derive(Clone, Copy)]
pub(crate) struct Stall {
    pub(crate) begin: Duration,
    pub(crate) length: Duration,
}

/// Delay of the first byte, and delay from the first to the last byte.
type Delays = fn(u64) -> (Duration, Duration);

#[derive(Default)]
struct Notes {
    first: Option<Instant>,
    /// Number of the request, and the time just before the last byte of the response was written.
    answered: Vec<(u64, Instant)>,
    /// Time from the request to the first byte, and time from the first to the last byte.
    phases: Vec<(Duration, Duration)>,
}

/// Server on a separate thread, which ends with the process.
pub(crate) struct Server {
    address: SocketAddr,
    notes: Arc<Mutex<Notes>>,
}

impl Server {
    /// Responds to the request `/n` after `delays(n)`.
    pub(crate) fn start(delays: Delays, stall: Option<Stall>) -> Self {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let notes = Arc::new(Mutex::new(Notes::default()));
        let shared = notes.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(socket).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    let notes = shared.clone();
                    tokio::spawn(async move {
                        // The connection ends when its client disconnects.
                        let _ = connection(stream, notes, delays, stall).await;
                    });
                }
            });
        });
        Server { address, notes }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of each request, and the time just before the last byte of its response.
    pub(crate) fn answered(&self) -> Vec<(u64, Instant)> {
        self.notes.lock().unwrap().answered.clone()
    }

    /// Returns the times of the first byte and of the rest, without the network.
    pub(crate) fn phases(&self) -> Vec<(Duration, Duration)> {
        self.notes.lock().unwrap().phases.clone()
    }
}

async fn connection(
    mut stream: TcpStream,
    notes: Arc<Mutex<Notes>>,
    delays: Delays,
    stall: Option<Stall>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = Vec::new();
    loop {
        request.clear();
        while !request.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        let asked = Instant::now();
        let number = number(&request);
        let first = *notes.lock().unwrap().first.get_or_insert(asked);
        let (wait, rest) = delays(number);
        sleep_until(due(asked + wait, first, stall).into()).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n";
        let mut last = [&head[..], b"ok\n"].concat();
        let mut head_sent = Instant::now();
        if !rest.is_zero() {
            let end = last.split_off(last.len() - 2);
            stream.write_all(&last).await?;
            head_sent = Instant::now();
            sleep_until((head_sent + rest).into()).await;
            last = end;
        }
        // Write the note before the last byte: a client with the complete response finds the note.
        let sent = Instant::now();
        {
            let mut notes = notes.lock().unwrap();
            notes.answered.push((number, sent));
            notes.phases.push((head_sent - asked, sent - head_sent));
        }
        stream.write_all(&last).await?;
    }
}

/// Returns the time at which a response may be sent.
fn due(ready: Instant, first: Instant, stall: Option<Stall>) -> Instant {
    let Some(stall) = stall else { return ready };
    let (begin, end) = (first + stall.begin, first + stall.begin + stall.length);
    if (begin..end).contains(&ready) {
        end
    } else {
        ready
    }
}

fn number(request: &[u8]) -> u64 {
    let text = std::str::from_utf8(request).unwrap();
    let path = text.split(' ').nth(1).unwrap();
    path.trim_start_matches('/').parse().unwrap()
}

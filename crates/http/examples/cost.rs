//! Measures the cost of a request for the server, including system calls.
//!
//!     cargo run --release -p lucarne-http --example cost [seconds per case]
//!
//! One thread serves, another drives 64 keep-alive connections. The result is the CPU time of the
//! serving thread alone, as measured by the kernel.
#![allow(clippy::unwrap_used)]

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lucarne_http::Limits;
use rustix::time::{ClockId, clock_gettime};
use support::{Server, TestLog};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 64;

fn main() {
    let seconds = std::env::args()
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(3);
    let (ready, started) = mpsc::channel();
    let cpu = Arc::new(AtomicU64::new(0));
    let sampled = cpu.clone();
    std::thread::spawn(move || runtime().block_on(server(ready, sampled)));
    let (address, body): (SocketAddr, String) = started.recv().unwrap();

    let post = |body: &str| {
        format!(
            "POST /demo/ct/v1/add-chain HTTP/1.1\r\nhost: x\r\nuser-agent: cost\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let get = |path: &str, more: &str| {
        format!("GET /demo/{path} HTTP/1.1\r\nhost: x\r\nuser-agent: cost\r\n{more}\r\n")
    };
    let gzip = "accept-encoding: gzip\r\n";
    let cases = [
        ("checkpoint", get("checkpoint", gzip)),
        ("hash tile", get("tile/0/000", gzip)),
        ("partial hash tile", get("tile/0/001.p/10", gzip)),
        ("data tile, gzip", get("tile/data/000", gzip)),
        ("404", get("tile/0/900", gzip)),
        ("add-chain, a duplicate", post(&body)),
        ("add-chain, not base64", post(&body.replace("\"MI", "\"!!"))),
    ];
    println!(
        "{:24} {:>10} {:>8} {:>12}",
        "", "bytes", "µs CPU", "requests/s"
    );
    for (name, request) in cases {
        let case = runtime().block_on(load(address, request, Duration::from_secs(seconds), &cpu));
        let (bytes, micros, rate) = case;
        println!("{name:24} {bytes:>10} {micros:>8.2} {rate:>12.0}");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn server(ready: mpsc::Sender<(SocketAddr, String)>, cpu: Arc<AtomicU64>) {
    let mut log = TestLog::start("demo").await;
    log.scts = 2;
    log.fill(300).await;
    let chain = log.chain("again.example");
    let server = Server::start(vec![log.log.clone()], Limits::default()).await;
    let body = chain.to_json();
    assert_eq!(
        server
            .post("/demo/ct/v1/add-chain", body.as_bytes())
            .await
            .status,
        200
    );
    ready.send((server.address, body)).unwrap();
    loop {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        cpu.store(
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
            Ordering::SeqCst,
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn load(
    address: SocketAddr,
    request: String,
    time: Duration,
    cpu: &AtomicU64,
) -> (usize, f64, f64) {
    let request: Arc<[u8]> = request.into_bytes().into();
    let (count, stop) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (mut clients, mut length) = (Vec::new(), 0);
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(&request).await.unwrap();
        let mut answer = vec![0; 1 << 20];
        length = whole(&mut stream, &mut answer).await;
        let (request, count, stop) = (request.clone(), count.clone(), stop.clone());
        clients.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                stream.write_all(&request).await.unwrap();
                whole(&mut stream, &mut answer).await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = (
        cpu.load(Ordering::SeqCst),
        count.load(Ordering::SeqCst),
        Instant::now(),
    );
    tokio::time::sleep(time).await;
    let used = cpu.load(Ordering::SeqCst) - before.0;
    let requests = count.load(Ordering::SeqCst) - before.1;
    let rate = requests as f64 / before.2.elapsed().as_secs_f64();
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    (length, used as f64 / 1e3 / requests as f64, rate)
}

/// Reads one response and returns its length.
async fn whole(stream: &mut TcpStream, buffer: &mut [u8]) -> usize {
    let (mut read, mut due) = (0, None);
    while due.is_none_or(|due| read < due) {
        let n = stream.read(&mut buffer[read..]).await.unwrap();
        assert!(
            n > 0,
            "closed: {}",
            String::from_utf8_lossy(&buffer[..read])
        );
        read += n;
        due = due.or_else(|| {
            let end = buffer[..read].windows(4).position(|w| w == b"\r\n\r\n")?;
            let head = std::str::from_utf8(&buffer[..end]).unwrap();
            let (_, length) = head.split_once("content-length: ")?;
            let length: usize = length.split('\r').next()?.parse().ok()?;
            Some(end + 4 + length)
        });
    }
    read
}

//! Other places that may have seen a log's checkpoint.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lucarne_tlog::Hash;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::aside::Aside;
use crate::common::site::Site;

/// The response of a place.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A checkpoint, with these bytes.
    Checkpoint(Vec<u8>),
    NotFound,
    /// No response.
    Silence,
    /// An infinite response, byte by byte.
    Trickle,
    /// More bytes than a checkpoint has.
    Flood,
}

/// A mirror of a log, under `/mirror/`.
pub(crate) struct Elsewhere {
    server: Aside,
    answer: Arc<Mutex<Answer>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Elsewhere {
    pub(crate) fn new(answer: Answer) -> Elsewhere {
        let answer = Arc::new(Mutex::new(answer));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answers, noted) = (answer.clone(), asked.clone());
        let server = Aside::serve(move |stream| {
            let answer = answers.lock().unwrap().clone();
            let noted = noted.clone();
            async move { serve(stream, answer, &noted).await }
        });
        Elsewhere {
            server,
            answer,
            asked,
        }
    }

    /// The monitoring prefix of the mirror.
    pub(crate) fn prefix(&self) -> String {
        format!("http://{}/mirror", self.server.address)
    }

    /// The URL of the mirror's checkpoint.
    pub(crate) fn url(&self) -> String {
        format!("{}/checkpoint", self.prefix())
    }

    pub(crate) fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// The requested paths.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, answer: Answer, asked: &Mutex<Vec<String>>) {
    let mut request = vec![0; 4096];
    let length = stream.read(&mut request).await.unwrap_or(0);
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap().push(path);
    let head = |status: &str, length: usize| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")
    };
    let whole = match answer {
        Answer::Checkpoint(note) => [head("200 OK", note.len()).into_bytes(), note].concat(),
        Answer::NotFound => head("404 Not Found", 0).into_bytes(),
        Answer::Flood => [head("200 OK", 1 << 20).into_bytes(), vec![b'x'; 1 << 20]].concat(),
        Answer::Silence => return std::future::pending().await,
        Answer::Trickle => return trickle(stream, head("200 OK", 1 << 16)).await,
    };
    let _ = stream.write_all(&whole).await;
    let _ = stream.shutdown().await;
}

async fn trickle(mut stream: TcpStream, head: String) {
    let _ = stream.write_all(head.as_bytes()).await;
    while stream.write_all(b"x").await.is_ok() {
        // Shorter than a timeout between two bytes. If it is longer on a busy machine, the request
        // fails as well.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Signs a checkpoint of log `ill` for a tree that the log does not have.
pub(crate) fn forged(site: &Site, size: u64, timestamp_ms: u64) -> Vec<u8> {
    let origin = format!("{}/ill", site.address());
    let key = site.key("ill");
    let note = key.sign_checkpoint(&origin, size, &Hash([7; 32]), timestamp_ms);
    note.unwrap().into_bytes()
}

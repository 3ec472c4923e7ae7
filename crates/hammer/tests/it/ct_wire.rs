//! What the CT scenarios say on the wire: tokens, version of HTTP, and how long they wait.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lucarne_hammer::ct;
use lucarne_hammer::ct::options::{Http, Span};
use lucarne_load::PrepareError;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::ct_scenarios::{Logs, run};

/// Passes connections on, and keeps what clients say.
struct Wire {
    address: SocketAddr,
    to: Arc<OnceLock<SocketAddr>>,
    /// Of each connection.
    said: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Wire {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = Wire {
            address: listener.local_addr().unwrap(),
            to: Arc::default(),
            said: Arc::default(),
        };
        let (to, said) = (wire.to.clone(), wire.said.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = {
                    let mut said = said.lock();
                    said.push(Vec::new());
                    said.len() - 1
                };
                let server = TcpStream::connect(to.get().unwrap()).await.unwrap();
                tokio::spawn(pass(client, server, said.clone(), number));
            }
        });
        wire
    }

    /// A log that is reached this way alone.
    async fn log(&self) -> Logs {
        let address = self.address;
        let logs = Logs::start(&["a"], |config| {
            config.origin = format!("{address}/a");
            config.submission_prefix = format!("http://{address}/a/");
            config.monitoring_prefix = config.submission_prefix.clone();
        })
        .await;
        self.to.set(logs.address).unwrap();
        logs
    }

    fn url(&self) -> String {
        format!("http://{}/a", self.address)
    }

    /// The path of each request over HTTP/1.1, and its token.
    fn requests(&self) -> Vec<(String, Option<String>)> {
        let mut requests: Vec<(String, Option<String>)> = Vec::new();
        for said in self.said.lock().iter() {
            // A body, which has no line ends, stands before the next request line.
            for line in String::from_utf8_lossy(said).split("\r\n") {
                if let Some(line) = line.strip_suffix(" HTTP/1.1") {
                    let path = line.rsplit(' ').next().unwrap();
                    requests.push((path.to_owned(), None));
                } else if let Some((name, value)) = line.split_once(": ")
                    && name.eq_ignore_ascii_case("authorization")
                {
                    let token = &mut requests.last_mut().unwrap().1;
                    assert_eq!(token.replace(value.to_owned()), None, "twice");
                }
            }
        }
        requests
    }
}

async fn pass(client: TcpStream, server: TcpStream, said: Arc<Mutex<Vec<Vec<u8>>>>, number: usize) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move {
        // Whoever ends first ends both.
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
        said.lock()[number].extend_from_slice(&buffer[..length]);
        if to_server.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_go_with_every_request_and_those_of_submissions_apart() {
    let wire = Wire::start().await;
    let site = wire.log().await;
    for (reading, writing, expected) in [
        (None, None, [None, None]),
        (Some("r"), None, [Some("Bearer r"), Some("Bearer r")]),
        (None, Some("w"), [None, Some("Bearer w")]),
        (Some("r"), Some("w"), [Some("Bearer r"), Some("Bearer w")]),
        // As a plan has it where the environment says nothing.
        (Some(""), Some(""), [None, None]),
    ] {
        // Connections of the case before are closed.
        wire.said.lock().iter_mut().for_each(Vec::clear);
        let options = ct::write::Options {
            log_url: vec![wire.url()],
            bearer_token: reading.map(str::to_owned),
            bearer_token_write: writing.map(str::to_owned),
            ..site.write("a")
        };
        let scenario = ct::write::build(options, 1).unwrap();
        assert_eq!(run(&scenario, 1, 3).await.0, 0);
        let mut kinds = [0, 0];
        for (path, token) in wire.requests() {
            let kind = usize::from(path.contains("/ct/v1/"));
            kinds[kind] += 1;
            // Before it is known who the log is, and of the log itself, all is reading.
            assert_eq!(token.as_deref(), expected[kind], "{path}");
        }
        assert!(kinds[0] > 3 && kinds[1] > 3, "{kinds:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_is_spoken_from_the_first_byte_where_it_is_asked_for() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let wire = Wire::start().await;
    let site = wire.log().await;
    for (http, expected) in [(Http::V1, false), (Http::V2, true)] {
        wire.said.lock().iter_mut().for_each(Vec::clear);
        let options = ct::write::Options {
            log_url: vec![wire.url()],
            http,
            ..site.write("a")
        };
        let scenario = ct::write::build(options, 1).unwrap();
        assert_eq!(run(&scenario, 2, 3).await.0, 0);
        let said = wire.said.lock();
        let spoken: Vec<_> = said.iter().filter(|said| !said.is_empty()).collect();
        assert!(!spoken.is_empty());
        for said in spoken {
            assert_eq!(said.starts_with(PREFACE), expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_waited_for_as_long_as_was_said() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let site = Logs::start(&["a"], |_| {}).await;
    let options = ct::write::Options {
        log_url: vec![url],
        timeout: Span(Duration::from_millis(50)),
        ..site.write("a")
    };
    let scenario = ct::write::build(options, 1).unwrap();
    // Half of what is waited where nothing is said.
    let asked = tokio::time::timeout(Duration::from_secs(15), scenario.prepare());
    let error = asked.await.unwrap().unwrap_err();
    assert!(matches!(error, PrepareError::Unreachable(_)), "{error:?}");
    drop(silent);
}

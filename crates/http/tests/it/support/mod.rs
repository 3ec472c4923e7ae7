//! A real log in memory behind a real listener on loopback, and a client that sends raw bytes.
#![allow(dead_code, unreachable_pub)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::{Chain, EntryKind, LogKey, Policy, Roots, Sct};
use lucarne_http::{EndpointSet, Limits, Listener, Site, Tls, serve};
use lucarne_log::{Clock, LaneConfig, Log, LogConfig, Metrics, RoundConfig, State, Turn};
use lucarne_mint::{Authority, CaOptions, KeyPair, KeyType, LeafOptions};
use lucarne_storage::ReadAssets;
use lucarne_storage::memory::{MemoryAssets, MemoryLock};
use lucarne_testkit::{in_time, until};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub mod gate;

/// A running log with its CA and its storage.
pub struct TestLog {
    pub log: Arc<Log>,
    pub ca: Authority,
    pub leaf_key: Arc<KeyPair>,
    /// Number of SCTs in every leaf: random bytes, which do not compress.
    pub scts: usize,
    /// The files in memory with which the log started.
    pub assets: MemoryAssets,
    /// The current location of the files, and a cache for readers if there is one.
    pub stored: ReadAssets,
    pub lock: MemoryLock,
    /// A value with the lifetime of the log.
    pub kept: Option<Box<dyn std::any::Any + Send + Sync>>,
    _cache: tempfile::TempDir,
}

/// Returns the settings of a log for tests; change them in `TestLog::start`.
pub fn config(name: &str, cache: &std::path::Path) -> LogConfig {
    let mut seed = [7; 32];
    seed[..name.len().min(32)].copy_from_slice(&name.as_bytes()[..name.len().min(32)]);
    LogConfig {
        shortname: name.to_owned(),
        description: format!("the log {name}"),
        metadata: Default::default(),
        origin: format!("log.example/{name}"),
        submission_prefix: format!("http://log.example/{name}/"),
        monitoring_prefix: format!("http://log.example/{name}/"),
        also_at: None,
        key: LogKey::from_seed(&seed).unwrap().into(),
        policy: Policy::default(),
        verification: Arc::default(),
        rounds: RoundConfig {
            period: Duration::from_millis(20),
            pool_size: 1000,
            // Tests submit entries of both lanes.
            lanes: LaneConfig {
                old_pool: Some(1000),
                ..LaneConfig::default()
            },
            ..RoundConfig::default()
        },
        cache: cache.to_owned(),
        rfc6962_reads: None,
        scrub: None,
        known: None,
        witnesses: None,
        instances: None,
        clock: Clock::system(),
    }
}

fn start_log(
    config: LogConfig,
    ca: &Authority,
    assets: ReadAssets,
    lock: &MemoryLock,
    metrics: &Metrics,
) -> Arc<Log> {
    let (roots, _) = Roots::from_pem(ca.certificate_pem().as_bytes());
    let places = (assets, Arc::new(lock.clone()) as _);
    Log::start_in_turn(config, roots, places, metrics, Turn::now())
}

impl TestLog {
    pub async fn start(name: &str) -> TestLog {
        Self::start_with(name, &Metrics::register(&mut Registry::default()), |_| {}).await
    }

    pub async fn start_with(
        name: &str,
        metrics: &Metrics,
        change: impl FnOnce(&mut LogConfig),
    ) -> TestLog {
        let test = Self::unstarted(name, metrics, change).await;
        test.until(|log| matches!(log.state(), State::Running | State::Retired))
            .await;
        test.until(|log| log.published().is_some()).await;
        test
    }

    pub async fn unstarted(
        name: &str,
        metrics: &Metrics,
        change: impl FnOnce(&mut LogConfig),
    ) -> TestLog {
        let cache = tempfile::tempdir().unwrap();
        let mut config = config(name, cache.path());
        change(&mut config);
        let ca = Authority::root(&CaOptions::named(
            &format!("Root of {name}"),
            KeyType::EcdsaP256,
        ))
        .unwrap();
        let (assets, lock) = (MemoryAssets::new(), MemoryLock::new());
        Log::create(&config, &assets, &lock).await.unwrap();
        let stored = ReadAssets::uncached(Arc::new(assets.clone()));
        let log = start_log(config, &ca, stored.clone(), &lock, metrics);
        TestLog {
            log,
            ca,
            leaf_key: Arc::new(KeyPair::generate(KeyType::EcdsaP256).unwrap()),
            scts: 0,
            assets,
            stored,
            lock,
            kept: None,
            _cache: cache,
        }
    }

    /// Restarts the log, as in a process that waits for its turn.
    pub async fn in_turn(self, turn: Turn) -> TestLog {
        self.log.shutdown().await;
        let (roots, _) = Roots::from_pem(self.ca.certificate_pem().as_bytes());
        let places = (self.stored.clone(), Arc::new(self.lock.clone()) as _);
        let metrics = Metrics::register(&mut Registry::default());
        let log = Log::start_in_turn(self.log.config().clone(), roots, places, &metrics, turn);
        TestLog { log, ..self }
    }

    /// Restarts the log with other settings; it need not become ready.
    pub async fn changed(self, change: impl FnOnce(&mut LogConfig)) -> TestLog {
        self.log.shutdown().await;
        let mut config = self.log.config().clone();
        change(&mut config);
        let assets = ReadAssets::uncached(Arc::new(self.assets.clone()));
        let metrics = Metrics::register(&mut Registry::default());
        let log = start_log(config, &self.ca, assets, &self.lock, &metrics);
        TestLog { log, ..self }
    }

    /// Restarts the log on other assets: a copy of the files, or an empty location.
    pub async fn moved(self, stored: ReadAssets) -> TestLog {
        self.log.shutdown().await;
        let config = self.log.config().clone();
        let metrics = Metrics::register(&mut Registry::default());
        let log = start_log(config, &self.ca, stored.clone(), &self.lock, &metrics);
        let moved = TestLog {
            log,
            stored,
            ..self
        };
        moved.until(|log| log.state() == State::Running).await;
        moved
    }

    pub async fn until(&self, is_so: impl Fn(&Log) -> bool) {
        until("the log gets there", || is_so(&self.log)).await;
    }

    /// Returns the certificates of a new leaf, the leaf first, including the root.
    pub fn chain(&self, name: &str) -> lucarne_mint::Chain {
        let mut options = LeafOptions::with_key([name], self.leaf_key.clone());
        options.scts = self.scts;
        self.ca.full_chain(self.ca.issue(&options).unwrap())
    }

    /// Submits this number of chains without HTTP, and waits for all of them.
    pub async fn fill(&self, count: usize) -> Vec<Sct> {
        let submissions: Vec<_> = (0..count)
            .map(|n| {
                let chain = self.chain(&format!("n{n}.example"));
                let log = self.log.clone();
                tokio::spawn(async move {
                    let chain = Chain::from_ders(chain.certificates()).unwrap();
                    log.submit(EntryKind::X509, chain).await.unwrap()
                })
            })
            .collect();
        let mut scts = Vec::new();
        for submission in submissions {
            scts.push(submission.await.unwrap());
        }
        scts
    }
}

/// A site that is being served.
pub struct Server {
    pub address: SocketAddr,
    pub site: Arc<Site>,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
}

impl Server {
    pub async fn start(logs: Vec<Arc<Log>>, limits: Limits) -> Server {
        Self::start_with(logs, limits, Registry::default(), |listener| listener).await
    }

    pub async fn start_tls(logs: Vec<Arc<Log>>, limits: Limits, tls: Arc<Tls>) -> Server {
        Self::start_with(logs, limits, Registry::default(), |l| l.with_tls(tls)).await
    }

    pub async fn start_endpoints(logs: Vec<Arc<Log>>, endpoints: EndpointSet) -> Server {
        let limits = Limits::default();
        Self::start_with(logs, limits, Registry::default(), |l| {
            l.with_endpoints(endpoints)
        })
        .await
    }

    pub async fn start_with(
        logs: Vec<Arc<Log>>,
        limits: Limits,
        registry: Registry,
        with: impl FnOnce(Listener) -> Listener,
    ) -> Server {
        let site = Site::new(logs, registry, limits).unwrap();
        let listener = with(Listener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(serve(vec![listener], site.clone(), async move {
            let _ = stopped.await;
        }));
        Server {
            address,
            site,
            stop: Some(stop),
            served,
        }
    }

    /// Returns the value of a metric; `name` includes its labels.
    pub fn metric(&self, name: &str) -> u64 {
        let metrics = self.site.render_metrics();
        let value = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
        metrics.lines().find_map(value).unwrap_or(0)
    }

    /// Waits until a metric has this value.
    pub async fn counts(&self, name: &str, value: u64) {
        until(&format!("{name} is {value}"), || self.metric(name) == value).await;
    }

    /// Stops the server and returns the task to wait for.
    pub fn stop(mut self) -> JoinHandle<()> {
        let _ = self.stop.take().unwrap().send(());
        self.served
    }

    pub async fn connect(&self) -> Client<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Client::new(stream)
    }

    /// Connects from another address of this machine.
    pub async fn connect_from(&self, address: [u8; 4]) -> Client<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((address, 0).into()).unwrap();
        Client::new(socket.connect(self.address).await.unwrap())
    }

    /// Sends one GET on a new connection.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: log.example\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let mut client = self.connect().await;
        client
            .send(format!("{request}connection: close\r\n\r\n").as_bytes())
            .await;
        client.answer_to(method).await.unwrap()
    }

    pub async fn post(&self, path: &str, body: &[u8]) -> Answer {
        let mut client = self.connect().await;
        client.post(path, body).await;
        client.answer().await.unwrap()
    }
}

/// A connection on which tests write raw bytes.
pub struct Client<S> {
    pub stream: S,
    buffer: Vec<u8>,
}

/// A parsed response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(n, _)| n == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} twice: {self:?}");
        value
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub fn new(stream: S) -> Self {
        Client {
            stream,
            buffer: Vec::new(),
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nhost: log.example\r\n\r\n");
        self.send(request.as_bytes()).await;
        self.answer().await.unwrap()
    }

    pub async fn post(&mut self, path: &str, body: &[u8]) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: log.example\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat()).await;
    }

    /// Reads one response; `None` if the connection ends before it begins.
    pub async fn answer(&mut self) -> Option<Answer> {
        self.answer_to("GET").await
    }

    pub async fn answer_to(&mut self, method: &str) -> Option<Answer> {
        let end = loop {
            match self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                Some(end) => break end,
                None if !self.more().await => {
                    assert!(self.buffer.is_empty(), "half an answer: {:?}", self.buffer);
                    return None;
                }
                None => {}
            }
        };
        let head = String::from_utf8(self.buffer[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status: u16 = lines.next().unwrap()[9..12].parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        self.buffer.drain(..end + 4);
        let mut answer = Answer {
            status,
            headers,
            body: Vec::new(),
        };
        if method == "HEAD" || status == 304 || status == 204 {
            return Some(answer);
        }
        let length: usize = answer
            .header("content-length")
            .unwrap_or("0")
            .parse()
            .unwrap();
        while self.buffer.len() < length {
            assert!(self.more().await, "the body of {answer:?} broke off");
        }
        answer.body = self.buffer.drain(..length).collect();
        Some(answer)
    }

    async fn more(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes).await {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.buffer.extend_from_slice(&bytes[..n]);
                true
            }
        }
    }

    /// Waits until the server closes this connection or sends something; returns `true` if it was
    /// closed.
    pub async fn closed(&mut self) -> bool {
        let mut byte = [0];
        let read = in_time("the end of a connection", self.stream.read(&mut byte)).await;
        matches!(read, Ok(0) | Err(_))
    }
}

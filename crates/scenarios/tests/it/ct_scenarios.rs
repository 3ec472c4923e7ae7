//! `ct-write` and `ct-read` with a real log and a real listener.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::{LogKey, Policy};
use lucarne_http::{Limits, Listener, Site, serve};
use lucarne_load::{Iteration, Note, PrepareError, Recorder, Scenario, Stop};
use lucarne_log::{Clock, Log, LogConfig, Metrics, RoundConfig, State};
use lucarne_scenarios::ct::{self, Issuers, Roots};
use lucarne_scenarios::option_values::{HttpVersion, Ratio, TimeSpan};
use lucarne_storage::memory::{MemoryAssets, MemoryLock};
use lucarne_testkit::until;
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Logs with separate names at one address.
pub(crate) struct Logs {
    logs: Vec<Arc<Log>>,
    pub(crate) address: SocketAddr,
    ca: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<()>>,
    directory: TempDir,
}

impl Logs {
    pub(crate) async fn start(names: &[&str], change: impl Fn(&mut LogConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ca = directory.path().join("ca");
        let pem = Roots::open_or_create(&ca).unwrap().roots_pem();
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut logs = Vec::new();
        for name in names {
            let mut config = config(name, address, directory.path());
            change(&mut config);
            logs.push(open(config, &pem).await);
        }
        let mut site = Self {
            logs,
            address,
            ca,
            stop: None,
            served: None,
            directory,
        };
        site.serve(listener);
        site
    }

    fn serve(&mut self, listener: Listener) {
        let site = Site::new(self.logs.clone(), Registry::default(), Limits::default()).unwrap();
        let (stop, stopped) = oneshot::channel();
        self.stop = Some(stop);
        self.served = Some(tokio::spawn(serve(vec![listener], site, async move {
            let _ = stopped.await;
        })));
    }

    /// Stops listening for this time.
    async fn restart(&mut self, away: Duration) {
        self.end().await;
        self.begin_after(away).await;
    }

    /// Closes the listener.
    async fn end(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.served.take().unwrap().await.unwrap();
    }

    /// Listens again at the same address.
    async fn begin_after(&mut self, away: Duration) {
        // The outage lasts at least this long.
        tokio::time::sleep(away).await;
        let listener = Listener::bind(&self.address.to_string()).await.unwrap();
        self.serve(listener);
    }

    fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    pub(crate) fn log(&self, url: String) -> ct::LogOptions {
        ct::LogOptions {
            log_url: vec![url],
            poll_interval: TimeSpan::milliseconds(50),
            ..Default::default()
        }
    }

    pub(crate) fn write(&self, name: &str) -> ct::write::CtWriteOptions {
        ct::write::CtWriteOptions {
            log: self.log(self.url(name)),
            roots: self.ca.clone(),
            mmd: TimeSpan::seconds(20),
            ..Default::default()
        }
    }

    pub(crate) fn read(&self, name: &str) -> ct::read::CtReadOptions {
        ct::read::CtReadOptions {
            log: self.log(self.url(name)),
            ..Default::default()
        }
    }
}

fn config(name: &str, address: SocketAddr, directory: &Path) -> LogConfig {
    let mut seed = [7; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    LogConfig {
        shortname: name.to_owned(),
        description: format!("the log {name}"),
        metadata: Default::default(),
        origin: format!("{address}/{name}"),
        submission_prefix: format!("http://{address}/{name}/"),
        monitoring_prefix: format!("http://{address}/{name}/"),
        also_at: None,
        key: LogKey::from_seed(&seed).unwrap().into(),
        policy: Policy::default(),
        verification: Arc::default(),
        rounds: RoundConfig {
            period: Duration::from_millis(20),
            ..RoundConfig::default()
        },
        cache: directory.join(name),
        rfc6962_reads: None,
        scrub: None,
        known: None,
        witnesses: None,
        instances: None,
        clock: Clock::system(),
    }
}

async fn open(config: LogConfig, roots: &str) -> Arc<Log> {
    std::fs::create_dir_all(&config.cache).unwrap();
    let (roots, _) = lucarne_ct::Roots::from_pem(roots.as_bytes());
    let (assets, lock) = (MemoryAssets::new(), MemoryLock::new());
    Log::create(&config, &assets, &lock).await.unwrap();
    let metrics = Metrics::register(&mut Registry::default());
    let log = Log::start(config, roots, Arc::new(assets), Arc::new(lock), &metrics);
    until("the log begins", || {
        log.published().is_some() && log.state() == State::Running
    })
    .await;
    log
}

/// Runs a scenario with this number of users and iterations each. Returns the failures and the
/// notes.
async fn run(scenario: &Arc<dyn Scenario>, users: u64, each: u64) -> (u64, Vec<Note>) {
    scenario.prepare().await.unwrap();
    let recorder = Recorder::detached("ct");
    let (stopper, stop) = Stop::new();
    let background = {
        let (scenario, recorder) = (Arc::clone(scenario), recorder.clone());
        tokio::spawn(async move { scenario.background(recorder, stop).await })
    };
    let tasks: Vec<_> = (0..users)
        .map(|number| {
            let mut user = scenario.user(number, &recorder);
            let recorder = recorder.clone();
            tokio::spawn(async move {
                let mut failed = 0;
                for round in 0..each {
                    let mut iteration = Iteration::detached(&recorder, round * users + number);
                    user.iterate(&mut iteration).await;
                    failed += u64::from(iteration.has_failed());
                }
                failed
            })
        })
        .collect();
    let mut failed = 0;
    for task in tasks {
        failed += task.await.unwrap();
    }
    stopper.stop();
    background.await.unwrap();
    (failed, scenario.finish(recorder).await)
}

/// Starts a listener in front of the log `name`, and returns its URL. The listener closes every
/// second connection without a response, or `all` connections.
async fn closing_front(site: &Logs, name: &str, all: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/{name}", listener.local_addr().unwrap());
    let log = site.address;
    tokio::spawn(async move {
        for number in 0.. {
            let (mut client, _) = listener.accept().await.unwrap();
            if all || number % 2 == 0 {
                continue;
            }
            tokio::spawn(async move {
                let mut log = TcpStream::connect(log).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut log).await;
            });
        }
    });
    url
}

fn said(notes: &[Note]) -> String {
    let lines = notes.iter().flat_map(|note| &note.lines);
    lines.cloned().collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_keeps_what_it_promises() {
    let site = Logs::start(&["a"], |_| {}).await;
    for (issuers, ahead, http) in [
        (Issuers::P256, 0, HttpVersion::V1),
        (Issuers::Webpki, 150, HttpVersion::V1),
        (Issuers::Rsa, 10, HttpVersion::V2),
    ] {
        let mut options = ct::write::CtWriteOptions {
            issuers,
            ahead,
            ..site.write("a")
        };
        options.log.http.version = http;
        let scenario = ct::write::build(options, 1).unwrap();
        let before = site.logs[0].published().unwrap().size;
        let (failed, notes) = run(&scenario, 10, 30).await;
        let added = site.logs[0].published().unwrap().size - before;
        assert_eq!(failed, 0);
        assert!(
            (200..300).contains(&added),
            "{added} of 300, a tenth repeated"
        );
        let text = said(&notes);
        let proven = format!("{added} entries promised: {added} proven, 0 late, 0 missing");
        assert!(text.contains(&proven), "{text}");
        assert!(!text.contains("0 data tiles"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_find_everything_in_order() {
    let site = Logs::start(&["a"], |_| {}).await;
    let options = ct::write::CtWriteOptions {
        duplicates: Ratio(0.0),
        issuers: Issuers::P256,
        ..site.write("a")
    };
    let scenario = ct::write::build(options, 1).unwrap();
    assert_eq!(run(&scenario, 10, 70).await.0, 0);
    for (compression, cache, full, http) in [
        (ct::read::Compression::Identity, false, 0.0, HttpVersion::V1),
        (ct::read::Compression::Gzip, true, 0.5, HttpVersion::V1),
        (ct::read::Compression::Zstd, false, 1.0, HttpVersion::V2),
        (ct::read::Compression::Any, true, 0.0, HttpVersion::V1),
    ] {
        let mut options = ct::read::CtReadOptions {
            compression,
            cache,
            full_readers: Ratio(full),
            ..site.read("a")
        };
        options.log.http.version = http;
        let scenario = ct::read::build(options, 1).unwrap();
        let (failed, notes) = run(&scenario, 4, 40).await;
        assert_eq!(failed, 0, "{compression:?}");
        assert!(said(&notes).contains("tree 700 → 700"), "{notes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_logs_at_once_each_in_its_window() {
    let start = 1_900_000_000_000;
    let site = Logs::start(&["a", "b"], |config| {
        if config.shortname == "b" {
            config.policy.not_after_start = Some(start);
            config.policy.not_after_limit = Some(start + 86_400_000);
        }
    })
    .await;
    let mut options = site.write("a");
    options.log.log_url.push(site.url("b"));
    let scenario = ct::write::build(options, 1).unwrap();
    let (failed, notes) = run(&scenario, 5, 20).await;
    assert_eq!((failed, notes.len()), (0, 2));
    for log in &site.logs {
        assert!(log.published().unwrap().size > 25);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn promises_hold_over_a_restart() {
    let mut site = Logs::start(&["a"], |_| {}).await;
    let mut options = ct::write::CtWriteOptions {
        issuers: Issuers::P256,
        ..site.write("a")
    };
    options.log.expect_restarts = true;
    let scenario = ct::write::build(options, 1).unwrap();
    scenario.prepare().await.unwrap();
    let running = tokio::spawn({
        let scenario = Arc::clone(&scenario);
        async move { run(&scenario, 4, 400).await }
    });
    // In the middle of the load.
    let log = site.logs[0].clone();
    until("some are logged", || log.published().unwrap().size > 100).await;
    site.restart(Duration::from_secs(1)).await;
    let (failed, notes) = running.await.unwrap();
    let text = said(&notes);
    assert_eq!(failed, 0, "{text}");
    assert!(text.contains("0 late, 0 missing"), "{text}");
    assert!(text.contains("unavailable "), "{text}");
    assert!(!text.contains("unavailable 0 times"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_before_the_load_is_retried() {
    let site = Logs::start(&["a"], |_| {}).await;
    let write = |url: String| ct::write::CtWriteOptions {
        log: site.log(url),
        ..site.write("a")
    };
    let url = closing_front(&site, "a", false).await;
    let scenario = ct::write::build(write(url.clone()), 1).unwrap();
    scenario.prepare().await.unwrap();
    let read = ct::read::CtReadOptions {
        log: site.log(url),
        ..site.read("a")
    };
    let scenario = ct::read::build(read, 1).unwrap();
    scenario.prepare().await.unwrap();

    let url = closing_front(&site, "a", true).await;
    let error = ct::write::build(write(url), 1).unwrap().prepare().await;
    let error = error.unwrap_err();
    assert!(matches!(error, PrepareError::Unreachable(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_restarts_before_the_load_is_awaited() {
    let mut site = Logs::start(&["a"], |_| {}).await;
    let mut options = site.write("a");
    options.log.expect_restarts = true;
    let scenario = ct::write::build(options, 1).unwrap();
    site.end().await;
    let (prepared, ()) = tokio::join!(scenario.prepare(), site.begin_after(Duration::from_secs(1)));
    prepared.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_begin_says_why() {
    let site = Logs::start(&["a"], |_| {}).await;
    let begin = |change: &dyn Fn(&mut ct::write::CtWriteOptions)| {
        let mut options = site.write("a");
        change(&mut options);
        let scenario = ct::write::build(options, 1).unwrap();
        async move { scenario.prepare().await.unwrap_err() }
    };
    let other_key = LogKey::from_seed(&[1; 32]).unwrap();
    let other_key = base64_simd::STANDARD.encode_to_string(other_key.public_key_spki());
    let stranger = site.directory.path().join("stranger");
    Roots::open_or_create(&stranger).unwrap();
    let configuration = [
        (
            begin(&|options| options.log.log_url.clear()).await,
            "--log-url",
        ),
        (
            begin(&|options| options.log.log_url[0] = site.url("b")).await,
            "404",
        ),
        (
            begin(&|options| options.log.log_url[0] = "log".into()).await,
            "`log`",
        ),
        (
            begin(&|options| options.log.origin.push("other.example".into())).await,
            "origin",
        ),
        (
            begin(&|options| options.log.log_public_key.push(other_key.clone())).await,
            "--log-public-key",
        ),
        (
            begin(&|options| options.roots = "/nowhere/ca".into()).await,
            "lucarne ca new",
        ),
        (
            begin(&|options| options.roots = stranger.clone()).await,
            "does not accept",
        ),
    ];
    for (error, words) in configuration {
        assert!(matches!(error, PrepareError::Configuration(_)), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = begin(&|options| options.log.log_url[0] = "http://127.0.0.1:1/".into()).await;
    assert!(matches!(error, PrepareError::Unreachable(_)), "{error:?}");
}

//! Logs that are kept between runs, and copies of them to measure.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use lucarne_ct::{Entry, Issuer, LogKey, Policy, Roots};
use lucarne_log::{Clock, Log, LogConfig, Metrics, RoundConfig, State};
use lucarne_storage::{PosixAssets, SqlLock};
use lucarne_testkit::{Client, Launch, Server, free_port};
use prometheus_client::registry::Registry;
use tokio::task::spawn_blocking;

use super::certificates::Template;
use crate::{add_chain::wait, chains::Store};

/// Number of entries of one round.
const ROUND: u64 = 8192;
pub(super) const HOST: &str = "large.example";
/// Maximum time of a start, which may include a rebuild of the index.
const START_TIMEOUT: Duration = Duration::from_secs(3600);

/// A directory with a log, its lock, its index and its key.
pub(super) struct Kept {
    pub(super) directory: PathBuf,
    size: u64,
}

impl Kept {
    /// Opens the log of `size` entries, or creates it.
    pub(super) fn open(store: &Store, folder: &Path, size: u64) -> Result<Self> {
        let directory = folder.join(format!("log-{size}"));
        let roots = store.pki.roots_pem();
        if fs::read_to_string(directory.join("roots.pem")).is_ok_and(|made| made != roots) {
            // The leaves of this log are from older CAs: the store creates new CAs after a day.
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("roots.pem"), &roots)?;
        let kept = Kept { directory, size };
        let full = kept.directory.join("full");
        if !full.exists() {
            kept.fill(store)?;
            fs::write(full, [])?;
        }
        Ok(kept)
    }

    /// Returns the template of all certificates of the log.
    pub(super) fn template(&self, store: &Store) -> Result<Template> {
        Template::kept(&store.pki, &self.directory.join("template.der"))
    }

    fn config(&self) -> Result<LogConfig> {
        let seed = self.directory.join("seed.bin");
        if !seed.exists() {
            fs::write(&seed, [7; 32])?;
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&seed, fs::Permissions::from_mode(0o600))?;
        }
        Ok(LogConfig {
            shortname: "test".into(),
            description: String::new(),
            metadata: Default::default(),
            origin: format!("{HOST}/test"),
            submission_prefix: format!("http://{HOST}/test/"),
            monitoring_prefix: format!("http://{HOST}/test/"),
            also_at: None,
            key: LogKey::from_seed(&fs::read(seed)?)?.into(),
            policy: Policy::default(),
            verification: Arc::default(),
            rounds: RoundConfig {
                period: Duration::from_millis(1),
                pool_size: 4 * ROUND as usize,
                max_checkpoint_age: Duration::from_secs(3600),
                ..RoundConfig::default()
            },
            cache: self.directory.join("cache/dedup"),
            rfc6962_reads: None,
            scrub: None,
            known: None,
            witnesses: None,
            instances: None,
            clock: Clock::system(),
        })
    }

    /// Runs rounds of generated certificates through the real sequencer, until there are enough
    /// entries.
    fn fill(&self, store: &Store) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.filled(store))
    }

    async fn filled(&self, store: &Store) -> Result<()> {
        let config = self.config()?;
        let (data, lock) = (
            self.directory.join("data"),
            self.directory.join("lock.sqlite"),
        );
        let place = lock.display().to_string();
        if !lock.exists() {
            fs::create_dir_all(self.directory.join("cache"))?;
            let lock = SqlLock::create(&place).await?;
            Log::create(&config, &PosixAssets::create(&data)?, &lock).await?;
        }
        let log = self.start(store).await?;
        let template = Arc::new(self.template(store)?);
        let issuer = |der: &[u8]| Arc::new(Issuer::new(der.to_vec().into()));
        let pki = &store.pki;
        let issuers: Arc<[_]> = [issuer(pki.rsa.cert_der()), issuer(pki.root.cert_der())].into();
        let make = |from: u64| {
            let (template, issuers) = (template.clone(), issuers.clone());
            let numbers = from..(from + ROUND).min(self.size);
            spawn_blocking(move || numbers.map(|n| entry(&template, n, &issuers)).collect())
        };
        let mut next = log
            .published()
            .context("the log has published no checkpoint")?
            .size;
        let began = Instant::now();
        let mut ready: Vec<Entry> = make(next).await?;
        while !ready.is_empty() {
            next += ready.len() as u64;
            let (made, appended) = tokio::join!(make(next.min(self.size)), log.append(ready));
            appended?;
            ready = made?;
            if next % (1 << 20) < ROUND {
                let seconds = began.elapsed().as_secs();
                eprintln!(
                    "{}: {next} entries after {seconds} s",
                    self.directory.display()
                );
            }
        }
        log.shutdown().await;
        Ok(())
    }

    /// Starts the log in this process, and waits until it is open.
    async fn start(&self, store: &Store) -> Result<Arc<Log>> {
        let (data, lock) = (
            self.directory.join("data"),
            self.directory.join("lock.sqlite"),
        );
        let lock = SqlLock::open(&lock.display().to_string()).await?;
        let assets = PosixAssets::open(&data)?;
        let metrics = Metrics::register(&mut Registry::default());
        let roots = Roots::from_pem(store.pki.roots_pem().as_bytes()).0;
        let config = self.config()?;
        let log = Log::start(config, roots, Arc::new(assets), Arc::new(lock), &metrics);
        while log.state() != State::Running {
            // Polls, because a log does not announce its state.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(log)
    }

    /// Opens a copy in this process without its index, and waits until the index is rebuilt from
    /// the tiles. Returns the duration in seconds.
    pub(super) fn read_back(&self, store: &Store) -> Result<f64> {
        let copied = self.copy()?;
        remove(&copied.index())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let of_copy = Kept {
            directory: copied.directory.clone(),
            size: self.size,
        };
        runtime.block_on(async {
            let began = Instant::now();
            let log = of_copy.start(store).await?;
            let unread = async || {
                let checks = log.health().await.checks;
                checks
                    .iter()
                    .any(|check| check.name == "dedup" && !check.ok)
            };
            while unread().await {
                // Polls, because a log does not announce its state.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let seconds = began.elapsed().as_secs_f64();
            log.shutdown().await;
            Ok(seconds)
        })
    }

    /// Creates a copy to measure. The copy shares the tiles with this log, because tiles are never
    /// overwritten.
    pub(super) fn copy(&self) -> Result<Copied> {
        let directory = self.directory.with_extension("measured");
        remove(&directory)?;
        fs::create_dir_all(directory.join("data"))?;
        for entry in fs::read_dir(self.directory.join("data"))? {
            let path = entry?.path();
            let tiles = path.ends_with("tile") || path.ends_with("issuer");
            copy(&path, &directory.join("data"), tiles)?;
        }
        for name in [
            "cache",
            "lock.sqlite",
            "lock.sqlite-wal",
            "seed.bin",
            "roots.pem",
        ] {
            let path = self.directory.join(name);
            if path.exists() {
                copy(&path, &directory, false)?;
            }
        }
        let port = free_port();
        let path = directory.display();
        let config = format!(
            "listen:
  - 127.0.0.1:{port}
checkpoints: lock.sqlite
logs:
  - shortname: test
    submissionprefix: http://{HOST}/test
    monitoringprefix: http://{HOST}/test
    secret: {path}/seed.bin
    cache: {path}/cache
    roots: {path}/roots.pem
    localdirectory: {path}/data
    period: 100
    scrub: off
"
        );
        fs::write(directory.join("lucarne.yaml"), config)?;
        Ok(Copied { directory, port })
    }
}

fn entry(template: &Template, number: u64, issuers: &Arc<[Arc<Issuer>]>) -> Entry {
    let signed = template.signed(number);
    Entry {
        identity: signed.identity(),
        signed,
        precertificate: None,
        issuers: issuers.clone(),
    }
}

/// A copy of a kept log, removed at the end.
pub(super) struct Copied {
    directory: PathBuf,
    port: u16,
}

impl Copied {
    pub(super) fn address(&self) -> std::net::SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub(super) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub(super) fn index(&self) -> PathBuf {
        self.directory.join("cache/dedup")
    }

    /// Starts the server. Returns the time in seconds until submissions are accepted.
    pub(super) fn start(&self, binary: &Path, core: Option<usize>) -> Result<(Server, f64)> {
        let began = Instant::now();
        let config = self.directory.join("lucarne.yaml");
        let launch = Launch::new(binary)
            .args(["serve".into(), "-c".into(), config.into_os_string()])
            .directory(&self.directory)
            .pin(core);
        let server = launch.start(self.address())?;
        wait(self.ready())
            .and_then(|ready| ready)
            .with_context(|| {
                format!(
                    "cannot start the log; the server printed:\n{}",
                    server.output()
                )
            })?;
        Ok((server, began.elapsed().as_secs_f64()))
    }

    async fn ready(&self) -> Result<()> {
        let client = Client::new(format!("http://{}", self.address()));
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let said = client.get("health").await;
            if said.as_ref().is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the server is not healthy after {START_TIMEOUT:?}: {said:?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let _ = remove(&self.directory);
    }
}

/// Copies a file or directory; with `links`, the copy has hard links to the files.
fn copy(from: &Path, into: &Path, links: bool) -> Result<()> {
    let how = if links { "-rlp" } else { "-rp" };
    let copied = Command::new("cp").arg(how).arg(from).arg(into).status()?;
    ensure!(
        copied.success(),
        "cannot copy {} to {}: `cp` failed ({copied})",
        from.display(),
        into.display()
    );
    Ok(())
}

pub(super) fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns the number of files below a directory, and the bytes that they use on the disk.
pub(super) fn on_disk(directory: &Path) -> Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let about = entry.metadata()?;
        files += 1;
        bytes += about.blocks() * 512;
        if about.is_dir() {
            let below = on_disk(&entry.path())?;
            files += below.0;
            bytes += below.1;
        }
    }
    Ok((files, bytes))
}

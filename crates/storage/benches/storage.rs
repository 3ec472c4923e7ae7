//! The storage cost of a round: CPU time of the process and wall time of each part, and of commits
//! by several logs at the same time.
//!
//! Run `cargo bench -p lucarne-storage [-- DIRECTORY [PART]]`. The directory selects the measured
//! disk (default: the disk of the target directory). Select a single part to count its system calls
//! with `strace -fc`.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lucarne_storage::{Asset, AssetKind, Assets, Lock, PosixAssets, SqlLock};

const ROUNDS: u32 = 1000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let parent = arguments
        .next()
        .unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let part = arguments.next();
    let directory = tempfile::tempdir_in(parent).unwrap();
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);

    let assets = PosixAssets::create(directory.path().join("log")).unwrap();
    assets.staged().await.unwrap();
    if wanted("stage") {
        stage(&assets, 3_000).await;
        stage(&assets, 300_000).await;
    }
    if wanted("publish") {
        publish(&assets).await;
    }
    if wanted("settle") {
        settle(&assets).await;
    }
    let path = directory.path().join("locks.db").display().to_string();
    let lock = Arc::new(SqlLock::create(&path).await.unwrap());
    if wanted("commit") {
        commit(lock.clone(), 1).await;
    }
    if wanted("commits") {
        commit(lock, 8).await;
    }
}

async fn stage(assets: &PosixAssets, length: usize) {
    let record = Bytes::from(vec![7; length]);
    let meter = Meter::start();
    for size in 1..=ROUNDS {
        assets.stage(u64::from(size), record.clone()).await.unwrap();
    }
    meter.report(&format!("stage {length} bytes"), ROUNDS);
    assets.settle(u64::from(ROUNDS)).await.unwrap();
}

/// Publishes eight tiles, as in a round at a few hundred entries per second, and a checkpoint.
async fn publish(assets: &PosixAssets) {
    let meter = Meter::start();
    for round in 0..ROUNDS {
        let tile = |i| {
            let path = format!("tile/{i}/x{:03}/{:03}", round / 1000, round % 1000);
            Asset::new(path, vec![7; 4000], AssetKind::HashTile)
        };
        assets.publish((0..8).map(tile).collect()).await.unwrap();
        let checkpoint = Asset::new("checkpoint", vec![7; 300], AssetKind::Checkpoint);
        assets.publish(vec![checkpoint]).await.unwrap();
    }
    meter.report("publish 9 files in 2 calls", ROUNDS);
}

async fn settle(assets: &PosixAssets) {
    const SETTLES: u32 = 50;
    let mut slowest = Duration::ZERO;
    let meter = Meter::start();
    for round in 1..=SETTLES {
        let tile = |i| {
            let path = format!("tile/0/x{round:03}/{i:03}");
            Asset::new(path, vec![7; 8000], AssetKind::HashTile)
        };
        assets.publish((0..40).map(tile).collect()).await.unwrap();
        let stage = async {
            let start = Instant::now();
            let record = Bytes::from(vec![7; 30_000]);
            assets.stage(u64::from(round), record).await.unwrap();
            start.elapsed()
        };
        let settle = assets.settle(u64::from(round - 1));
        let (staged, settled) = tokio::join!(stage, settle);
        settled.unwrap();
        slowest = slowest.max(staged);
    }
    meter.report("publish 40 files, settle beside a stage", SETTLES);
    println!(
        "{:44} {:>9.0} us",
        "  slowest stage beside a settle",
        us(slowest)
    );
}

async fn commit(lock: Arc<SqlLock>, logs: u8) {
    let meter = Meter::start();
    let mut tasks = tokio::task::JoinSet::new();
    for log in 0..logs {
        let lock = lock.clone();
        tasks.spawn(async move {
            let log = [logs ^ log; 32];
            let body = |round: u32| format!("{round:08}").repeat(40).into_bytes();
            lock.create(&log, &body(0)).await.unwrap();
            for round in 0..ROUNDS {
                lock.replace(&log, &body(round), &body(round + 1))
                    .await
                    .unwrap();
            }
        });
    }
    tasks.join_all().await;
    meter.report(
        &format!("commit, {logs} logs at once"),
        ROUNDS * u32::from(logs),
    );
}

struct Meter {
    wall: Instant,
    cpu: Duration,
}

impl Meter {
    fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu: cpu(),
        }
    }

    fn report(self, what: &str, times: u32) {
        let (wall, cpu) = (self.wall.elapsed() / times, (cpu() - self.cpu) / times);
        println!("{what:44} {:>9.0} us  {:>7.1} us CPU", us(wall), us(cpu));
    }
}

/// Returns the user and system time of all threads, as reported by `getrusage`.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

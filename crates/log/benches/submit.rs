//! Cost of a submission without storage and HTTP: from a decoded chain to its SCT, a thousand at a
//! time in one round, and for duplicates.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lucarne_ct::{Chain, EntryKind, LogKey, Policy, Roots};
use lucarne_log::{Clock, Log, LogConfig, Metrics, RoundConfig, State};
use lucarne_mint::Authority;
use lucarne_mint::testing::Pki;
use lucarne_storage::{MemoryAssets, MemoryLock};
use prometheus_client::registry::Registry;
use tokio::runtime::{Builder, Runtime};

const BATCH: usize = 1000;

fn start(runtime: &Runtime, cache: &std::path::Path) -> Arc<Log> {
    runtime.block_on(async {
        let config = LogConfig {
            shortname: "bench".into(),
            description: String::new(),
            metadata: Default::default(),
            origin: "log.example/bench".into(),
            submission_prefix: "http://log.example/bench/".into(),
            monitoring_prefix: "http://log.example/bench/".into(),
            also_at: None,
            key: LogKey::from_seed(&[7; 32]).unwrap().into(),
            policy: Policy::default(),
            verification: Arc::default(),
            rounds: RoundConfig {
                period: Duration::from_millis(1),
                pool_size: 10 * BATCH,
                max_checkpoint_age: Duration::from_secs(3600),
                ..RoundConfig::default()
            },
            cache: cache.into(),
            rfc6962_reads: None,
            scrub: None,
            known: None,
            witnesses: None,
            instances: None,
            clock: Clock::system(),
        };
        let (assets, lock) = (MemoryAssets::new(), MemoryLock::new());
        Log::create(&config, &assets, &lock).await.unwrap();
        let (roots, _) = Roots::from_pem(Pki::shared().roots_pem().as_bytes());
        let metrics = Metrics::register(&mut Registry::default());
        let log = Log::start(config, roots, Arc::new(assets), Arc::new(lock), &metrics);
        while log.state() != State::Running {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        log
    })
}

fn chains(issuer: &Authority) -> Vec<Chain> {
    let pki = Pki::shared();
    (0..BATCH)
        .map(|n| {
            pki.certificate(issuer, &format!("host-{n}.example"))
                .unwrap()
        })
        .map(|chain| Chain::from_ders(chain.certificates()).unwrap())
        .collect()
}

fn submit(runtime: &Runtime, log: &Arc<Log>, chains: Vec<Chain>) {
    runtime.block_on(async {
        let submit = |chain| {
            let log = log.clone();
            tokio::spawn(async move { log.submit(EntryKind::X509, chain).await.unwrap() })
        };
        let tasks: Vec<_> = chains.into_iter().map(submit).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

fn submissions(c: &mut Criterion) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let cache = tempfile::tempdir().unwrap();
    let log = start(&runtime, cache.path());
    let pki = Pki::shared();
    let mut group = c.benchmark_group("submit");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(BATCH as u64));
    for (name, issuer) in [("rsa", &pki.rsa), ("p256", &pki.p256), ("p384", &pki.p384)] {
        group.bench_function(format!("1000 new, {name}"), |b| {
            b.iter_custom(|rounds| {
                (0..rounds)
                    .map(|_| {
                        let fresh = chains(issuer);
                        let started = Instant::now();
                        submit(&runtime, &log, fresh);
                        started.elapsed()
                    })
                    .sum()
            });
        });
    }
    let known = chains(&pki.rsa);
    submit(&runtime, &log, known.clone());
    group.bench_function("1000 duplicates", |b| {
        b.iter(|| submit(&runtime, &log, known.clone()));
    });
    group.finish();
    runtime.block_on(log.shutdown());
}

criterion_group!(benches, submissions);
criterion_main!(benches);

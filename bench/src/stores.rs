//! The cost of a log on object stores, compared with a log on a disk, and the capacity of the
//! stores themselves.

use std::{process::Command, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use lucarne_testkit::{Bucket, DatabaseKind, DatabaseServer, Fate, ObjectStore, Place, StoreProxy};

use crate::{
    Common,
    add_chain::{self, Bench, Figures, Run, wait},
    chains::Issuer,
    load::Arrivals,
    table::{Row, failures, latencies, millis, print},
};

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Duration of each measured run in seconds
    #[arg(long, default_value_t = 4.0)]
    duration: f64,
    /// Number of keep-alive HTTP/1.1 connections
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// Period of the logs in milliseconds
    #[arg(long, default_value_t = 100)]
    period: u64,
    /// Submissions per second of the runs at the same rate
    #[arg(long, default_value_t = 2000.0)]
    rate: f64,
    /// Duration of each request to a slow store, in milliseconds
    #[arg(long, default_value_t = 10)]
    delay: u64,
    /// CA that signs the leaves
    #[arg(long, default_value = "rsa")]
    issuer: Issuer,
}

/// Minimum of new entries per second on MinIO.
const AT_LEAST: f64 = 4000.0;

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let add_chain = add_chain::Options::with(options.connections, options.duration, options.period);
    let bench = Bench::new(common, &add_chain)?;
    let minio = Stand::new(ObjectStore::minio, "minio")?;
    let versitygw = Stand::new(ObjectStore::versitygw, "versitygw")?;
    let database = Arc::new(DatabaseServer::start(DatabaseKind::MariaDb)?);
    let places = [
        ("POSIX + SQLite", Place::directory()),
        ("MinIO alone", minio.place()?),
        ("versitygw alone", versitygw.place()?),
        ("MinIO + MariaDB", minio.place()?.with_lock(&database)?),
    ];
    let mut rows = Vec::new();
    let mut posix = None;
    for (name, place) in places {
        let (highest, same) = measure(&bench, options, &place)?;
        let cpu = same.cpu_us();
        let on_disk = *posix.get_or_insert(cpu);
        let rate = highest.rate();
        let verdict = match (name, rate >= AT_LEAST) {
            ("MinIO alone", true) => format!("   at least {AT_LEAST}: ok"),
            ("MinIO alone", false) => format!("   at least {AT_LEAST}: MISSED"),
            _ => String::new(),
        };
        rows.push(Row::new(
            format!("{name}: new entries, highest rate"),
            format!("{rate:.0}/s{verdict}"),
        ));
        rows.push(Row::new(
            format!("{name}: CPU per new entry at that rate"),
            format!("{:.1} µs", highest.cpu_us()),
        ));
        rows.push(Row::at_most(
            format!("{name}: CPU per new entry at {:.0}/s", options.rate),
            cpu,
            "µs",
            (1.2 * on_disk).round(),
        ));
        rows.push(Row::new(
            format!("{name}: requests per 1,000 entries, at both"),
            format!(
                "{:.1}, {:.1}",
                highest.requests_per_1000(),
                same.requests_per_1000()
            ),
        ));
        rows.push(Row::new(
            format!("{name}: latency at {:.0}/s", options.rate),
            latencies(&same.outcome),
        ));
    }
    rows.extend(slow(&bench, options, &minio)?);
    let title = format!(
        "{} issuer, period {} ms, {} connections, {:.0} s each",
        options.issuer.name(),
        options.period,
        options.connections,
        options.duration
    );
    print(&title, &rows);
    for stand in [&minio, &versitygw] {
        println!("\nlucarne load s3 on {}:", stand.name);
        println!("{}", stand.load(common)?);
    }
    Ok(())
}

/// Measures at the highest rate, and at the common rate.
fn measure(bench: &Bench<'_>, options: &Options, place: &Place) -> Result<(Figures, Figures)> {
    let at = |arrivals| {
        let run = Run {
            issuer: options.issuer,
            arrivals,
            period: options.period,
            syncs: false,
            place: place.anew(),
        };
        let figures = bench.run(&run)?;
        println!(
            "{place:?}, {arrivals:?}: {:.0}/s, {:.1} µs, failures: {}",
            figures.rate(),
            figures.cpu_us(),
            failures(&figures.outcome)
        );
        anyhow::Ok(figures)
    };
    Ok((at(Arrivals::Closed)?, at(Arrivals::Open(options.rate))?))
}

/// Measures with a distant store, at the common rate. An entry waits for up to a period and then
/// for its round, which should take half a second at most.
fn slow(bench: &Bench<'_>, options: &Options, stand: &Stand) -> Result<[Row; 2]> {
    let proxy = StoreProxy::start(stand.store.address)?;
    let delay = Duration::from_millis(options.delay);
    proxy.judge(move |_| Fate::Delay(delay));
    let bucket = stand.bucket()?;
    let run = Run {
        issuer: options.issuer,
        arrivals: Arrivals::Open(options.rate),
        period: options.period,
        syncs: false,
        place: Place::bucket(&bucket, Some(&proxy.endpoint)),
    };
    let figures = bench.run(&run)?;
    let what = format!("{} behind {delay:?}, {:.0}/s", stand.name, options.rate);
    Ok([
        Row::at_most(
            format!("{what}: p99"),
            millis(&figures.outcome, 99.0),
            "ms",
            options.period as f64 + 500.0,
        ),
        Row::new(
            format!("{what}: requests per 1,000 entries"),
            format!("{:.1}", figures.requests_per_1000()),
        ),
    ])
}

/// A running store.
struct Stand {
    name: &'static str,
    store: Arc<ObjectStore>,
}

impl Stand {
    fn new(start: impl Fn() -> Result<ObjectStore>, name: &'static str) -> Result<Self> {
        let store = Arc::new(start()?);
        Ok(Self { name, store })
    }

    fn bucket(&self) -> Result<Bucket> {
        wait(Bucket::new(self.store.clone()))?
    }

    fn place(&self) -> Result<Place> {
        Ok(Place::bucket(&self.bucket()?, None))
    }

    /// Measures the capacity of the store for a load test on the same machine.
    fn load(&self, common: &Common) -> Result<String> {
        let bucket = self.bucket()?;
        let output = Command::new(std::path::absolute(&common.binary)?)
            .args(["load", "s3", "--no-ui", "--style", "path"])
            .args(["--endpoint", &self.store.endpoint, "--bucket", &bucket.name])
            .args(["--region", self.store.region, "--cell-duration", "2s"])
            .args(["--operations", "put,get", "--sizes", "8KiB,1MB"])
            .args(["--concurrency", "32"])
            .env("AWS_ACCESS_KEY_ID", self.store.access_key)
            .env("AWS_SECRET_ACCESS_KEY", self.store.secret_key)
            .output()
            .context("cannot run lucarne load s3")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "`lucarne load s3` failed ({}):\n{said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        let cells = said.split("█ CELLS").nth(1).unwrap_or(&said);
        let cells = cells.split('█').next().unwrap_or_default();
        Ok(cells.trim_end().trim_start_matches('\n').to_owned())
    }
}

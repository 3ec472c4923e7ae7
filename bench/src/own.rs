//! The cost of `lucarne load` itself.

pub(crate) mod server;

use std::{fs, net::SocketAddr, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail, ensure};
use base64_simd::STANDARD;
use lucarne_ct::LogKey;
use lucarne_load::{Metric, Summary};
use lucarne_testkit::{Launch, Server, free_port};

use crate::{
    Common, authorities,
    table::{Row, print},
};

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Duration of each measured run in seconds
    #[arg(long, default_value_t = 10)]
    duration: u64,
    /// Submissions per second of the run at a fixed rate; one core must reach this rate
    #[arg(long, default_value_t = 10_000)]
    rate: u64,
    /// Submissions per second of the run that sleeps between submissions
    #[arg(long, default_value_t = 4000)]
    lower_rate: u64,
    /// Number of connections of the run that measures memory
    #[arg(long, default_value_t = 10_000)]
    connections: u64,
}

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let bench = Bench::new(common, options)?;
    let mut rows = Vec::new();
    for (what, issuers, ahead, target) in [
        ("P-256, minted ahead", "p256", true, 40.0),
        ("P-256, minted on the fly", "p256", false, 70.0),
        ("RSA-2048, minted ahead", "rsa", true, 40.0),
    ] {
        let found = bench.at_rate(options.rate, issuers, ahead)?;
        let cpu = cpu_us(&found)?;
        rows.push(Row::at_most(
            format!("{what}, {}/s: CPU per request", options.rate),
            cpu,
            "µs",
            target,
        ));
        rows.push(Row::new(
            format!("{what}: submission p50, p99"),
            latencies(&found)?,
        ));
    }
    let lower = bench.at_rate(options.lower_rate, "p256", true)?;
    rows.push(Row::new(
        format!(
            "P-256, minted ahead, {}/s: CPU per request",
            options.lower_rate
        ),
        format!("{:.1} µs", cpu_us(&lower)?),
    ));
    let fastest = bench.as_fast_as_possible()?;
    let rate = requests(&fastest)? as f64 / fastest.duration;
    let verdict = if rate >= 10_000.0 { "ok" } else { "MISSED" };
    rows.push(Row::new(
        "highest rate of one core, minted ahead",
        format!("{rate:.0}/s   at least 10000: {verdict}"),
    ));
    rows.push(Row::new(
        "CPU per request at that rate",
        format!("{:.1} µs", cpu_us(&fastest)?),
    ));
    for seconds in [options.duration, 3 * options.duration] {
        let many = bench.many_connections(seconds)?;
        let memory = many
            .environment
            .peak_memory
            .context("the summary has no peakMemory")?;
        let what = format!("memory, {} connections, {seconds} s", options.connections);
        rows.push(Row::at_most(what, memory as f64 / 1e6, "MB", 200.0));
    }
    let title = format!(
        "lucarne load on one core, {} s each, every SCT verified, no tree audit",
        options.duration
    );
    print(&title, &rows);
    Ok(())
}

struct Bench<'a> {
    common: &'a Common,
    options: &'a Options,
    lucarne: PathBuf,
    store: PathBuf,
    authorities: PathBuf,
    seed: PathBuf,
    /// Public key in base64.
    key: String,
}

impl<'a> Bench<'a> {
    fn new(common: &'a Common, options: &'a Options) -> Result<Self> {
        let store = std::path::absolute(&common.store)?;
        fs::create_dir_all(&store)?;
        let seed = store.join("own.seed");
        let secret = [7; 32];
        fs::write(&seed, secret)?;
        let key = LogKey::from_seed(&secret)?;
        let lucarne = std::path::absolute(&common.binary)?;
        Ok(Self {
            common,
            options,
            authorities: authorities::open(&lucarne, &store)?,
            lucarne,
            key: STANDARD.encode_to_string(key.public_key_spki()),
            store,
            seed,
        })
    }

    fn at_rate(&self, rate: u64, issuers: &str, ahead: bool) -> Result<Summary> {
        let seconds = self.options.duration;
        let mut load = vec![format!("--rate={rate}"), format!("--issuers={issuers}")];
        if ahead {
            load.push(format!("--ahead={}", rate * seconds));
        }
        self.measure(0, seconds, &load)
    }

    /// Runs sixty-four users, each of which submits again after each response.
    fn as_fast_as_possible(&self) -> Result<Summary> {
        let seconds = self.options.duration;
        let ahead = format!("--ahead={}", 25_000 * seconds);
        let load = ["--vus=64".to_owned(), "--issuers=p256".to_owned(), ahead];
        self.measure(0, seconds, &load)
    }

    /// Runs a load in which each response takes two seconds, so that every user has a request in
    /// flight.
    fn many_connections(&self, seconds: u64) -> Result<Summary> {
        let connections = self.options.connections;
        let load = [format!("--vus={connections}"), "--issuers=p256".to_owned()];
        self.measure(2000, seconds, &load)
    }

    fn measure(&self, delay: u64, seconds: u64, load: &[String]) -> Result<Summary> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let _server = self.server(address, delay)?;
        let file = self.store.join("own.json");
        let _ = fs::remove_file(&file);
        let mut command = Command::new(&self.lucarne);
        command
            .args(["load", "ct-write", "--no-ui", "--audit=none"])
            // Precertificates, duplicates and probes would reveal that this server is not a log.
            .args(["--precerts=0", "--duplicates=0", "--probe-interval=0s"])
            .arg(format!("--log-url=http://{address}"))
            .arg(format!("--origin={address}"))
            .arg(format!("--log-public-key={}", self.key))
            .arg(format!("--duration={seconds}s"))
            .arg("--roots")
            .arg(&self.authorities)
            .arg("--summary")
            .arg(&file)
            .args(load);
        let output = command
            .output()
            .with_context(|| format!("cannot run {command:?}"))?;
        if !output.status.success() {
            bail!(
                "{command:?} failed ({}):\n{}{}",
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("cannot parse {}", file.display()))
    }

    fn server(&self, address: SocketAddr, delay: u64) -> Result<Server> {
        Launch::new(std::env::current_exe()?)
            .args(["sct-server", "--listen", &address.to_string()])
            .arg("--delay")
            .arg(delay.to_string())
            .arg("--seed")
            .arg(&self.seed)
            .pin(self.common.server_core)
            .start(address)
    }
}

fn requests(summary: &Summary) -> Result<u64> {
    match summary.total("http_reqs") {
        Some(Metric::Counter { count }) if count > 0 => Ok(count),
        _ => bail!("expected requests in the summary, found none"),
    }
}

/// Returns the CPU time of the whole process per request, from the first arrival to the last
/// response, in microseconds.
fn cpu_us(summary: &Summary) -> Result<f64> {
    let cpu = summary
        .environment
        .process_cpu
        .context("the summary has no processCpu")?;
    Ok(cpu * 1e6 / requests(summary)? as f64)
}

fn latencies(summary: &Summary) -> Result<String> {
    let durations = summary
        .total("http_req_duration")
        .context("the summary has no http_req_duration")?;
    let latency = durations
        .trend()
        .context("http_req_duration is not a trend")?;
    ensure!(
        !latency.is_empty(),
        "expected requests in the summary, found none"
    );
    let ms = |p| latency.percentile(p).as_secs_f64() * 1000.0;
    Ok(format!("{:.1}, {:.1} ms", ms(50.0), ms(99.0)))
}

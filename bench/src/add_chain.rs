use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lucarne_mint::CaDirectory;
use lucarne_testkit::{LogUnderTest, Place, Server, Usage, tls_client, usage};

use crate::{
    Common,
    chains::{Issuer, Store},
    endpoint::Endpoint,
    floor,
    load::{self, Arrivals, Outcome, Plan},
    syncs::Counter,
    table::{Row, failures, latencies, millis, print},
};

/// Periods in milliseconds for the comparison of latency and syncs: a short period, and the period
/// of Sunlight's logs with a small margin.
const PERIODS: [u64; 2] = [40, 220];

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// CA that signs the leaves; without it, print the whole table
    #[arg(long)]
    issuer: Option<Issuer>,
    /// Submissions per second, open loop: latency counts from the intended start
    #[arg(long, conflicts_with_all = ["max", "fraction"])]
    rate: Option<f64>,
    /// Send the next request after each response (the default for one issuer)
    #[arg(long)]
    max: bool,
    /// Measure the highest rate, then run at this fraction of it
    #[arg(long, conflicts_with = "max")]
    fraction: Option<f64>,
    /// Keep-alive HTTP/1.1 connections
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// Duration of each measured run in seconds
    #[arg(long, default_value_t = 8.0)]
    duration: f64,
    /// Warm-up before each run in seconds, not measured
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// Period of the log in milliseconds
    #[arg(long, default_value_t = 100)]
    period: u64,
    /// Share of submissions that repeat an earlier one
    #[arg(long, default_value_t = 0.1)]
    duplicates: f64,
    /// Submit over TLS, with all handshakes before the measured time
    #[arg(long)]
    https: bool,
    /// Count sync operations with strace (slows the server; use with --rate)
    #[arg(long)]
    syncs: bool,
    /// Add a line to the log's section of the configuration (`poolsize: 8000`)
    #[arg(long)]
    setting: Vec<String>,
}

/// Conditions of one run.
pub(crate) struct Run {
    pub(crate) issuer: Issuer,
    pub(crate) arrivals: Arrivals,
    pub(crate) period: u64,
    pub(crate) syncs: bool,
    /// Place of the log's data and lock.
    pub(crate) place: Place,
}

/// Figures of one run.
pub(crate) struct Figures {
    pub(crate) outcome: Outcome,
    before: Usage,
    after: Usage,
    body: usize,
    syncs: Option<Vec<(String, u64)>>,
    /// Numbers of requests to object stores before and after the run.
    requests: [u64; 2],
}

impl Options {
    /// Returns the options of the whole table, with these values.
    pub(crate) fn with(connections: usize, duration: f64, period: u64) -> Self {
        Self {
            issuer: None,
            rate: None,
            max: false,
            fraction: None,
            connections,
            duration,
            warm_up: 1.0,
            period,
            duplicates: 0.1,
            https: false,
            syncs: false,
            setting: Vec::new(),
        }
    }

    /// Returns these options with or without TLS.
    pub(crate) fn over_tls(self, https: bool) -> Self {
        Self { https, ..self }
    }
}

impl Figures {
    pub(crate) fn rate(&self) -> f64 {
        self.outcome.new as f64 / self.outcome.seconds
    }

    fn per_new(&self, amount: u64) -> f64 {
        amount as f64 / self.outcome.new.max(1) as f64
    }

    /// Returns the CPU time of the log's process per new entry, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.per_new(self.after.cpu_us - self.before.cpu_us)
    }

    /// Returns the number of requests to object stores per 1,000 new entries.
    pub(crate) fn requests_per_1000(&self) -> f64 {
        1000.0 * self.per_new(self.requests[1] - self.requests[0])
    }

    fn written(&self) -> f64 {
        self.per_new(self.after.written - self.before.written)
    }

    /// Returns the number of sync operations per 1,000 new entries.
    fn syncs_per_1000(&self) -> Option<f64> {
        let all = self.syncs.as_ref()?.iter().map(|(_, count)| count).sum();
        Some(1000.0 * self.per_new(all))
    }
}

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let bench = Bench::new(common, options)?;
    let Some(issuer) = options.issuer else {
        return bench.table();
    };
    let once = |arrivals| Run {
        issuer,
        arrivals,
        period: options.period,
        syncs: options.syncs,
        place: Place::directory(),
    };
    let arrivals = match (options.rate, options.fraction) {
        (Some(rate), _) => Arrivals::Open(rate),
        (None, Some(fraction)) => {
            let highest = bench.run(&once(Arrivals::Closed))?;
            bench.print(&once(Arrivals::Closed), &highest);
            Arrivals::Open(fraction * submissions_per_second(&highest.outcome))
        }
        (None, None) => Arrivals::Closed,
    };
    let run = once(arrivals);
    bench.print(&run, &bench.run(&run)?);
    Ok(())
}

/// Starts the server and waits until it accepts submissions.
pub(crate) fn start(log: &LogUnderTest) -> Result<Server> {
    let server = log.start()?;
    wait(log.ready(Duration::from_secs(30)))?.with_context(|| {
        format!(
            "the log is not ready; the server printed:\n{}",
            server.output()
        )
    })?;
    Ok(server)
}

/// Starts the server over TLS, with a test certificate that it generates.
pub(crate) fn start_https(log: &LogUnderTest) -> Result<(Server, Endpoint)> {
    let server = log.launch("serve").arg("--testcert").start(log.address())?;
    let ca = CaDirectory::at(log.path().join("cache/testcert")).open()?;
    let endpoint = Endpoint {
        address: log.address(),
        tls: Some(tls_client([ca.cert_der().to_vec()], &[])?),
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while endpoint.get("/health").is_err() {
        ensure!(
            Instant::now() < deadline,
            "the server is not healthy:\n{}",
            server.output()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok((server, endpoint))
}

/// Runs a future to its end on this thread.
pub(crate) fn wait<T>(task: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(task))
}

/// Returns the number of requests that the log has sent to object stores so far, including requests
/// of its lock.
fn store_requests(endpoint: &Endpoint) -> Result<u64> {
    let metrics = endpoint.get("/metrics")?;
    let lines = metrics.lines();
    let counters = lines.filter(|line| line.starts_with("lucarne_store_requests_total{"));
    let counts = counters.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    Ok(counts.sum())
}

pub(crate) fn submissions_per_second(outcome: &Outcome) -> f64 {
    outcome.answered as f64 / outcome.seconds
}

pub(crate) struct Bench<'a> {
    common: &'a Common,
    options: &'a Options,
    store: Store,
    /// Logs of all earlier runs, kept until the last run. On an ext4 file system without a journal,
    /// the creation of a file skips recently freed inodes one by one, so deleting a log would slow
    /// the next run.
    kept: RefCell<Vec<LogUnderTest>>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(common: &'a Common, options: &'a Options) -> Result<Self> {
        Ok(Self {
            common,
            options,
            store: Store::open(&common.store)?,
            kept: RefCell::default(),
        })
    }

    /// Creates a log, starts one server, and runs one load.
    pub(crate) fn run(&self, run: &Run) -> Result<Figures> {
        let options = self.options;
        let settings = format!("period: {}\n{}", run.period, options.setting.join("\n"));
        let log = LogUnderTest::create_at(
            run.place.clone(),
            std::path::absolute(&self.common.binary)?,
            &self.store.pki.roots_pem(),
            settings.trim(),
        )?
        .pin(self.common.server_core);
        let (server, endpoint) = if options.https {
            start_https(&log)?
        } else {
            (start(&log)?, log.address().into())
        };
        let seconds = options.warm_up + options.duration;
        let chains = (seconds * rate_expected(run)) as usize;
        let host = log.address().to_string();
        let path = "/test/ct/v1/add-chain";
        let mut requests =
            self.store
                .submissions(run.issuer, chains, &host, path, options.duplicates)?;
        let body = requests.body_length();
        let plan = Plan {
            connections: options.connections,
            arrivals: run.arrivals,
            warm_up: Duration::from_secs_f64(options.warm_up),
            duration: Duration::from_secs_f64(options.duration),
        };
        let mut marks = Vec::new();
        let mut requests_sent = Vec::new();
        let mut counter = None;
        let mut syncs = None;
        let mut mark = || -> Result<()> {
            if marks.is_empty() && run.syncs {
                counter = Counter::attach(server.pid(), log.path());
            } else if let Some(counter) = counter.take() {
                syncs = Some(counter.finish()?);
            }
            marks.push(usage(server.pid())?);
            requests_sent.push(store_requests(&endpoint)?);
            Ok(())
        };
        let outcome =
            load::run(endpoint.clone(), &plan, &mut requests, &mut mark).with_context(|| {
                format!("the load failed; the server printed:\n{}", server.output())
            })?;
        self.check_size(&endpoint, &server, &outcome)?;
        self.kept.borrow_mut().push(log);
        Ok(Figures {
            outcome,
            before: marks[0],
            after: marks[1],
            body,
            syncs,
            requests: [requests_sent[0], requests_sent[1]],
        })
    }

    /// Checks that the log has exactly the new entries that it acknowledged.
    fn check_size(&self, endpoint: &Endpoint, server: &Server, outcome: &Outcome) -> Result<()> {
        let checkpoint = endpoint.get("/test/checkpoint")?;
        let size: u64 = checkpoint
            .lines()
            .nth(1)
            .and_then(|line| line.parse().ok())
            .unwrap_or(0);
        let all = outcome.new_in_all;
        if !outcome.failures.is_empty() {
            println!("  responses other than 200: {}", failures(outcome));
        }
        ensure!(
            size >= all && (size == all || !outcome.failures.is_empty()),
            "expected {all} entries, which were acknowledged as new, found {size}; the server \
             printed:\n{}",
            server.output()
        );
        Ok(())
    }

    fn print(&self, run: &Run, figures: &Figures) {
        let outcome = &figures.outcome;
        let mut rows = vec![
            Row::new("new entries", format!("{:.0}/s", figures.rate())),
            Row::new(
                "submissions",
                format!("{:.0}/s", submissions_per_second(outcome)),
            ),
            Row::new(
                "server CPU per new entry",
                format!("{:.1} µs", figures.cpu_us()),
            ),
            Row::new("latency", latencies(outcome)),
            Row::new("RSS, peak", megabytes(figures.after.peak_rss)),
            Row::new("RSS, at the end", megabytes(figures.after.rss)),
            Row::new(
                "written per new entry",
                format!("{:.0} bytes", figures.written()),
            ),
            Row::new("failures", failures(outcome)),
            Row::new(
                "load's own CPU per response",
                format!("{:.1} µs", outcome.own_cpu_us),
            ),
        ];
        if run.syncs {
            rows.push(sync_row(figures, None));
        }
        if let Arrivals::Open(asked) = run.arrivals
            && submissions_per_second(outcome) < 0.98 * asked
        {
            rows.push(Row::new("NOT ACHIEVED", format!("expected {asked:.0}/s")));
        }
        if outcome.cut_short {
            let when = format!("after {:.1} s", outcome.seconds);
            rows.push(Row::new("chains ran out", when));
        }
        let how = match run.arrivals {
            Arrivals::Closed => "as fast as it responds".to_owned(),
            Arrivals::Open(rate) => format!("{rate:.0} submissions/s"),
        };
        let title = format!(
            "{} issuer, {how}, {} connections, period {} ms, {:.0} % duplicates, body {} bytes",
            run.issuer.name(),
            self.options.connections,
            run.period,
            self.options.duplicates * 100.0,
            figures.body,
        );
        print(&title, &rows);
    }

    /// Prints the table of all issuers and rates.
    fn table(&self) -> Result<()> {
        let period = self.options.period;
        let run = |issuer, arrivals| Run {
            issuer,
            arrivals,
            period,
            syncs: false,
            place: Place::directory(),
        };
        let mut rows = Vec::new();
        let floor = floor::measure(self.common, &self.store, self.options.connections)?;
        rows.push(Row::new(
            "floor: hyper, decode, verify RSA, sign",
            format!("{floor:.1} µs"),
        ));

        let mut highest = 0.0;
        for (issuer, target) in [
            (Issuer::Rsa, 75.0),
            (Issuer::P256, 115.0),
            (Issuer::P384, 270.0),
        ] {
            let run = run(issuer, Arrivals::Closed);
            let figures = self.run(&run)?;
            self.print(&run, &figures);
            let name = issuer.name();
            rows.push(Row::new(
                format!("{name}: highest rate"),
                format!("{:.0}/s", figures.rate()),
            ));
            let what = format!("{name}: CPU per new entry");
            rows.push(Row::at_most(what, figures.cpu_us(), "µs", target));
            let peak = figures.after.peak_rss as f64 / 1e6;
            rows.push(Row::at_most(format!("{name}: peak RSS"), peak, "MB", 150.0));
            if issuer == Issuer::Rsa {
                highest = submissions_per_second(&figures.outcome);
                let ratio = format!("{:.2}", figures.cpu_us() / floor);
                rows.push(Row::new("RSA-2048: CPU, times the floor", ratio));
            }
        }

        let at = |rate| run(Issuer::Rsa, Arrivals::Open(rate));
        let busy = self.run(&at(0.8 * highest))?;
        self.print(&at(0.8 * highest), &busy);
        let most = 2.0 * period as f64;
        rows.push(Row::at_most(
            "p99 at 80 %",
            millis(&busy.outcome, 99.0),
            "ms",
            most,
        ));

        let plain = self.run(&at(500.0))?;
        self.print(&at(500.0), &plain);
        rows.push(Row::new(
            "CPU per new entry at 500/s",
            format!("{:.1} µs", plain.cpu_us()),
        ));
        // A round of any size waits for two syncs. A short period has a low latency but many syncs,
        // and an operator chooses the period.
        for period in PERIODS {
            let quiet = Run {
                period,
                ..at(250.0)
            };
            let figures = self.run(&quiet)?;
            self.print(&quiet, &figures);
            let what = format!("p50 at 250/s, period {period} ms");
            let p50 = millis(&figures.outcome, 50.0);
            rows.push(Row::at_most(what, p50, "ms", 25.0));
            let counted = Run {
                period,
                syncs: true,
                ..at(500.0)
            };
            let mut row = sync_row(&self.run(&counted)?, Some(20.0));
            row.what = format!("syncs per 1,000 at 500/s, period {period} ms");
            rows.push(row);
        }
        print(&format!("Summary (period {period} ms)"), &rows);
        Ok(())
    }
}

fn sync_row(figures: &Figures, target: Option<f64>) -> Row {
    let (Some(rate), Some(kinds)) = (figures.syncs_per_1000(), &figures.syncs) else {
        let hint = "not counted: strace is absent or may not attach (apt-get install strace)";
        return Row::new("syncs per 1,000 new entries", hint);
    };
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(name, n)| format!("{n} {name}"))
        .collect();
    let figure = format!("{rate:.1} ({})", kinds.join(", "));
    let row = Row::new("syncs per 1,000 new entries", figure);
    match target {
        Some(target) => row.with_target(rate, target),
        None => row,
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Returns the number of different chains to prepare for each second of the run.
fn rate_expected(run: &Run) -> f64 {
    match (run.arrivals, run.issuer) {
        (Arrivals::Open(rate), _) => rate + 10.0,
        (Arrivals::Closed, Issuer::Rsa) => 16_000.0,
        (Arrivals::Closed, Issuer::P256) => 10_000.0,
        (Arrivals::Closed, Issuer::P384) => 5_000.0,
    }
}

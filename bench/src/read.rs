use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use lucarne_testkit::{Client, LogUnderTest, usage};

use crate::{
    Common,
    add_chain::{start, wait},
    chains::{Issuer, Store},
    connection::Pieces,
    load::{self, Arrivals, Plan, Requests},
    nginx,
    table::{Row, print},
};

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Keep-alive HTTP/1.1 connections
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Measured seconds per server, resource and round
    #[arg(long, default_value_t = 2.0)]
    duration: f64,
    /// How often the servers take turns
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Entries in the log that is read
    #[arg(long, default_value_t = 2000)]
    entries: usize,
}

/// The resources that are read: name and path.
const RESOURCES: [(&str, &str); 3] = [
    ("hash tile", "tile/0/000"),
    ("full data tile", "tile/data/000"),
    ("checkpoint", "checkpoint"),
];

/// A server and the path under which it has the log.
struct Target {
    name: &'static str,
    pid: u32,
    address: SocketAddr,
    prefix: &'static str,
}

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let store = Store::open(&common.store)?;
    let binary = std::path::absolute(&common.binary)?;
    let log =
        LogUnderTest::create(binary, &store.pki.roots_pem(), "period: 50")?.pin(common.server_core);
    let server = start(&log)?;
    fill(&log, &store, options.entries).with_context(|| server.output())?;
    let nginx = nginx::start(&log.data(), log.path(), common.server_core)?;
    let mut targets = vec![Target {
        name: "lucarne",
        pid: server.pid(),
        address: log.address(),
        prefix: "/test/",
    }];
    targets.extend(nginx.as_ref().map(|nginx| Target {
        name: "nginx",
        pid: nginx.server.pid(),
        address: nginx.address,
        prefix: "/",
    }));
    let mut rows = Vec::new();
    for (what, path) in RESOURCES {
        let size = same_bytes(&targets, path)?;
        let mut costs = vec![Vec::new(); targets.len()];
        for _round in 0..options.rounds {
            for (target, costs) in targets.iter().zip(&mut costs) {
                costs.push(measure(target, path, options)?);
            }
        }
        let costs: Vec<f64> = costs.iter().map(|costs| median(costs)).collect();
        let what = format!("{what} ({size} bytes)");
        let mut figure: Vec<String> = targets
            .iter()
            .zip(&costs)
            .map(|(target, cost)| format!("{} {cost:.1} µs", target.name))
            .collect();
        let mut row = Row::new(what, "");
        if let [ours, theirs] = costs[..] {
            figure.push(format!("ratio {:.2}", ours / theirs));
            row.target = Some((ours / theirs, 1.0));
        }
        row.figure = figure.join("   ");
        rows.push(row);
    }
    let title = format!(
        "CPU per request, {} connections, median of {} rounds taken in turn",
        options.connections, options.rounds
    );
    print(&title, &rows);
    Ok(())
}

/// Submits enough that there are full tiles, and waits for them.
pub(crate) fn fill(log: &LogUnderTest, store: &Store, entries: usize) -> Result<()> {
    let host = log.address().to_string();
    let path = "/test/ct/v1/add-chain";
    let mut requests = store.submissions(Issuer::Rsa, entries, &host, path, 0.0)?;
    let plan = Plan {
        connections: 64,
        arrivals: Arrivals::Closed,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(60),
    };
    let outcome = load::run(log.address(), &plan, &mut requests, &mut || Ok(()))?;
    ensure!(
        outcome.new_in_all >= 512,
        "only {} entries went in",
        outcome.new_in_all
    );
    // Compression and the journal's settling may follow behind.
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}

/// Both servers must answer with the same bytes: how many.
fn same_bytes(targets: &[Target], path: &str) -> Result<usize> {
    let mut bodies = Vec::new();
    for target in targets {
        let client = Client::new(format!("http://{}{}", target.address, target.prefix));
        let answer = client.get_with(path, &[("accept-encoding", "gzip")]);
        let body = wait(answer)??.ok();
        bodies.push(body.with_context(|| format!("{}: {path}", target.name))?);
    }
    let same = path == "checkpoint" || bodies.windows(2).all(|two| two[0] == two[1]);
    ensure!(same, "{path}: the servers do not give the same bytes");
    Ok(bodies[0].len())
}

/// CPU per request in microseconds.
fn measure(target: &Target, path: &str, options: &Options) -> Result<f64> {
    let mut request = Get::new(target, path);
    let plan = Plan {
        connections: options.connections,
        arrivals: Arrivals::Closed,
        warm_up: Duration::from_millis(300),
        duration: Duration::from_secs_f64(options.duration),
    };
    let mut marks = Vec::new();
    let outcome = load::run(target.address, &plan, &mut request, &mut || {
        marks.push(usage(target.pid)?.cpu_us);
        Ok(())
    })?;
    let failures = &outcome.failures;
    ensure!(failures.is_empty(), "{}: {path}: {failures:?}", target.name);
    Ok((marks[1] - marks[0]) as f64 / outcome.answered.max(1) as f64)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The same GET over and over.
struct Get(String);

impl Get {
    fn new(target: &Target, path: &str) -> Self {
        Get(format!(
            "GET {}{path} HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: gzip\r\n\r\n",
            target.prefix, target.address
        ))
    }
}

impl Requests for Get {
    fn next(&mut self) -> Option<(u32, Pieces<'_>)> {
        Some((0, [self.0.as_bytes(), b"", b"", b""]))
    }
}

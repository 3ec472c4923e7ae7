use std::{fs, time::Duration};

use anyhow::{Context, Result, ensure};
use lucarne_load::http::Version;
use lucarne_mint::{CaDirectory, LeafOptions, pem};
use lucarne_testkit::{LogUnderTest, Server, usage};

use crate::{
    Common,
    add_chain::{start, start_https},
    chains::{Issuer, Store},
    connection::Pieces,
    endpoint::Endpoint,
    http2,
    load::{self, Arrivals, Plan, Requests},
    nginx::{self, CertificateFiles, Nginx},
    table::{Row, print},
};

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Number of keep-alive connections, with one request at a time on each
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Duration of each measurement in seconds, per server, resource and round
    #[arg(long, default_value_t = 2.0)]
    duration: f64,
    /// Number of rounds in which the servers take turns
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Number of entries in the log
    #[arg(long, default_value_t = 2000)]
    entries: usize,
    /// Compare limits of reading that no client reaches with no limits; restarts the server for
    /// each turn
    #[arg(long)]
    limits: bool,
}

/// Names and paths of the resources to read.
const RESOURCES: [(&str, &str); 3] = [
    ("hash tile", "tile/0/000"),
    ("full data tile", "tile/data/000"),
    ("checkpoint", "checkpoint"),
];

/// A server, and the path of the log on it.
struct Target {
    name: &'static str,
    pid: u32,
    endpoint: Endpoint,
    prefix: &'static str,
    version: Version,
}

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let store = Store::open(&common.store)?;
    let binary = std::path::absolute(&common.binary)?;
    let log =
        LogUnderTest::create(binary, &store.pki.roots_pem(), "period: 50")?.pin(common.server_core);
    let mut rows = Vec::new();
    {
        let server = start(&log)?;
        fill(&log, &store, options.entries).with_context(|| {
            format!(
                "cannot fill the log; the server printed:\n{}",
                server.output()
            )
        })?;
        if options.limits {
            return compare_limits(&log, server, options);
        }
        let nginx = nginx::start(&log.data(), log.path(), None, common.server_core)?;
        let endpoint = Endpoint::from(log.address());
        let nginx = nginx.as_ref();
        rows.extend(beside(&server, endpoint, nginx, options, Version::Http1)?);
    }
    let (server, endpoint) = start_https(&log)?;
    let files = certificate(&log)?;
    let nginx = nginx::start(&log.data(), log.path(), Some(&files), common.server_core)?;
    for version in [Version::Http1, Version::Http2] {
        let endpoint = endpoint.clone();
        rows.extend(beside(&server, endpoint, nginx.as_ref(), options, version)?);
    }
    let title = format!(
        "CPU per request, {} connections, median of {} rounds taken in turn",
        options.connections, options.rounds
    );
    print(&title, &rows);
    Ok(())
}

/// Returns a certificate and its key for nginx, from the CA that the server has generated.
fn certificate(log: &LogUnderTest) -> Result<CertificateFiles> {
    let ca = CaDirectory::at(log.path().join("cache/testcert")).open()?;
    let leaf = LeafOptions::for_names(["127.0.0.1"])?;
    let files = CertificateFiles {
        certificate: log.path().join("nginx-certificate.pem"),
        key: log.path().join("nginx-key.pem"),
    };
    let certificate = pem::encode("CERTIFICATE", &ca.issue(&leaf)?);
    fs::write(&files.certificate, certificate)?;
    let key = pem::encode("PRIVATE KEY", &leaf.key.to_pkcs8()?);
    fs::write(&files.key, key)?;
    Ok(files)
}

/// Measures the cost of each resource on both servers in turn.
fn beside(
    server: &Server,
    endpoint: Endpoint,
    nginx: Option<&Nginx>,
    options: &Options,
    version: Version,
) -> Result<Vec<Row>> {
    let tls = endpoint.tls.clone();
    let protocol = match version {
        Version::Http1 => endpoint.scheme().to_uppercase(),
        Version::Http2 => version.name().to_owned(),
    };
    let mut targets = vec![Target {
        name: "lucarne",
        pid: server.pid(),
        endpoint,
        prefix: "/test/",
        version,
    }];
    targets.extend(nginx.map(|nginx| Target {
        name: "nginx",
        pid: nginx.server.pid(),
        endpoint: Endpoint {
            address: nginx.address,
            tls,
        },
        prefix: "/",
        version,
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
        let what = format!("{what} over {protocol} ({size} bytes)");
        let mut figure: Vec<String> = targets
            .iter()
            .zip(&costs)
            .map(|(target, cost)| format!("{} {cost:.1} µs", target.name))
            .collect();
        let mut row = Row::new(what, "");
        if let [ours, theirs] = costs[..] {
            figure.push(format!("ratio {:.2}", ours / theirs));
            row = row.with_target(ours / theirs, 1.0);
        }
        row.figure = figure.join("   ");
        rows.push(row);
    }
    Ok(rows)
}

/// Additions to the configuration: limits above the capacity of one core, for a client without a
/// proxy; and no limits.
const LIMITS: [(&str, &str); 2] = [
    (
        "limits",
        "http: {trusted_proxies: []}\n\
         read_limits: {client_rate: 1000000000, client_burst: 1000000000, no_contact_rate: 1000000000, \
         no_contact_burst: 1000000000}\n",
    ),
    ("none", "read_limits: off\n"),
];

/// Compares the same server with and without limits of reading, in turn.
fn compare_limits(log: &LogUnderTest, mut server: Server, options: &Options) -> Result<()> {
    let configuration = fs::read_to_string(log.configuration())?;
    let mut costs = vec![[Vec::new(), Vec::new()]; RESOURCES.len()];
    for _round in 0..options.rounds {
        for (turn, (name, settings)) in LIMITS.into_iter().enumerate() {
            server.stop(Duration::from_secs(30))?;
            fs::write(log.configuration(), format!("{settings}{configuration}"))?;
            server = start(log)?;
            let target = Target {
                name,
                pid: server.pid(),
                endpoint: log.address().into(),
                prefix: "/test/",
                version: Version::Http1,
            };
            for ((_, path), costs) in RESOURCES.iter().zip(&mut costs) {
                costs[turn].push(measure(&target, path, options)?);
            }
        }
    }
    let rows = RESOURCES.iter().zip(&costs).map(|((what, _), costs)| {
        let [with, without] = costs.each_ref().map(|costs| median(costs));
        let ratio = with / without;
        let figure = format!("limits {with:.1} µs   none {without:.1} µs   ratio {ratio:.2}");
        Row::new(*what, figure).with_target(ratio, 1.1)
    });
    let title = format!(
        "CPU per request, {} connections, median of {} rounds taken in turn",
        options.connections, options.rounds
    );
    print(&title, &rows.collect::<Vec<_>>());
    Ok(())
}

/// Submits enough entries for full tiles, and waits for the tiles.
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
        "expected at least 512 entries, found {}",
        outcome.new_in_all
    );
    // Compression and the settling of the journal may still be running.
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}

/// Checks that all servers return the same bytes, and returns their number.
fn same_bytes(targets: &[Target], path: &str) -> Result<usize> {
    let mut bodies = Vec::new();
    for target in targets {
        let body = target
            .endpoint
            .get_gzip(&format!("{}{path}", target.prefix));
        bodies.push(body.with_context(|| format!("cannot fetch {path} from {}", target.name))?);
    }
    let same = path == "checkpoint" || bodies.windows(2).all(|two| two[0] == two[1]);
    ensure!(same, "{path}: the servers return different bytes");
    Ok(bodies[0].len())
}

/// Measures the CPU per request, in microseconds.
fn measure(target: &Target, path: &str, options: &Options) -> Result<f64> {
    let plan = Plan {
        connections: options.connections,
        arrivals: Arrivals::Closed,
        warm_up: Duration::from_millis(300),
        duration: Duration::from_secs_f64(options.duration),
    };
    let mut marks = Vec::new();
    let mut mark = || {
        marks.push(usage(target.pid)?.cpu_us);
        Ok(())
    };
    let answered = match target.version {
        Version::Http1 => answered(target, path, &plan, &mut mark)?,
        Version::Http2 => {
            let (scheme, address) = (target.endpoint.scheme(), target.endpoint.address);
            let path = format!("{}{path}", target.prefix);
            http2::run(&format!("{scheme}://{address}"), &path, &plan, &mut mark)?
        }
    };
    Ok((marks[1] - marks[0]) as f64 / answered.max(1) as f64)
}

/// Returns the number of responses over HTTP/1.1.
fn answered(
    target: &Target,
    path: &str,
    plan: &Plan,
    mark: &mut dyn FnMut() -> Result<()>,
) -> Result<u64> {
    let mut request = Get::new(target, path);
    let outcome = load::run(target.endpoint.clone(), plan, &mut request, mark)?;
    let failures = &outcome.failures;
    ensure!(
        failures.is_empty(),
        "requests for {path} to {} failed: {failures:?}",
        target.name
    );
    Ok(outcome.answered)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Repeats the same GET.
struct Get(String);

impl Get {
    fn new(target: &Target, path: &str) -> Self {
        Get(format!(
            "GET {}{path} HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: gzip\r\n\r\n",
            target.prefix, target.endpoint.address
        ))
    }
}

impl Requests for Get {
    fn next(&mut self) -> Option<(u32, Pieces<'_>)> {
        Some((0, [self.0.as_bytes(), b"", b"", b""]))
    }
}

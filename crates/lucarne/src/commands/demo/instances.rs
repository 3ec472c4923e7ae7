//! `lucarne demo --instances 3`: three processes of one log, with a balancer in front, a page that
//! shows the leader, and a bucket as shared storage. The demo prints the command that kills the
//! leader, and reports the effect.

mod balancer;
mod bucket;
mod client;
mod process;
mod server;

use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::process::Command;

use self::balancer::{Balancer, PAGE};
use self::bucket::Bucket;
use self::client::Client;
use self::process::{Part, Process, Standing};
use super::home::Home;
use super::screen::Screen;
use super::traffic::Traffic;
use super::{Options, configuration, parse};
use crate::signals::{Signals, Wish};

/// Interval between two checks of the instances.
const LOOK: Duration = Duration::from_millis(200);
/// Submissions per second without `--rate`; enough to measure a gap.
const RATE: u32 = 10;
/// Credentials that S3 clients require. The bucket of the demo does not check credentials.
const CREDENTIALS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "demo"),
    ("AWS_SECRET_ACCESS_KEY", "demo"),
    ("AWS_REGION", "us-east-1"),
];

/// Returns the command that kills a process.
fn kill(pid: &str) -> String {
    format!("kill -9 {pid}")
}

/// Runs `count` instances until a signal stops the demo.
pub(super) async fn run(options: &Options, count: usize) -> Result<()> {
    let screen = Screen::new();
    let directory = options.directory();
    let place = parse(options.listen.as_deref().unwrap_or(super::LISTEN))?;
    drop(crate::listen::bind(&place, "--listen").await?);
    let front = TcpListener::bind(&*place.addresses).await?;
    screen.title(directory);
    // The bucket's name is a credential, so the directory must be private.
    let mut private = std::fs::DirBuilder::new();
    let made = private.recursive(true).mode(0o700).create(directory);
    made.with_context(|| format!("cannot create directory {}", directory.display()))?;
    let home = Home::open(directory)?;
    let mut signals = Signals::listen()?;
    let store = TcpListener::bind("127.0.0.1:0").await?;
    let settings = Settings::new(&home, &super::reachable(&place), &store)?;
    let bucket = Bucket::open(settings.bucket.clone(), home.directory().join("bucket"))?;
    tokio::spawn(bucket.serve(store));
    let addresses = free_addresses(2 * count)?;
    let (pairs, _) = addresses.as_chunks();
    let mut instances = Vec::new();
    for (number, pair) in (1..).zip(pairs) {
        instances.push(Mutex::new(settings.write(&home, number, pair)?));
    }
    make(home.directory()).await?;
    let (_, log) = configuration(&home, &home.directory().join("instance1.yaml"))?;
    let base = format!("http://{}", super::reachable(&place));
    let traffic = Traffic::new(home, &log, base.clone())?;
    let (client, path) = (Client::new(), traffic.path());
    let instances: Arc<[_]> = instances.into();
    let balancer = Balancer {
        instances: Arc::clone(&instances),
        client: client.clone(),
        log: traffic.url().to_owned(),
        turn: AtomicUsize::new(0),
    };
    tokio::spawn(Arc::new(balancer).serve(front));
    let processes = (0..count).map(|_| Process::new(traffic.home(), client.clone(), &path));
    let mut processes: Vec<_> = processes.collect();
    let url = traffic.url().to_owned();
    let rate = options.rate.unwrap_or(RATE);
    let scts = (rate > 0).then(|| submit(traffic, screen, rate));
    let mut reporter = Reporter {
        screen,
        url,
        page: format!("{base}{PAGE}"),
        leader: None,
        parts: vec![Part::Away; count],
        scts,
        invited: false,
    };
    watch(&mut processes, &instances, &mut reporter, &mut signals).await?;
    futures_util::future::join_all(processes.iter_mut().map(Process::stop)).await;
    Ok(())
}

/// Submits certificates in a thread, and returns the times of the SCTs.
fn submit(traffic: Traffic, screen: Screen, rate: u32) -> Arc<Mutex<Scts>> {
    let scts = Arc::new(Mutex::new(Scts::default()));
    let submitting = Arc::clone(&scts);
    // The thread is not joined, because it ends with the process.
    std::thread::spawn(move || {
        let took = |at: Instant| submitting.lock().note(at);
        if let Err(error) = traffic.go_on(rate, took) {
            screen.trouble(&error);
        }
    });
    scts
}

/// Restarts instances that have ended, and reports changes, until a signal.
async fn watch(
    processes: &mut [Process],
    instances: &[Mutex<Standing>],
    reporter: &mut Reporter,
    signals: &mut Signals,
) -> Result<()> {
    loop {
        for (process, standing) in processes.iter_mut().zip(instances.iter()) {
            if let Some(status) = process.look(standing).await? {
                reporter.end(&standing.lock(), status);
            }
        }
        reporter.report(instances);
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            wish = signals.next() => match wish {
                // SIGHUP means that the terminal was closed, and also ends the demo.
                Wish::Stop(_) | Wish::Reread => return Ok(()),
                Wish::Successor => {}
            }
        }
    }
}

/// Creates the log with `lucarne init`, in a process that has the credentials in its environment.
async fn make(directory: &Path) -> Result<()> {
    let made = command(directory, "init", 1)?.output().await?;
    let said = String::from_utf8_lossy(&made.stderr);
    anyhow::ensure!(
        made.status.success(),
        "`lucarne init` failed ({}):\n{}",
        made.status,
        said.trim_end()
    );
    Ok(())
}

/// Returns a command that runs this program with the configuration of an instance.
fn command(directory: &Path, subcommand: &str, number: usize) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([subcommand, "-c", &format!("instance{number}.yaml")])
        .current_dir(directory)
        .envs(CREDENTIALS)
        .stdin(Stdio::null());
    Ok(command)
}

/// Common settings of all configurations.
struct Settings {
    /// Public address of the log, which never changes.
    prefix: String,
    bucket: String,
    endpoint: String,
}

impl Settings {
    fn new(home: &Home, listen: &str, store: &TcpListener) -> Result<Self> {
        home.secret("instances.key", &random()?)?;
        Ok(Settings {
            prefix: home.secret("listen", listen)?,
            bucket: home.secret("bucket.name", &random()?)?,
            endpoint: format!("http://{}", store.local_addr()?),
        })
    }

    /// Writes the configuration of an instance.
    fn write(
        &self,
        home: &Home,
        number: usize,
        [clients, others]: &[String; 2],
    ) -> Result<Standing> {
        let Settings {
            prefix,
            bucket,
            endpoint,
        } = self;
        let place = format!(
            "    s3bucket: {bucket}\n    s3endpoint: {endpoint}\n    s3style: path\n    \
             s3keyprefix: {half}/\n    cache: cache/{number}\n    period: 200ms\n    \
             instances: {{address: \"{others}\", key: instances.key}}\n",
            half = home.half(),
        );
        let text = format!(
            "# Written by `lucarne demo --instances`, at each start.\n\
             listen: [\"{clients}\"]\n\
             checkpoints: s3://{bucket}/lock?endpoint={endpoint}&style=path\n\
             logs:\n{}",
            home.log(prefix, &place)
        );
        home.write(&format!("instance{number}.yaml"), &text)?;
        Ok(Standing {
            number,
            address: clients.clone(),
            pid: None,
            part: Part::Away,
            size: None,
        })
    }
}

/// Returns 40 random hexadecimal digits, which are a valid bucket name.
fn random() -> Result<String> {
    let mut random = [0; 20];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| {
        anyhow::anyhow!("cannot create a credential: the system has no random numbers")
    })?;
    Ok(hex::encode(random))
}

/// Ports of the instances, below the ephemeral ports: a long-lived connection from an ephemeral
/// port would prevent the restart of an instance on this port.
const PORTS: Range<u16> = 10_000..20_000;

/// Returns `count` different addresses of this machine that are free at the moment.
fn free_addresses(count: usize) -> Result<Vec<String>> {
    let mut taken = Vec::new();
    // All sockets stay bound until the end of the search, so that all ports differ.
    for _ in 0..100 * count {
        if taken.len() < count {
            let mut random = [0; 2];
            aws_lc_rs::rand::fill(&mut random).map_err(|_| {
                anyhow::anyhow!("cannot choose a port: the system has no random numbers")
            })?;
            let port = PORTS.start + u16::from_ne_bytes(random) % PORTS.len() as u16;
            taken.extend(std::net::TcpListener::bind(("127.0.0.1", port)));
        }
    }
    anyhow::ensure!(
        taken.len() == count,
        "expected {count} free ports from {} to {}, found {}",
        PORTS.start,
        PORTS.end - 1,
        taken.len()
    );
    let address = |socket: &std::net::TcpListener| Ok(socket.local_addr()?.to_string());
    taken.iter().map(address).collect()
}

/// Statistics of the SCTs that arrive at the demo.
#[derive(Default)]
struct Scts {
    last: Option<Instant>,
    /// Longest interval without an SCT since the last report.
    gap: Duration,
    /// Number of SCTs since the last report.
    count: u64,
}

impl Scts {
    fn note(&mut self, at: Instant) {
        if let Some(last) = self.last.replace(at) {
            self.gap = self.gap.max(at - last);
        }
        self.count += 1;
    }
}

/// Reported state of the instances.
struct Reporter {
    screen: Screen,
    url: String,
    page: String,
    /// Number and process ID of the leader.
    leader: Option<(usize, Option<u32>)>,
    parts: Vec<Part>,
    /// `None` if the demo submits nothing.
    scts: Option<Arc<Mutex<Scts>>>,
    invited: bool,
}

impl Reporter {
    fn report(&mut self, instances: &[Mutex<Standing>]) {
        let all: Vec<Standing> = instances.iter().map(|it| it.lock().clone()).collect();
        for (standing, before) in all.iter().zip(&mut self.parts) {
            let was = std::mem::replace(before, standing.part);
            if standing.part == Part::Away && was != Part::Away {
                let what = format!("instance {}", standing.number);
                self.screen.done(&what, "has stopped; it restarts soon");
            }
        }
        let leaders: Vec<_> = all.iter().filter(|it| it.part == Part::Leads).collect();
        let [leader] = leaders[..] else {
            return;
        };
        let now = (leader.number, leader.pid);
        let ready = all.iter().all(|it| it.part != Part::Away);
        if self.leader.is_none() && !ready || !self.has_scts() {
            return;
        }
        let is_another = self.leader.replace(now) != Some(now);
        if is_another {
            let scts = self.scts.as_ref();
            let gap = scts.map(|scts| std::mem::take(&mut scts.lock().gap));
            let what = format!("instance {}", leader.number);
            let detail = match gap.filter(|_| self.invited) {
                Some(gap) => format!("leads; for {:.1} s no SCT was issued", gap.as_secs_f64()),
                None => "leads; the others follow".to_owned(),
            };
            self.screen.done(&what, &detail);
        }
        if is_another || !self.invited {
            self.invite(leader);
        }
    }

    /// Reports an instance that ended before it had a role.
    fn end(&self, standing: &Standing, status: ExitStatus) {
        if standing.part == Part::Away && self.leader.is_none() {
            let number = standing.number;
            let what = format!("instance {number}");
            let detail =
                format!("has ended ({status}), see instance{number}.log; it restarts soon");
            self.screen.done(&what, &detail);
        }
    }

    /// Returns whether an SCT has arrived since the last change, which ends a gap. A demo that
    /// submits nothing has no gaps.
    fn has_scts(&self) -> bool {
        self.scts.as_ref().is_none_or(|scts| {
            let last = scts.lock().last;
            last.is_some_and(|last| last.elapsed() < LOOK * 2)
        })
    }

    fn invite(&mut self, leader: &Standing) {
        if !std::mem::replace(&mut self.invited, true) {
            self.screen.heading("Look");
            self.screen.line("log", &self.url);
            self.screen.line("leader", &self.page);
            self.screen.heading("Try");
        }
        let pid = leader.pid.map_or_else(String::new, |pid| pid.to_string());
        let comment = format!("kill instance {}, which leads", leader.number);
        self.screen.command(&kill(&pid), &comment);
        self.screen.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_differ_and_are_none_that_connections_get() {
        let mut addresses = free_addresses(200).unwrap();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 200);
        let port = |address: &String| address.rsplit_once(':').unwrap().1.parse().unwrap();
        assert!(
            addresses
                .iter()
                .all(|address| PORTS.contains(&port(address)))
        );
    }
}

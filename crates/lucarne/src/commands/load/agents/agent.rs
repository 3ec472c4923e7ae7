//! `lucarne load agent`: offers a part of the load of a leader.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use lucarne_load::snapshot::Phase;
use lucarne_load::{Outcome, Part, Run, Running, Verdict};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::super::exit_code::{exit, misconfigured};
use super::super::{execute, live_metrics, output};
use super::bundle::{Bundle, BundleError};
use super::key::Key;
use super::link::{Clock, Link, LinkError, SILENCE, Side};
use super::message::{Ending, News, Order};
use super::tls::TlsFlags;
use crate::commands::duration;
use crate::runtime;
use crate::version::VERSION;

/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// Options of `lucarne load agent`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Address of the leader
    #[arg(value_name = "HOST:PORT")]
    pub leader: String,
    /// Key that leader and agents share, at least 32 characters: a file, env:NAME, credential:NAME
    /// or exec:COMMAND
    #[arg(long, value_name = "SOURCE")]
    pub key: String,
    /// Time for the leader to listen
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub wait: Duration,
    /// Certificates.
    #[command(flatten)]
    pub tls: TlsFlags,
    /// Metrics of the run in progress.
    #[command(flatten)]
    pub live: output::Live,
    /// Write the figures of this part as JSON to FILE, for `load merge`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub summary: Option<PathBuf>,
}

/// Reasons why an agent ends without a result for its leader.
#[derive(Debug, thiserror::Error)]
pub(super) enum AgentError {
    #[error("`{0}` is not HOST:PORT")]
    Address(String),
    #[error("cannot reach the leader {leader}: {source}")]
    Unreachable { leader: String, source: io::Error },
    #[error("the leader {leader} cannot be used: {source}")]
    Refused { leader: String, source: LinkError },
    #[error("the leader was lost: {0}")]
    Lost(LinkError),
    #[error("the leader ended the run before it began")]
    Ended,
    #[error("the plan of the leader cannot be run: {0}")]
    Plan(#[from] BundleError),
    #[error("the part of the leader cannot be run: {0}")]
    Part(#[from] lucarne_load::part::PartError),
}

impl AgentError {
    fn verdict(&self) -> Verdict {
        match self {
            AgentError::Lost(_) | AgentError::Ended => Verdict::Interrupted,
            _ => Verdict::Configuration,
        }
    }
}

type ToLeader = Link<News, Order>;

pub(in super::super) fn run(options: &Options) -> ExitCode {
    let key = match Key::read(&options.key) {
        Ok(key) => key,
        Err(why) => return misconfigured(why),
    };
    let tls = match options.tls.agent() {
        Ok(tls) => tls,
        Err(why) => return misconfigured(format_args!("{why:#}")),
    };
    // The files of the plan are relative to another directory.
    let summary = options
        .summary
        .as_ref()
        .map(std::path::absolute)
        .transpose();
    let summary = match summary {
        Ok(summary) => summary,
        Err(why) => return misconfigured(format_args!("--summary: {why}")),
    };
    if let Some(path) = &summary
        && let Err(why) = output::writable(path)
    {
        crate::commands::failed(why);
        return exit(Verdict::OutputFailed);
    }
    let side = Side {
        key,
        version: VERSION.to_owned(),
        silence: SILENCE,
    };
    let done = runtime::run(async {
        let served = options.serve(&side, tls).await;
        let written = served.map(|outcome| match &summary {
            Some(path) => output::place(path, &output::to_json(&outcome.summary)),
            None => Ok(()),
        });
        Ok(written)
    });
    match done {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        Ok(Ok(Err(why))) => {
            crate::commands::failed(why);
            exit(Verdict::OutputFailed)
        }
        Ok(Err(why)) => {
            crate::commands::failed(&why);
            exit(why.verdict())
        }
        Err(why) => misconfigured(format_args!("{why:#}")),
    }
}

impl Options {
    /// Offers a part of the load of the leader, and returns its outcome.
    async fn serve(&self, side: &Side, tls: Arc<ClientConfig>) -> Result<Outcome, AgentError> {
        let (mut link, clock) = self.connect(side, tls).await?;
        noteln!("joined the leader {}", self.leader);
        let (part, bundle) = match link.next().await.map_err(AgentError::Lost)? {
            Order::Prepare { part, bundle } => (part, bundle),
            _ => return Err(AgentError::Ended),
        };
        let live = self.live.open();
        let home = Home::create();
        let prepared = prepare(&bundle, &part, &home);
        let (run, live) = match (prepared, live) {
            (Ok(run), Ok(live)) => (run, live),
            (Err(why), _) => return Err(refuse(link, why).await),
            (_, Err(why)) => {
                let why = AgentError::Plan(BundleError::Run(why.to_string()));
                return Err(refuse(link, why).await);
            }
        };
        noteln!("offering part {part} of \"{}\"", run.name);
        let outcome = perform(run, &mut link, clock, bundle.hash(), live).await?;
        let outcome = with_part(outcome, &part);
        link.send(&News::Finished {
            summary: Box::new(outcome.summary.clone()),
            error: outcome.error.clone(),
        })
        .await;
        loop {
            match link.next().await.map_err(AgentError::Lost)? {
                Order::Received => break,
                _ => continue,
            }
        }
        link.close().await;
        Ok(outcome)
    }

    /// Connects to the leader, which may start later.
    async fn connect(
        &self,
        side: &Side,
        tls: Arc<ClientConfig>,
    ) -> Result<(ToLeader, Clock), AgentError> {
        let address = || AgentError::Address(self.leader.clone());
        let (host, _) = self.leader.rsplit_once(':').ok_or_else(address)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(|_| address())?;
        let end = Instant::now() + self.wait;
        let stream = loop {
            match TcpStream::connect(&self.leader).await {
                Ok(stream) => break stream,
                Err(source) if Instant::now() >= end => {
                    let leader = self.leader.clone();
                    return Err(AgentError::Unreachable { leader, source });
                }
                Err(_) => sleep(PAUSE.min(end - Instant::now())).await,
            }
        };
        // An order to start must not wait for other data.
        let _ = stream.set_nodelay(true);
        let connected = side.connect(stream, tls, name).await;
        connected.map_err(|source| AgentError::Refused {
            leader: self.leader.clone(),
            source,
        })
    }
}

/// Reports to the leader that the plan cannot be run.
async fn refuse(link: ToLeader, why: AgentError) -> AgentError {
    link.send(&News::Refused(why.to_string())).await;
    link.close().await;
    why
}

/// Returns the run of a part, whose files are below `home`.
fn prepare(bundle: &Bundle, part: &str, home: &io::Result<Home>) -> Result<Run, AgentError> {
    let unwritable = |path: &Path, error: &io::Error| BundleError::Unwritable {
        path: path.to_owned(),
        source: io::Error::new(error.kind(), error.to_string()),
    };
    let home = match home {
        Ok(home) => home.0.as_path(),
        Err(error) => return Err(unwritable(&std::env::temp_dir(), error).into()),
    };
    std::env::set_current_dir(home).map_err(|error| unwritable(home, &error))?;
    let mut run = bundle.unpack(home)?;
    run.part = part.parse::<Part>()?;
    run.summarised = true;
    // The leader judges the sum of all parts.
    for threshold in &mut run.thresholds.0 {
        threshold.abort_on_fail = false;
    }
    Ok(run)
}

/// Executes the run as the leader orders.
async fn perform(
    mut run: Run,
    link: &mut ToLeader,
    clock: Clock,
    plan: String,
    live: live_metrics::Live,
) -> Result<Outcome, AgentError> {
    let (start, at) = watch::channel(None);
    run.start_at = Some(at);
    let mut lost = None;
    let runtime = tokio::runtime::Handle::current();
    let outcome = tokio::task::block_in_place(|| {
        execute::perform(run, live, |running| {
            lost = runtime.block_on(follow(link, running, clock, plan, &start));
            Ok(())
        })
    });
    match lost {
        Some(why) => Err(AgentError::Lost(why)),
        None => Ok(outcome),
    }
}

/// Follows the orders of the leader until the run ends, and sends a summary each second. Returns
/// the error if the leader is lost, which ends the run.
async fn follow(
    link: &mut ToLeader,
    running: &Running,
    clock: Clock,
    plan: String,
    start: &watch::Sender<Option<SystemTime>>,
) -> Option<LinkError> {
    let mut snapshots = running.snapshots();
    let mut plan = Some(plan);
    let mut lost = None;
    loop {
        tokio::select! {
            order = link.next(), if lost.is_none() => match order {
                Ok(Order::Start { at }) => {
                    start.send_replace(Some(clock.here(at)));
                }
                Ok(Order::End(Ending::Aborted)) => running.abort(),
                Ok(Order::End(Ending::Stopped)) => running.stop(),
                Ok(Order::End(Ending::AtOnce)) => running.stop_at_once(),
                Ok(Order::Prepare { .. } | Order::Received) => {}
                Err(why) => {
                    lost = Some(why);
                    running.stop_at_once();
                }
            },
            changed = snapshots.changed() => {
                if changed.is_err() {
                    return lost;
                }
                let snapshot = snapshots.borrow_and_update().clone();
                if snapshot.phase == Phase::Waiting
                    && let Some(plan) = plan.take()
                {
                    let clock = clock.difference();
                    link.send(&News::Prepared { plan, clock }).await;
                }
                if let Some(summary) = &snapshot.summary {
                    link.offer(&News::Progress(Box::new((**summary).clone())));
                }
            }
        }
    }
}

/// Adds the part to the command line, which identifies a run.
fn with_part(mut outcome: Outcome, part: &str) -> Outcome {
    let command = &mut outcome.summary.command;
    command.extend(["--part".to_owned(), part.to_owned()]);
    outcome
}

/// Temporary directory of the files of a plan.
struct Home(PathBuf);

impl Home {
    fn create() -> io::Result<Self> {
        let mut random = [0; 8];
        aws_lc_rs::rand::fill(&mut random).map_err(io::Error::other)?;
        let name = format!("lucarne-agent-{}", hex::encode(random));
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Home(path))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

//! `lucarne load lead`: runs a plan with several agents.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use lucarne_load::{Outcome, Verdict};
use rustls::ServerConfig;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::exit_code::{exit, misconfigured};
use super::super::{command, execute, live_metrics, output, settings};
use super::bundle::Bundle;
use super::key::Key;
use super::leader::{Joined, Leader, LostAgents};
use super::link::{LinkError, SILENCE, Side};
use super::message::Ending;
use super::tls::TlsFlags;
use crate::commands::duration;
use crate::runtime;
use crate::signals::{ONE_WISH, Signals, Wish};
use crate::version::VERSION;

/// Largest number of agents.
const MOST: u64 = 1000;
/// Limit of connections that are not yet authenticated.
const ARRIVING: usize = 64;

/// Options of `lucarne load lead`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Plan to run; the agents receive it, and the files that it names by relative paths
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Number of agents, which divide the load equally
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST))]
    pub agents: u64,
    /// Address for the agents, such as :7171
    #[arg(long, value_name = "ADDRESS")]
    pub listen: String,
    /// Key that leader and agents share, at least 32 characters: a file, env:NAME, credential:NAME
    /// or exec:COMMAND
    #[arg(long, value_name = "SOURCE")]
    pub key: String,
    /// Time for all agents to join
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub wait: Duration,
    /// Consequence of an agent without a sign of life for 5 s
    #[arg(long, value_name = "ACTION", value_enum, default_value_t)]
    pub lost_agents: LostAgents,
    /// Certificates.
    #[command(flatten)]
    pub tls: TlsFlags,
    /// Settings in addition to the plan.
    #[command(flatten)]
    pub settings: settings::Flags,
    /// Print nothing during the run
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Flags of the reports.
    #[command(flatten)]
    pub report: output::Report,
}

/// Reasons why the agents did not join.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    #[error(
        "--agents: {joined} of {agents} agents joined within {wait:?}: start the agents first, or \
         use a longer --wait"
    )]
    Late {
        joined: usize,
        agents: usize,
        wait: Duration,
    },
    #[error("stopped while waiting for the agents")]
    Stopped,
}

pub(in super::super) fn run(options: &Options) -> ExitCode {
    let key = match Key::read(&options.key) {
        Ok(key) => key,
        Err(why) => return misconfigured(why),
    };
    let (bundle, run) = match Bundle::read(&options.plan, &options.settings) {
        Ok(read) => read,
        Err(why) => return misconfigured(format_args!("nothing was run; {why}")),
    };
    if let Err(why) = run.check_thresholds() {
        return misconfigured(why);
    }
    if let Err(why) = run.check_allowed() {
        return misconfigured(why);
    }
    let baseline = match options.report.before_run() {
        Ok(baseline) => baseline,
        Err(code) => return code,
    };
    let listener = match live_metrics::open("--listen", &options.listen) {
        Ok(listener) => listener,
        Err(why) => return misconfigured(why),
    };
    let tls = match options.tls.leader() {
        Ok(tls) => tls,
        Err(why) => return misconfigured(format_args!("{why:#}")),
    };
    let side = Side {
        key,
        version: VERSION.to_owned(),
        silence: SILENCE,
    };
    let thresholds = run.thresholds.0;
    let led = runtime::run(async {
        let (endings, ended) = mpsc::channel(1);
        let signals = Signals::listen()?;
        tokio::spawn(obey(signals, endings));
        options
            .lead(listener, tls, side, &bundle, &thresholds, ended)
            .await
    });
    match led {
        Ok(Ok(mut outcome)) => {
            outcome.summary.command = command::line();
            execute::conclude(outcome, &options.report, baseline.as_ref())
        }
        Ok(Err(why @ JoinError::Late { .. })) => misconfigured(why),
        Ok(Err(why @ JoinError::Stopped)) => {
            crate::commands::failed(why);
            exit(Verdict::Interrupted)
        }
        Err(error) => misconfigured(format_args!("{error:#}")),
    }
}

impl Options {
    async fn lead(
        &self,
        listener: TcpListener,
        tls: Arc<ServerConfig>,
        side: Side,
        bundle: &Bundle,
        thresholds: &[lucarne_load::threshold::Threshold],
        mut endings: mpsc::Receiver<Ending>,
    ) -> Result<Result<Outcome, JoinError>> {
        let print: fn(&str) = if self.quiet {
            |_| ()
        } else {
            |line| noteln!("{line}")
        };
        if let Ok(address) = listener.local_addr() {
            print(&format!("waiting for {} agents on {address}", self.agents));
        }
        let agents = self.agents as usize;
        let joined = join(listener, tls, side, agents, self.wait, print);
        let joined = tokio::select! {
            joined = joined => joined?,
            _ = endings.recv() => Err(JoinError::Stopped),
        };
        let joined = match joined {
            Ok(joined) => joined,
            Err(why) => return Ok(Err(why)),
        };
        let hash = bundle.hash();
        let leader = Leader::new(joined, hash, thresholds, self.lost_agents, print);
        Ok(Ok(leader.lead(bundle, endings).await))
    }
}

/// Waits until all agents have joined.
pub(super) async fn join(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    side: Side,
    agents: usize,
    wait: Duration,
    print: fn(&str),
) -> Result<Result<Vec<Joined>, JoinError>> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut joined: Vec<Joined> = Vec::new();
    let mut arriving: JoinSet<Result<Joined, (String, LinkError)>> = JoinSet::new();
    let deadline = tokio::time::sleep(wait);
    tokio::pin!(deadline);
    while joined.len() < agents {
        tokio::select! {
            // Also with a deadline in the past, agents that are there already join.
            biased;
            Some(Ok(arrived)) = arriving.join_next() => match arrived {
                Ok(agent) => {
                    joined.retain_mut(|agent| !agent.link.has_ended());
                    let (number, name) = (joined.len() + 1, &agent.name);
                    print(&format!("agent {name} has joined ({number} of {agents})"));
                    joined.push(agent);
                }
                Err((name, why)) => print(&format!("refused {name}: {why}")),
            },
            () = &mut deadline => {
                let joined = joined.len();
                return Ok(Err(JoinError::Late { joined, agents, wait }));
            }
            (stream, address) = lucarne_net::accept(&listener), if arriving.len() < ARRIVING => {
                let (side, tls, name) = (side.clone(), Arc::clone(&tls), address.to_string());
                arriving.spawn(async move {
                    match side.accept(stream, tls).await {
                        Ok(link) => Ok(Joined { name, link }),
                        Err(why) => Err((name, why)),
                    }
                });
            }
        }
    }
    Ok(Ok(joined))
}

/// Passes on the signals: the first one ends the load, the second one cuts off running iterations,
/// the third one ends the process.
async fn obey(mut signals: Signals, endings: mpsc::Sender<Ending>) {
    let mut last: Option<Instant> = None;
    let mut kinds = [Ending::Stopped, Ending::AtOnce].into_iter();
    loop {
        let Wish::Stop(_) = signals.next().await else {
            continue;
        };
        if last.is_some_and(|last| last.elapsed() <= ONE_WISH) {
            continue;
        }
        last = Some(Instant::now());
        match kinds.next() {
            Some(ending) if endings.try_send(ending).is_ok() => {}
            _ => execute::abandon(),
        }
    }
}

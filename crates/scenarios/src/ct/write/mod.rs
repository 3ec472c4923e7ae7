//! `ct-write`: certificates and precertificates submitted to logs.

mod options;
mod recent_submissions;
mod write_goal;
pub(in crate::ct) mod writer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lucarne_load::{Note, PrepareError, Recorder, Scenario, Stop, VirtualUser};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

pub use options::CtWriteOptions;

use super::monitored_log::{self, MonitoredLog};
use super::probes::Probes;
use super::sct::SctVerifier;
use super::target::configuration;
use super::{Authorities, ChainGenerator, Roots, TemporalInterval, checks};
use recent_submissions::RecentSubmissions;
use write_goal::WriteGoal;
use writer::{Buffers, Writer};

/// Makes the scenario. Nothing is reached or minted before it is prepared.
///
/// # Errors
/// Options that contradict themselves.
pub fn build(options: CtWriteOptions, seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    build_until(options, seed, None)
}

/// The same; the run ends once so many new leaves have been written.
///
/// # Errors
/// Options that contradict themselves.
pub fn build_until(
    options: CtWriteOptions,
    seed: u64,
    leaves: Option<u64>,
) -> Result<Arc<dyn Scenario>, PrepareError> {
    if let (Some(start), Some(limit)) = (options.not_after_start, options.not_after_limit)
        && start >= limit
    {
        return Err(configuration("notAfterStart is not before notAfterLimit"));
    }
    Ok(Arc::new(CtWrite(Arc::new(SharedState {
        goal: WriteGoal::new(leaves),
        options,
        seed,
        logs: OnceCell::new(),
        buffers: Mutex::default(),
    }))))
}

struct CtWrite(Arc<SharedState>);

struct SharedState {
    goal: WriteGoal,
    options: CtWriteOptions,
    seed: u64,
    logs: OnceCell<Vec<Log>>,
    /// As many as there are submissions under way.
    buffers: Mutex<Vec<Buffers>>,
}

/// One of the logs that are submitted to.
struct Log {
    monitored: MonitoredLog,
    verifier: SctVerifier,
    chains: ChainGenerator,
    probes: Probes,
    recent: Mutex<RecentSubmissions>,
}

impl SharedState {
    fn logs(&self) -> &[Log] {
        self.logs.get().map_or(&[], Vec::as_slice)
    }

    fn monitored(&self) -> impl Iterator<Item = &MonitoredLog> {
        self.logs().iter().map(|log| &log.monitored)
    }

    async fn open(&self) -> Result<Vec<Log>, PrepareError> {
        let options = self.options.logs();
        let authorities = self.authorities()?;
        let targets = options.targets().await?;
        let share = self.options.ahead.div_ceil(targets.len().max(1) as u64);
        let mut logs = Vec::with_capacity(targets.len());
        for target in targets {
            let given = TemporalInterval {
                start: self.options.not_after_start.map(|moment| moment.unix()),
                end: self.options.not_after_limit.map(|moment| moment.unix()),
            };
            let temporal_interval = TemporalInterval {
                start: given.start.or(target.temporal_interval.start),
                end: given.end.or(target.temporal_interval.end),
            };
            accepted(&target, &authorities).await?;
            let verifier = SctVerifier::new(&target.spki);
            let wrong = || configuration(format!("the key of {} is not on P-256", target.url));
            let chains = ChainGenerator::new(
                &authorities,
                self.options.issuers,
                self.options.precerts.0,
                temporal_interval,
                self.options.serial_offset,
            );
            let chains = chains.map_err(|error| configuration(error.to_string()))?;
            let minted = chains.stock(share, self.seed);
            minted.map_err(|error| configuration(error.to_string()))?;
            let verifier = verifier.ok_or_else(wrong)?;
            let monitored = MonitoredLog::begin(target, &options).await?;
            let outage = Arc::clone(&monitored.outage);
            let probes = Probes::new(&monitored.target, &authorities, outage);
            logs.push(Log {
                probes: probes.map_err(|error| configuration(error.to_string()))?,
                verifier,
                monitored,
                chains,
                recent: Mutex::default(),
            });
        }
        Ok(logs)
    }

    fn authorities(&self) -> Result<Authorities, PrepareError> {
        if let Some(files) = self.options.files()? {
            let given = Authorities::given(&files);
            return given.map_err(|error| configuration(error.to_string()));
        }
        let made = Roots::open(&self.options.roots);
        let made = made.map_err(|error| configuration(error.to_string()))?;
        Ok(Authorities::Made(Box::new(made)))
    }

    /// Sends what is to be refused, beside the load.
    async fn probe(&self, recorder: &Recorder, stop: &Stop) {
        let interval = self.options.probe_interval.0;
        if interval.is_zero() {
            return;
        }
        let each = self.logs().iter().map(|log| async move {
            let tagged = log.monitored.tagged(recorder);
            log.probes.run(interval, &tagged, stop).await;
        });
        join_all(each).await;
    }

    /// Sends what is left of that, after the load.
    async fn probe_the_rest(&self, recorder: &Recorder) {
        if self.options.probe_interval.0.is_zero() {
            return;
        }
        let each = self.logs().iter().map(|log| async move {
            let tagged = log.monitored.tagged(recorder);
            log.probes.finish(&tagged).await;
        });
        join_all(each).await;
    }
}

/// Fails if the log says that it does not accept chains to our roots.
async fn accepted(target: &super::Target, authorities: &Authorities) -> Result<(), PrepareError> {
    let Some(accepted) = target.roots().await? else {
        return Ok(());
    };
    let ours = authorities.roots_base64();
    match ours.iter().all(|root| accepted.contains(root)) {
        true => Ok(()),
        false => Err(configuration(format!(
            "{} does not accept the roots of the load test: configure it with {}",
            target.url,
            authorities.roots_file()
        ))),
    }
}

#[async_trait]
impl Scenario for CtWrite {
    async fn prepare(&self) -> Result<(), PrepareError> {
        let open = self.0.logs.get_or_try_init(|| self.0.open());
        open.await.map(drop)
    }

    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(Writer::new(Arc::clone(&self.0), number, recorder))
    }

    async fn background(&self, recorder: Recorder, stop: Stop) {
        let probes = self.0.probe(&recorder, &stop);
        let follow = monitored_log::follow(self.0.monitored(), recorder.clone(), stop.clone());
        tokio::join!(probes, follow);
    }

    async fn reached(&self) {
        self.0.goal.reached().await;
    }

    async fn finish(&self, recorder: Recorder) -> Vec<Note> {
        self.0.probe_the_rest(&recorder).await;
        if let Some(outcome) = self.0.goal.outcome() {
            recorder.check(recorder.base(), checks::LEAF_WRITE_GOAL, outcome);
        }
        monitored_log::audit(self.0.monitored(), recorder).await
    }
}

/// The wait of a user when the log does not say how long, or is away.
const PAUSE: Duration = Duration::from_millis(200);

//! State that all users of the scenario share: the logs, and buffers for submissions.

use std::sync::Arc;

use futures_util::future::join_all;
use lucarne_load::{PrepareError, Recorder, Stop};
use parking_lot::Mutex;

use super::options::CtWriteOptions;
use super::recent_submissions::RecentSubmissions;
use super::write_goal::WriteGoal;
use crate::connection_options::wrong;
use crate::ct::checks::{self, Finding};
use crate::ct::monitored_log::{MonitoredLog, OpenedLogs};
use crate::ct::probes::Probes;
use crate::ct::sct::SctVerifier;
use crate::ct::target::faulty;
use crate::ct::{Authorities, ChainGenerator, Roots, Target, TemporalInterval};

/// State that all users share.
pub(super) struct SharedState {
    pub(super) goal: WriteGoal,
    pub(super) options: CtWriteOptions,
    pub(super) seed: u64,
    pub(super) logs: OpenedLogs<Log>,
    /// Buffers, one set per submission in flight.
    pub(super) buffers: Mutex<Vec<Buffers>>,
}

/// A log that receives submissions.
pub(super) struct Log {
    pub(super) monitored: MonitoredLog,
    pub(super) verifier: SctVerifier,
    pub(super) chains: ChainGenerator,
    pub(super) probes: Probes,
    pub(super) recent: Mutex<RecentSubmissions>,
}

impl AsRef<MonitoredLog> for Log {
    fn as_ref(&self) -> &MonitoredLog {
        &self.monitored
    }
}

impl SharedState {
    pub(super) fn new(options: CtWriteOptions, seed: u64, goal: WriteGoal) -> Self {
        SharedState {
            goal,
            options,
            seed,
            logs: OpenedLogs::default(),
            buffers: Mutex::default(),
        }
    }

    pub(super) async fn prepare(&self) -> Result<(), PrepareError> {
        self.logs.open(self.open()).await
    }

    async fn open(&self) -> Result<Vec<Log>, PrepareError> {
        let options = &self.options.log;
        let authorities = self.authorities()?;
        let targets = options.targets(&self.options.submissions).await?;
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
            let off_curve = || wrong(format!("the key of {} is not on P-256", target.url));
            let chains = ChainGenerator::new(
                &authorities,
                self.options.issuers,
                self.options.precerts.0,
                temporal_interval,
                self.options.serial_offset,
            );
            let chains = chains.map_err(wrong)?;
            let minted = chains.stock(share, self.seed);
            minted.map_err(wrong)?;
            let verifier = verifier.ok_or_else(off_curve)?;
            let (audit, mmd) = (self.options.audit, self.options.mmd.0);
            let monitored = MonitoredLog::begin(target, options, audit, mmd).await?;
            let outage = Arc::clone(&monitored.outage);
            let probes = Probes::new(&monitored.target, &authorities, outage);
            logs.push(Log {
                probes: probes.map_err(wrong)?,
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
            return given.map_err(wrong);
        }
        let made = Roots::open(&self.options.roots);
        let made = made.map_err(wrong)?;
        Ok(Authorities::Made(Box::new(made)))
    }

    /// Sends the probes during the load.
    pub(super) async fn probe(&self, recorder: &Recorder, stop: &Stop) {
        let interval = self.options.probe_interval.0;
        if interval.is_zero() {
            return;
        }
        let each = self.logs.all().iter().map(|log| async move {
            let tagged = log.monitored.tagged(recorder);
            log.probes.run(interval, &tagged, stop).await;
        });
        join_all(each).await;
    }

    /// Sends the remaining probes after the load.
    pub(super) async fn probe_the_rest(&self, recorder: &Recorder) {
        if self.options.probe_interval.0.is_zero() {
            return;
        }
        let each = self.logs.all().iter().map(|log| async move {
            let tagged = log.monitored.tagged(recorder);
            log.probes.finish(&tagged).await;
        });
        join_all(each).await;
    }
}

/// Returns an error if the log does not accept chains to the roots of the load test.
async fn accepted(target: &Target, authorities: &Authorities) -> Result<(), PrepareError> {
    let Some(accepted) = target.roots().await? else {
        return Ok(());
    };
    if accepted.is_empty() {
        let finding = Finding::new(checks::ROOTS_SERVED, "get-roots has no certificates");
        return Err(faulty(&target.url, finding));
    }
    let ours = authorities.roots_base64();
    if ours.iter().all(|root| accepted.contains(root)) {
        Ok(())
    } else {
        Err(wrong(format!(
            "{} does not accept the roots of the load test: configure it with {}",
            target.url,
            authorities.roots_file()
        )))
    }
}

/// Working space of one submission.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) leaf: String,
    pub(super) message: Vec<u8>,
}

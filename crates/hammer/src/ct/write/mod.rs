//! `ct-write`: certificates and precertificates submitted to logs.

mod options;
mod repeats;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lucarne_load::{Note, PrepareError, Recorder, Scenario, Stop, User};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

pub use options::Options;

use super::observed::Observed;
use super::sct::SctVerifier;
use super::target::configuration;
use super::{Chains, Roots, Window, roots};
use repeats::Repeats;
use writer::{Buffers, Writer};

/// Makes the scenario. Nothing is reached or minted before it is prepared.
///
/// # Errors
/// Options that contradict themselves.
pub fn build(options: Options, seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    if let (Some(start), Some(limit)) = (options.not_after_start, options.not_after_limit) {
        if start >= limit {
            return Err(configuration("notAfterStart is not before notAfterLimit"));
        }
    }
    Ok(Arc::new(Write(Arc::new(Inner {
        options,
        seed,
        logs: OnceCell::new(),
        buffers: Mutex::default(),
    }))))
}

struct Write(Arc<Inner>);

struct Inner {
    options: Options,
    seed: u64,
    logs: OnceCell<Vec<Log>>,
    /// As many as there are submissions under way.
    buffers: Mutex<Vec<Buffers>>,
}

/// One of the logs that are submitted to.
struct Log {
    observed: Observed,
    verifier: SctVerifier,
    chains: Chains,
    repeats: Mutex<Repeats>,
}

impl Inner {
    fn logs(&self) -> &[Log] {
        self.logs.get().map_or(&[], Vec::as_slice)
    }

    async fn open(&self) -> Result<Vec<Log>, PrepareError> {
        let options = self.options.logs();
        let authorities = Roots::open(&self.options.roots);
        let authorities = authorities.map_err(|error| configuration(error.to_string()))?;
        let targets = options.targets().await?;
        let share = self.options.ahead.div_ceil(targets.len().max(1) as u64);
        let mut logs = Vec::with_capacity(targets.len());
        for target in targets {
            let given = Window {
                start: self.options.not_after_start.map(|moment| moment.unix()),
                end: self.options.not_after_limit.map(|moment| moment.unix()),
            };
            let window = Window {
                start: given.start.or(target.window.start),
                end: given.end.or(target.window.end),
            };
            accepted(&target, &authorities).await?;
            let verifier = SctVerifier::new(&target.spki);
            let wrong = || configuration(format!("the key of {} is not on P-256", target.url));
            let chains = Chains::new(
                &authorities,
                self.options.issuers,
                self.options.precerts.0,
                window,
                self.options.serial_offset,
            );
            let chains = chains.map_err(|error| configuration(error.to_string()))?;
            let minted = chains.stock(share, self.seed);
            minted.map_err(|error| configuration(error.to_string()))?;
            logs.push(Log {
                verifier: verifier.ok_or_else(wrong)?,
                observed: Observed::begin(target, &options).await?,
                chains,
                repeats: Mutex::default(),
            });
        }
        Ok(logs)
    }
}

/// Fails if the log says that it does not accept chains to our roots.
async fn accepted(target: &super::Target, authorities: &Roots) -> Result<(), PrepareError> {
    let Some(accepted) = target.roots().await? else {
        return Ok(());
    };
    let ours = roots::certificates(&authorities.roots_pem());
    let ours = ours.map_err(|error| configuration(error.to_string()))?;
    let known = |der: &Vec<u8>| {
        let base64 = base64_simd::STANDARD.encode_to_string(der);
        accepted.contains(&base64)
    };
    match ours.iter().all(known) {
        true => Ok(()),
        false => Err(configuration(format!(
            "{} does not accept the roots of the load test: configure it with {}",
            target.url,
            authorities.roots_file().display()
        ))),
    }
}

#[async_trait]
impl Scenario for Write {
    async fn prepare(&self) -> Result<(), PrepareError> {
        let open = self.0.logs.get_or_try_init(|| self.0.open());
        open.await.map(drop)
    }

    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn User> {
        Box::new(Writer::new(Arc::clone(&self.0), number, recorder))
    }

    async fn background(&self, recorder: Recorder, stop: Stop) {
        let logs = self.0.logs().iter();
        join_all(logs.map(|log| log.observed.follow(recorder.clone(), stop.clone()))).await;
    }

    async fn finish(&self, recorder: Recorder) -> Vec<Note> {
        let logs = self.0.logs().iter();
        join_all(logs.map(|log| log.observed.audit(&recorder))).await
    }
}

/// What a user waits when the log does not say how long, or is away.
const PAUSE: Duration = Duration::from_millis(200);

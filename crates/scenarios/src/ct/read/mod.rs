//! `ct-read`: what a log publishes, read at random or from end to end.
//!
//! Whatever is read is verified: checkpoints like those that the monitor sees,
//! hash tiles and data tiles against the verified tree, issuers against their
//! names.

mod options;
mod reader;
mod response_cache;

use std::sync::Arc;

use async_trait::async_trait;
use lucarne_ct::Fingerprint;
use lucarne_load::{Note, PrepareError, Recorder, Scenario, Stop, VirtualUser};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

pub use options::{Compression, CtReadOptions, ReadKind, WeightedRead};

use super::monitored_log::{self, MonitoredLog};
use super::target::configuration;
use reader::Reader;
use response_cache::ResponseCache;

/// Makes the scenario. Nothing is reached before it is prepared.
///
/// # Errors
/// Options that contradict themselves.
pub fn build(options: CtReadOptions, seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    if options.reads.iter().all(|read| read.weight == 0) {
        return Err(configuration("reads: nothing is to be read"));
    }
    Ok(Arc::new(CtRead(Arc::new(SharedState {
        options,
        seed,
        logs: OnceCell::new(),
    }))))
}

struct CtRead(Arc<SharedState>);

struct SharedState {
    options: CtReadOptions,
    seed: u64,
    logs: OnceCell<Vec<Log>>,
}

/// One of the logs that are read.
struct Log {
    monitored: MonitoredLog,
    cache: Option<ResponseCache>,
    /// Certificates that entries have named.
    issuers: Mutex<Vec<Fingerprint>>,
}

/// The number of names of certificates that are kept to read at random.
const ISSUERS: usize = 256;

impl SharedState {
    fn logs(&self) -> &[Log] {
        self.logs.get().map_or(&[], Vec::as_slice)
    }

    fn monitored(&self) -> impl Iterator<Item = &MonitoredLog> {
        self.logs().iter().map(|log| &log.monitored)
    }

    async fn open(&self) -> Result<Vec<Log>, PrepareError> {
        let options = self.options.logs();
        let mut logs = Vec::new();
        for target in options.targets().await? {
            logs.push(Log {
                monitored: MonitoredLog::begin(target, &options).await?,
                cache: self.options.cache.then(ResponseCache::default),
                issuers: Mutex::default(),
            });
        }
        Ok(logs)
    }
}

impl Log {
    fn named(&self, fingerprints: impl IntoIterator<Item = Fingerprint>) {
        let mut issuers = self.issuers.lock();
        for fingerprint in fingerprints {
            if issuers.len() < ISSUERS && !issuers.contains(&fingerprint) {
                issuers.push(fingerprint);
            }
        }
    }
}

#[async_trait]
impl Scenario for CtRead {
    async fn prepare(&self) -> Result<(), PrepareError> {
        let open = self.0.logs.get_or_try_init(|| self.0.open());
        open.await.map(drop)
    }

    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(Reader::new(Arc::clone(&self.0), number, recorder))
    }

    async fn background(&self, recorder: Recorder, stop: Stop) {
        monitored_log::follow(self.0.monitored(), recorder, stop).await;
    }

    async fn finish(&self, recorder: Recorder) -> Vec<Note> {
        monitored_log::audit(self.0.monitored(), recorder).await
    }
}

//! A log under load that survives several faults, until its audit takes too long.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use lucarne_ct::verify_checkpoint;
use lucarne_testkit::{Client, LogUnderTest, Place, Server};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::common::load::Load;
use crate::common::{EVENT_TIMEOUT, eventually, log_at, ready};

const SUBMITTERS: usize = 3;

/// Entries after which a new log is used, because each fault is followed by a complete audit.
const LARGEST: usize = 1500;

/// A log with submitters, which continue while the log is unavailable.
pub(super) struct Life {
    pub(super) log: LogUnderTest,
    load: Arc<Load>,
    runtime: Runtime,
    at_work: Vec<JoinHandle<()>>,
}

impl Life {
    pub(super) fn new(place: Place) -> Self {
        Self::with(place, "period: 20")
    }

    /// Creates a log with `settings`, which are lines of its configuration.
    pub(super) fn with(place: Place, settings: &str) -> Self {
        let log = log_at(place, settings);
        let load = Arc::new(Load::new(&log));
        let runtime = Runtime::new().unwrap();
        let mut at_work = Vec::new();
        for _ in 0..SUBMITTERS {
            let load = load.clone();
            at_work.push(runtime.spawn(async move { load.submit_on().await }));
        }
        let polling = load.clone();
        at_work.push(runtime.spawn(async move { polling.poll_on().await }));
        Self {
            log,
            load,
            runtime,
            at_work,
        }
    }

    /// Returns whether the log has become too large.
    pub(super) fn is_over(&self) -> bool {
        self.load.count() > LARGEST
    }

    /// Returns the number of SCTs so far.
    pub(super) fn promised(&self) -> usize {
        self.load.promised.load(SeqCst)
    }

    /// Returns the time of the newest available checkpoint in Unix milliseconds; 0 if there is
    /// none.
    pub(super) fn newest_ms(&self) -> u64 {
        let note = self.runtime.block_on(self.log.client().get("checkpoint"));
        let (origin, key) = (self.log.origin(), self.log.public_key());
        let verified = |note: &[u8]| Some(verify_checkpoint(note, &origin, key).ok()?.1);
        note.ok().and_then(|note| verified(&note.body)).unwrap_or(0)
    }

    /// Waits until the log has issued another SCT.
    pub(super) fn waits_for_promises(
        &self,
        mut ended: impl FnMut() -> Option<String>,
    ) -> Result<(), String> {
        let (before, started) = (self.promised(), Instant::now());
        while self.promised() < before + 2 {
            if let Some(how) = ended() {
                return Err(how);
            }
            if started.elapsed() > EVENT_TIMEOUT {
                return Err(format!("no SCT within {EVENT_TIMEOUT:?}"));
            }
            // A poll with a deadline: no verdict depends on the interval.
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Checks that the started log issues SCTs.
    pub(super) fn takes_entries(&self, fault: &str) {
        let taking = self.waits_for_promises(|| None);
        taking.unwrap_or_else(|how| panic!("{fault}: {how}"));
    }

    /// Starts a reader that follows the log, and reads old entries as well.
    pub(super) fn read_on(&self) -> JoinHandle<()> {
        let (client, load) = (self.log.client(), self.load.clone());
        self.runtime.spawn(async move {
            for turn in 0.. {
                let tile = turn % (load.count() / 256 + 1);
                for level in ["0", "data"] {
                    load.note_silence(&client.get(&format!("tile/{level}/{tile:03}")).await);
                }
                load.note_silence(&client.get("metrics").await);
                // The pace of the reader: no verdict depends on it.
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        })
    }

    /// Checks that the log starts, accepts entries, and has all promised entries.
    pub(super) fn is_whole(&self, fault: &str) {
        let mut server = self
            .log
            .start()
            .unwrap_or_else(|e| panic!("{fault}: {e:#}"));
        self.runtime.block_on(is_well(&self.log, fault));
        let taking = self.waits_for_promises(|| None);
        taking.unwrap_or_else(|how| panic!("{fault}: {how}:\n{}", server.output()));
        let report = self.runtime.block_on(self.load.audit.run()).unwrap();
        assert!(
            report.findings.is_empty(),
            "{fault}: {report}\n{}",
            server.output()
        );
        end(&mut server, fault);
    }

    /// Checks that the log has every submitted entry exactly once, and no other entry.
    pub(super) fn settle(self) {
        let mut server = self.log.start().unwrap();
        self.runtime.block_on(ready(&self.log));
        self.load.end();
        let report = self.runtime.block_on(async {
            for task in self.at_work {
                task.await.unwrap();
            }
            self.load.settle_accounts().await
        });
        report.assert_clean();
        end(&mut server, "the end");
    }
}

/// Waits until the log is healthy after this fault.
pub(super) async fn is_well(log: &LogUnderTest, fault: &str) {
    let site = Client::new(format!("http://{}", log.address()));
    eventually(&format!("{fault}: the log is healthy"), async || {
        let answer = site.get("health").await;
        answer.is_ok_and(|answer| answer.status == 200)
    })
    .await;
}

fn end(server: &mut Server, fault: &str) {
    let status = server.stop(EVENT_TIMEOUT).unwrap();
    assert!(status.success(), "{fault}: {status}:\n{}", server.output());
}

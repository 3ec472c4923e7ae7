//! The power is cut between any two changes to the files of a log. Any part of the unsynced changes
//! may be lost.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lucarne_ct::EntryKind;
use lucarne_testkit::{
    Audit, Change, Disk, Errno, LogUnderTest, Luck, Place, Plan, Strike, tracing_is_permitted,
};
use rand::Rng;
use rand::seq::IndexedRandom;
use tokio::runtime::Runtime;

use super::Cases;
use super::life::is_well;
use crate::common::load::{Submission, is_retry_later};
use crate::common::{EVENT_TIMEOUT, log_at, pki, ready, run};

const LUCK: [Luck; 4] = [Luck::All, Luck::None, Luck::Some, Luck::Torn];

/// Cuts of one recorded run.
const CUTS: usize = 40;

/// Cuts of a run in which a sync failed. Further runs show more than further cuts.
const CUTS_BEHIND_A_FAILURE: usize = 4;

/// Syncs of a start and of some rounds.
const SYNCS: u64 = 60;

/// The time during which entries are submitted in a run.
const RUN: Duration = Duration::from_millis(1500);

#[test]
fn power_cuts_lose_nothing() {
    cut_again_and_again(Cases::new("the power is cut", 12), CUTS, None);
}

/// The disk rejected a block, one sync reported that, and the data is lost, although reads return
/// it until the power is cut.
#[test]
fn power_cuts_behind_a_lost_write_lose_nothing() {
    let cases = Cases::new("a write is lost, and the power is cut", 8);
    cut_again_and_again(cases, CUTS_BEHIND_A_FAILURE, Some(SYNCS));
}

/// `failing`: one of this many syncs fails in each run.
fn cut_again_and_again(mut cases: Cases, cuts: usize, failing: Option<u64>) {
    if !tracing_is_permitted() {
        return;
    }
    let mut rng = cases.shared_rng();
    'runs: loop {
        let failing = failing.map(|syncs| rng.random_range(1..=syncs));
        let recorded = Run::record(failing);
        for _ in 0..cuts {
            let Some(mut luck) = cases.next() else {
                break 'runs;
            };
            let made = luck.random_range(0..=recorded.disk.changes().len());
            let kind = *LUCK.choose(&mut luck).unwrap();
            recorded.disk.cut(made, kind, &mut luck).unwrap();
            recorded.is_whole(made, kind);
        }
    }
}

/// A recorded run of a log: its changes of files, and its responses.
struct Run {
    log: LogUnderTest,
    disk: Disk,
    promises: Vec<(Instant, Submission, Bytes)>,
    checkpoints: Vec<(Instant, Bytes)>,
}

impl Run {
    /// Records a run; `failing` is the number of a sync that fails.
    fn record(failing: Option<u64>) -> Self {
        // With this limit, the journal is cut and superseded tiles are removed now and then.
        let log = log_at(Place::directory(), "period: 20\nmaxjournal: 1MiB");
        let mut disk = Disk::before(log.path()).unwrap();
        let plan = Plan {
            below: log.path().to_owned(),
            counted: Change::is_sync,
            strike: failing.map(|number| (number, Strike::Fail(Errno::EIO))),
            record: true,
        };
        let server = log.launch("serve").trace(plan).unwrap();
        let (promises, checkpoints) = run(async {
            ready(&log).await;
            watch(&log).await
        });
        let (status, changes) = server.stop(EVENT_TIMEOUT).unwrap();
        assert!(status.success() || failing.is_some(), "{status}");
        disk.ran(changes);
        Self {
            log,
            disk,
            promises,
            checkpoints,
        }
    }

    /// Checks that all responses before the cut are still valid after it.
    fn is_whole(&self, made: usize, luck: Luck) {
        let changes = self.disk.changes();
        let next = changes.get(made);
        let fault = match next {
            Some(next) => format!("cut before {} (change {made}), {luck:?}", next.change),
            None => format!("cut at the end, {luck:?}"),
        };
        let said = |at: &Instant| next.is_none_or(|next| *at < next.begun);
        let audit = self.log.audit().unwrap();
        for (_, checkpoint) in self.checkpoints.iter().filter(|(at, _)| said(at)) {
            audit.saw_checkpoint(checkpoint).unwrap();
        }
        let promises: Vec<_> = self.promises.iter().filter(|(at, ..)| said(at)).collect();
        for (_, submission, sct) in &promises {
            audit.promised(submission.kind, submission.body.as_bytes(), sct);
        }
        let mut server = self
            .log
            .start()
            .unwrap_or_else(|e| panic!("{fault}: {e:#}"));
        let runtime = Runtime::new().unwrap();
        let report = runtime.block_on(async {
            is_well(&self.log, &fault).await;
            // A duplicate gets the same SCT.
            for (_, submission, _) in promises.iter().rev().take(3) {
                submit(&self.log, &audit, submission).await;
            }
            submit(&self.log, &audit, &fresh()).await;
            audit.run().await.unwrap()
        });
        assert!(
            report.findings.is_empty(),
            "{fault}: {report}\n{}",
            server.output()
        );
        server.kill().unwrap();
    }
}

fn fresh() -> Submission {
    Submission::new(&pki().p256, EntryKind::X509)
}

async fn submit(log: &LogUnderTest, audit: &Audit, submission: &Submission) {
    let answer = log
        .client()
        .post("ct/v1/add-chain", submission.body.clone())
        .await
        .unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    audit.promised(submission.kind, submission.body.as_bytes(), &answer.body);
}

/// Submits for some time, polls the checkpoint, and records all responses with their times.
async fn watch(log: &LogUnderTest) -> (Vec<(Instant, Submission, Bytes)>, Vec<(Instant, Bytes)>) {
    let (started, client) = (Instant::now(), log.client());
    let promises = Mutex::new(Vec::new());
    let checkpoints = Mutex::new(Vec::new());
    let submitting = async || {
        while started.elapsed() < RUN {
            let submission = fresh();
            let post = client.post("ct/v1/add-chain", submission.body.clone());
            let answer = post.await.unwrap();
            if is_retry_later(&answer) {
                // The retry interval: no verdict depends on it.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            assert_eq!(answer.status, 200, "{}", answer.text());
            promises
                .lock()
                .unwrap()
                .push((Instant::now(), submission, answer.body));
        }
    };
    let polling = async {
        while started.elapsed() < RUN {
            let note = client.get("checkpoint").await.unwrap();
            checkpoints
                .lock()
                .unwrap()
                .push((Instant::now(), note.body));
            // The interval of the polls: no verdict depends on it.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::join!(submitting(), submitting(), submitting(), polling);
    (
        promises.into_inner().unwrap(),
        checkpoints.into_inner().unwrap(),
    )
}

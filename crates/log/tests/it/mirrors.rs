//! A log uploads its entries to mirrors, and none of them can disturb the log.

use std::fmt;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use lucarne_cosign::mirror::upload::UploadReader;
use lucarne_cosign::mirror::{EntryFormat, UploadRefusal, Uploaded};
use lucarne_cosign::{AddCheckpoint, LogKeys, Mirror, Refusal, TrustedKey, Witness};
use lucarne_ct::CheckpointVerifier;
use lucarne_log::{Endpoint, Log, WitnessClient, WitnessError, WitnessResponse, Witnesses};
use lucarne_storage::{Assets, MemoryAssets, MemoryLock};
use lucarne_testkit::{eventually, until};
use lucarne_tlog::{NoteSignature, Policy, SignedNote};

use crate::fixture::{Submission, World, audit, key};

const ORIGIN: &str = "log.example/test";
const NOW: u64 = 1_790_000_000;

fn policy() -> Policy {
    let (cosigner, _) = lucarne_ct::mirror_cosigner(&[5; 32], "mirror.example").unwrap();
    let policy = format!("witness M {} https://m/\nquorum M\n", cosigner.verifier());
    Policy::parse(policy.as_bytes()).unwrap()
}

/// A fault of one request.
enum Fault {
    /// No response.
    Silent,
    /// The request is handled, and its response is lost.
    Lost,
    /// The mirror reads only this number of packages.
    Cut(usize),
    /// The mirror starts again, with another secret for its tickets, and reads one package.
    Restarted,
    Instead(u16, String),
}

type Faults = Box<dyn Fn(Endpoint, usize) -> Option<Fault> + Send + Sync>;

/// A mirror of this process, with faults of the requests by their number.
struct Peer {
    mirror: Mutex<Arc<Mirror>>,
    lock: MemoryLock,
    assets: MemoryAssets,
    faults: Faults,
    /// The uploads: size in bytes.
    uploads: Mutex<Vec<usize>>,
}

impl Peer {
    fn new(faults: Faults) -> Arc<Self> {
        let (lock, assets) = (MemoryLock::new(), MemoryAssets::new());
        Arc::new(Peer {
            mirror: Mutex::new(mirror(&lock, &assets, 1)),
            lock,
            assets,
            faults,
            uploads: Mutex::default(),
        })
    }

    /// Returns the number of entries that the mirror has cosigned.
    fn size(&self) -> Option<u64> {
        let mirror = self.mirror.lock().unwrap().clone();
        let mut logs = mirror.logs().values();
        Some(logs.next()?.published()?.size)
    }

    fn uploads(&self) -> usize {
        self.uploads.lock().unwrap().len()
    }
}

fn mirror(lock: &MemoryLock, assets: &MemoryAssets, secret: u8) -> Arc<Mirror> {
    let (cosigner, _) = lucarne_ct::mirror_cosigner(&[5; 32], "mirror.example").unwrap();
    let verifier = CheckpointVerifier::new(ORIGIN, key().public_key_spki()).unwrap();
    let mut keys = LogKeys::default();
    keys.add(ORIGIN, TrustedKey::Ct(verifier));
    let witness = Witness::new([cosigner], keys, Arc::new(lock.clone())).unwrap();
    let store: Arc<dyn Assets> = Arc::new(assets.clone());
    let logs = [(ORIGIN.to_owned(), EntryFormat::Bundles, store)];
    Arc::new(Mirror::new(witness, &[secret; 32], logs))
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Peer")
    }
}

#[async_trait]
impl WitnessClient for Peer {
    async fn post(
        &self,
        _prefix: &str,
        endpoint: Endpoint,
        body: Bytes,
        _max: usize,
    ) -> Result<WitnessResponse, WitnessError> {
        let number = self.uploads();
        let fault = (self.faults)(endpoint, number);
        if endpoint == Endpoint::AddEntries {
            self.uploads.lock().unwrap().push(body.len());
        }
        let packages = match fault {
            Some(Fault::Silent) => std::future::pending().await,
            Some(Fault::Restarted) => {
                *self.mirror.lock().unwrap() = mirror(&self.lock, &self.assets, number as u8);
                1
            }
            Some(Fault::Cut(packages)) => packages,
            _ => usize::MAX,
        };
        let mirror = self.mirror.lock().unwrap().clone();
        let (status, body) = match endpoint {
            Endpoint::AddCheckpoint => add_checkpoint(&mirror, &body).await,
            Endpoint::AddEntries => match add_entries(&mirror, &body, packages).await {
                Ok(Uploaded::Cosigned(lines)) => (200, text(&lines)),
                Ok(Uploaded::Partial(info)) => (202, info.to_string()),
                Err(UploadRefusal::Conflict(info)) => (409, info.to_string()),
                Err(UploadRefusal::Empty) => (400, String::new()),
                Err(refusal) => panic!("{refusal}"),
            },
        };
        let (status, body) = match fault {
            Some(Fault::Lost) => {
                return Err(WitnessError::Unreachable("connection reset".into()));
            }
            Some(Fault::Instead(status, body)) => (status, body),
            _ => (status, body),
        };
        let body = body.into();
        Ok(WitnessResponse { status, body })
    }
}

async fn add_checkpoint(mirror: &Mirror, body: &[u8]) -> (u16, String) {
    match mirror
        .add_checkpoint(&AddCheckpoint::parse(body).unwrap())
        .await
    {
        Ok(()) => (200, String::new()),
        Err(Refusal::Stale(size)) => (409, format!("{size}\n")),
        Err(refusal) => panic!("{refusal}"),
    }
}

async fn add_entries(
    mirror: &Mirror,
    body: &[u8],
    packages: usize,
) -> Result<Uploaded, UploadRefusal> {
    let mut plain = Vec::new();
    MultiGzDecoder::new(body).read_to_end(&mut plain).unwrap();
    let mut reader = UploadReader::default();
    reader.push(&plain);
    let head = reader.head().unwrap().unwrap();
    let mut upload = mirror.upload(head).await?;
    for _ in 0..packages {
        let Some(leaves) = upload.next_package() else {
            break;
        };
        let Some(package) = reader.package(&leaves).unwrap() else {
            break;
        };
        upload.add(package).await?;
    }
    upload.finish(NOW).await
}

fn text(lines: &[NoteSignature]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Creates a log with a mirror. The checkpoint of an idle log is signed ten times per second.
async fn with(peer: &Arc<Peer>) -> World {
    let mut world = World::new().await;
    world.config.rounds.period = Duration::from_millis(20);
    world.config.rounds.max_checkpoint_age = Duration::from_millis(100);
    world.config.witnesses = Some(Witnesses::mirrors(policy(), peer.clone()).unwrap());
    world
}

async fn submit(log: &Arc<Log>, numbers: std::ops::Range<usize>) {
    let submitted =
        numbers.map(|n| async move { drop(Submission::number(n).to(log).await.unwrap()) });
    futures_util::future::join_all(submitted).await;
}

/// Waits until the published checkpoint has this number of entries and the cosignature.
async fn cosigned(world: &World, size: u64) {
    eventually("a cosigned checkpoint", async || {
        let found = world.assets.get("checkpoint").await.unwrap().unwrap();
        let note = SignedNote::parse(&found).unwrap();
        let is_whole = note.text.contains(&format!("\n{size}\n"));
        is_whole && policy().verify_cosignatures(&note).is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_gets_all_entries_and_cosigns_them() {
    let peer = Peer::new(Box::new(|_, _| None));
    let world = with(&peer).await;
    for run in 0..2 {
        let log = world.run().await;
        for n in 0..3 {
            let size = 3 * run + n;
            submit(&log, size..size + 1).await;
            cosigned(&world, size as u64 + 1).await;
        }
        until("the state", || {
            let mirror = &log.witnesses()[0];
            mirror.stored == Some(3 * run as u64 + 3) && mirror.problem.is_none()
        })
        .await;
        let checks = log.health().await.checks;
        let mut details = checks.iter().map(|check| &check.detail);
        assert!(
            details.any(|detail| detail.contains("; M: has ")),
            "{checks:?}"
        );
        assert_eq!(log.witnesses()[0].cosigned.unwrap().1, NOW);
        log.shutdown().await;
    }
}

/// Each fault concerns one upload of a log with entries in three tiles.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_continue_after_faults() {
    let cases: Vec<(&str, Faults)> = vec![
        (
            "one package per request",
            Box::new(|_, _| Some(Fault::Cut(1))),
        ),
        (
            "a package is cut off",
            Box::new(|_, n| (n == 1).then_some(Fault::Cut(0))),
        ),
        (
            "a lost response",
            Box::new(|endpoint, n| {
                (endpoint == Endpoint::AddEntries && n % 2 == 1).then_some(Fault::Lost)
            }),
        ),
        (
            "restarts between requests",
            Box::new(|endpoint, n| match endpoint {
                Endpoint::AddEntries if n % 2 == 1 => Some(Fault::Restarted),
                _ => Some(Fault::Cut(1)),
            }),
        ),
        (
            "an unknown ticket and an earlier entry",
            Box::new(|_, n| (n == 1).then(|| Fault::Instead(409, "600\n256\neA==\n".into()))),
        ),
    ];
    for (name, faults) in cases {
        let peer = Peer::new(Box::new(|_, _| None));
        let mut world = with(&peer).await;
        world.config.witnesses = None;
        let log = world.run().await;
        submit(&log, 0..600).await;
        log.shutdown().await;

        let peer = Peer::new(faults);
        world.config.witnesses = Some(Witnesses::mirrors(policy(), peer.clone()).unwrap());
        let log = world.run().await;
        cosigned(&world, 600).await;
        assert_eq!(peer.size(), Some(600), "{name}");
        assert_eq!(audit(&log).await.len(), 600);
        log.shutdown().await;
    }
}

/// Runs a log with a mirror whose uploads have this result. The log works, and reports `problem`.
async fn reported(fault: impl Fn() -> Fault + Send + Sync + 'static, problem: &str) -> Arc<Peer> {
    let peer = Peer::new(Box::new(move |endpoint, _| {
        (endpoint == Endpoint::AddEntries).then(&fault)
    }));
    let world = with(&peer).await;
    let log = world.run().await;
    submit(&log, 0..3).await;
    until(problem, || {
        let found = log.witnesses()[0].problem.clone();
        found.is_some_and(|found| found.contains(problem))
    })
    .await;
    assert_eq!(audit(&log).await.len(), 3);
    assert_eq!(log.witnesses()[0].cosigned, None);
    log.shutdown().await;
    peer
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_responses_change_nothing() {
    for (status, body, problem) in [
        (200, "no line\n", "no valid cosignature"),
        (202, "3\n1\n", "does not name the next entry"),
        (409, "", "does not name the next entry"),
        (409, "4000\n1\n\n", "a tree of 4000 entries"),
        (503, "", "the status 503"),
    ] {
        reported(move || Fault::Instead(status, body.into()), problem).await;
    }
    reported(
        || Fault::Instead(200, "a".repeat(1 << 20)),
        "more than 16 KiB",
    )
    .await;
}

/// A mirror that always names the same entry gets a bounded number of requests before a pause.
#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_does_not_continue_gets_few_requests() {
    for status in [202, 409] {
        let stuck = move || Fault::Instead(status, "0\n0\n\n".into());
        let peer = reported(stuck, "does not continue after the entry 0").await;
        assert!(peer.uploads() <= 50, "{}", peer.uploads());
    }
}

/// The mirror has the first upload, and never responds: submissions get their SCTs.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_do_not_wait_for_a_silent_mirror() {
    let peer = Peer::new(Box::new(|_, _| Some(Fault::Silent)));
    let world = with(&peer).await;
    let log = world.run().await;
    submit(&log, 0..3).await;
    assert_eq!(log.published().unwrap().size, 3);
    assert_eq!(log.witnesses()[0].stored, None);
    log.shutdown().await;
}

#[test]
fn a_mirror_is_no_witness() {
    let client = Peer::new(Box::new(|_, _| None));
    let witnesses = Witnesses::new(policy(), client.clone()).unwrap();
    let mirrors = Witnesses::mirrors(policy(), client).unwrap();
    let error = witnesses.and(mirrors).unwrap_err().to_string();
    assert_eq!(
        error,
        "M is also a witness: a mirror needs its own name and key"
    );
}

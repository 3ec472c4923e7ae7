//! Wrong content of a dedup index never leads to an SCT for an entry that is not in the tree.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::Roots;
use lucarne_mint::testing::Pki;
use lucarne_storage::{Lock, MemoryAssets, MemoryLock, ReadAssets};
use lucarne_testkit::until;
use prometheus_client::registry::Registry;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::config::{LogConfig, test_config};
use crate::error::inconsistency::{Inconsistency, IndexInconsistency};
use crate::index::dedup::{Anchor, Dedup};
use crate::instances::forward::outcome;
use crate::log::Log;
use crate::shared::Shared;
use crate::status::metrics::Metrics;

impl Submissions {
    /// Submits a chain without recording its steps.
    pub(crate) async fn submit(&self, kind: EntryKind, chain: Chain) -> Result<Sct, SubmitError> {
        self.submit_in_steps(kind, chain, &mut StepTimes::default())
            .await
    }
}

const ENTRIES: usize = 300;
const SEED: u64 = 11;

pub(crate) struct World {
    pub(crate) config: LogConfig,
    pub(crate) assets: MemoryAssets,
    lock: MemoryLock,
}

impl World {
    pub(crate) async fn new(cache: &Path) -> World {
        let config = test_config("doubt", cache);
        let (assets, lock) = (MemoryAssets::new(), MemoryLock::new());
        Log::create(&config, &assets, &lock).await.unwrap();
        World {
            config,
            assets,
            lock,
        }
    }

    /// Returns the state of a backup, with the same cache.
    async fn copy(&self) -> World {
        let lock = MemoryLock::new();
        let id = self.config.key.log_id().0;
        lock.create(&id, &self.signed().await).await.unwrap();
        World {
            config: self.config.clone(),
            assets: self.assets.snapshot(),
            lock,
        }
    }

    async fn signed(&self) -> Vec<u8> {
        let id = self.config.key.log_id().0;
        self.lock.load(&id).await.unwrap().unwrap()
    }

    /// Starts a log that has not issued any SCT yet.
    pub(crate) fn start(&self) -> Arc<Shared> {
        begun(self.shared(ReadAssets::uncached(Arc::new(self.assets.clone()))))
    }

    /// Returns the log with this storage, before it is started.
    pub(crate) fn shared(&self, assets: ReadAssets) -> Shared {
        let (roots, _) = Roots::from_pem(Pki::shared().roots_pem().as_bytes());
        Shared::new(
            self.config.clone(),
            roots,
            assets,
            Arc::new(self.lock.clone()),
            &Metrics::register(&mut Registry::default()),
        )
    }
}

pub(crate) fn begun(log: Shared) -> Arc<Shared> {
    let log = Arc::new(log);
    tokio::spawn(log.clone().supervise());
    log
}

pub(crate) async fn stop(log: &Shared) {
    log.status.close();
    if let Some(session) = log.submissions.session.load().as_ref() {
        session.pool.close();
    }
    log.wake.notify_one();
    settled(log, |state| *state == State::Closed).await;
}

pub(crate) async fn settled(log: &Shared, wished: impl Fn(&State) -> bool) -> State {
    let mut state = State::Starting;
    until("the log settles", || {
        state = log.status.state();
        wished(&state)
    })
    .await;
    state
}

pub(crate) fn started(state: &State) -> bool {
    matches!(state, State::Running | State::Stopped { .. })
}

pub(crate) struct Logged {
    pub(crate) chain: Chain,
    signed: SignedEntry,
    pub(crate) place: LeafPosition,
}

/// Fills a log, and returns the entries with their true places.
pub(crate) async fn fill(log: &Arc<Shared>, hosts: Range<usize>) -> Vec<Logged> {
    let pki = Pki::shared();
    let chains: Vec<Chain> = hosts
        .map(|n| pki.certificate(&pki.p256, &format!("host-{n}.example")))
        .map(|chain| Chain::from_ders(chain.unwrap().certificates()).unwrap())
        .collect();
    let submit = |chain: &Chain| {
        let (log, chain) = (log.clone(), chain.clone());
        tokio::spawn(async move {
            log.submissions
                .submit(EntryKind::X509, chain)
                .await
                .unwrap()
        })
    };
    let answers: Vec<_> = chains.iter().map(submit).collect();
    let mut logged = Vec::new();
    for (chain, answer) in chains.into_iter().zip(answers) {
        let sct = answer.await.unwrap();
        let certificate = Bytes::copy_from_slice(chain.leaf());
        logged.push(Logged {
            chain,
            signed: SignedEntry::X509 { certificate },
            place: LeafPosition {
                index: sct.index().unwrap(),
                timestamp_ms: sct.timestamp,
            },
        });
    }
    logged
}

/// Submits an entry, and returns whether the response has an SCT, which must be correct.
pub(crate) async fn answered(log: &Shared, entry: &Logged) -> bool {
    match log
        .submissions
        .submit(EntryKind::X509, entry.chain.clone())
        .await
    {
        Ok(sct) => {
            let place = LeafPosition {
                index: sct.index().unwrap(),
                timestamp_ms: sct.timestamp,
            };
            assert_eq!(place, entry.place, "a false SCT");
            let key = log.config.key.public_key().unwrap();
            sct.verify(&key, &entry.signed).unwrap();
            true
        }
        Err(SubmitError::Unavailable(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

fn corrupt(rng: &mut StdRng, right: LeafPosition, other: LeafPosition) -> LeafPosition {
    let flip = |value: u64, bit: u32| value ^ (1 << bit);
    match rng.random_range(0..6) {
        0 => LeafPosition {
            index: flip(right.index, rng.random_range(0..64)),
            ..right
        },
        1 => LeafPosition {
            timestamp_ms: flip(right.timestamp_ms, rng.random_range(0..64)),
            ..right
        },
        2 => other,
        3 => LeafPosition {
            index: other.index,
            ..right
        },
        4 => LeafPosition {
            timestamp_ms: other.timestamp_ms ^ 1,
            ..other
        },
        _ => LeafPosition {
            index: rng.random_range(0..2 * ENTRIES as u64),
            timestamp_ms: right.timestamp_ms ^ rng.random_range(0..1024),
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_wrong_place_of_the_index_gives_a_false_sct() {
    let cache = tempfile::tempdir().unwrap();
    let world = World::new(&cache.path().join("dedup")).await;
    let log = world.start();
    settled(&log, started).await;
    let logged = fill(&log, 0..ENTRIES).await;
    stop(&log).await;
    drop(log);
    let log = world.start();
    assert_eq!(settled(&log, started).await, State::Running);
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut wrong = 0;
    for n in 0..10_000 {
        let entry = &logged[rng.random_range(0..ENTRIES)];
        let other = logged[rng.random_range(0..ENTRIES)].place;
        let place = corrupt(&mut rng, entry.place, other);
        let identity = entry.signed.identity();
        let put = |place| {
            let session = log.submissions.session.load_full().unwrap();
            let Anchor { head, .. } = session.dedup.anchor();
            let entries = std::iter::once((identity, place));
            session.dedup.extend(entries, head.size, head).unwrap();
        };
        put(place);
        let right = answered(&log, entry).await;
        assert_eq!(right, place == entry.place, "{n}: {place:?}");
        wrong += u64::from(!right);
        put(entry.place);
    }
    assert!(wrong > 9_000, "{wrong}");
    assert_eq!(log.metrics.dedup_wrong.get(), wrong);
    assert!(
        log.submissions
            .session
            .load()
            .as_ref()
            .unwrap()
            .dedup
            .is_distrusted()
    );
    stop(&log).await;
    drop(log);
    // The damaged index is not used again: the next index is built from the tree.
    let log = world.start();
    assert_eq!(settled(&log, started).await, State::Running);
    for entry in &logged {
        assert!(answered(&log, entry).await);
    }
    assert!(cache.path().join("dedup.damaged-1").exists());
    stop(&log).await;
}

/// The tree decides whose place is wrong: the index of a follower did not return the place of the
/// leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_place_of_the_leader_leaves_the_index_trusted() {
    let cache = tempfile::tempdir().unwrap();
    let world = World::new(&cache.path().join("dedup")).await;
    let log = world.start();
    settled(&log, started).await;
    let logged = fill(&log, 0..3).await;
    stop(&log).await;
    drop(log);
    let log = world.start();
    settled(&log, started).await;
    let session = log.submissions.session.load_full().unwrap();
    let (entry, wrong) = (&logged[0], logged[1].place);
    let identity = entry.signed.identity();
    let submissions = &log.submissions;
    let prove = |place, source| submissions.prove(&identity, &entry.signed, place, source);
    prove(entry.place, Source::Leader).await.unwrap();
    prove(wrong, Source::Leader).await.unwrap_err();
    assert_eq!(log.metrics.dedup_wrong.get(), 1);
    assert!(!session.dedup.is_distrusted());
    // A leader examines the places of its own index.
    for (place, is_right) in [(entry.place, true), (wrong, false)] {
        let at = At::Index(place);
        let indexed = submissions.prove_indexed(&identity, &entry.signed, &at);
        assert_eq!(indexed.await.is_ok(), is_right);
    }
    assert!(session.dedup.is_distrusted());
    drop(session);
    stop(&log).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_flipped_bit_of_the_index_gives_a_false_sct() {
    let cache = tempfile::tempdir().unwrap();
    let world = World::new(&cache.path().join("whole")).await;
    let log = world.start();
    settled(&log, started).await;
    let logged = fill(&log, 0..ENTRIES).await;
    stop(&log).await;
    drop(log);
    let mut rng = StdRng::seed_from_u64(SEED);
    for n in 0..40 {
        let copy = cache.path().join(format!("copy-{n}"));
        let files = copied(&world.config.cache, &copy);
        let flipped = &files[rng.random_range(0..files.len())];
        let mut bytes = std::fs::read(flipped).unwrap();
        let at = rng.random_range(0..bytes.len());
        bytes[at] ^= 1 << rng.random_range(0..8);
        std::fs::write(flipped, bytes).unwrap();
        let mut config = world.config.clone();
        config.cache = copy;
        let world = World {
            config,
            assets: world.assets.snapshot(),
            lock: world.lock.clone(),
        };
        let log = world.start();
        if settled(&log, started).await == State::Running {
            for entry in logged.iter().step_by(30) {
                answered(&log, entry).await;
            }
            let published = log.reader.published().unwrap();
            assert_eq!(published.size, ENTRIES as u64, "logged twice");
        }
        stop(&log).await;
    }
}

/// Copies the files of a directory, and returns the files that are not empty.
fn copied(from: &Path, to: &Path) -> Vec<std::path::PathBuf> {
    std::fs::create_dir_all(to).unwrap();
    let mut files = Vec::new();
    for entry in from.read_dir().unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            files.extend(copied(&entry.path(), &target));
        } else if std::fs::copy(entry.path(), &target).unwrap() > 0 {
            files.push(target);
        }
    }
    files.sort();
    files
}

/// An index that is no longer used still proves that lock and storage are older.
async fn an_index_that_is_not_used_is_evidence(spoil: impl Fn(&Dedup)) {
    let cache = tempfile::tempdir().unwrap();
    let world = World::new(&cache.path().join("dedup")).await;
    let log = world.start();
    settled(&log, started).await;
    fill(&log, 0..5).await;
    stop(&log).await;
    drop(log);
    let backup = world.copy().await;
    let log = world.start();
    settled(&log, started).await;
    fill(&log, 5..10).await;
    indexed(&log, 10).await;
    spoil(&log.submissions.session.load().as_ref().unwrap().dedup);
    stop(&log).await;
    drop(log);

    let before = backup.signed().await;
    for _ in 0..2 {
        let log = backup.start();
        let State::Stopped { reason, .. } = settled(&log, started).await else {
            panic!("a fork is signed");
        };
        assert!(reason.contains("has seen 10 entries"), "{reason}");
        assert!(reason.contains("has only 5"), "{reason}");
        stop(&log).await;
        let assets = Arc::new(backup.assets.clone());
        let examined = crate::examine(&backup.config, assets, &backup.lock).await;
        let Err(Fatal::Inconsistent(found)) = examined else {
            panic!("{examined:?}");
        };
        let Inconsistency::Index(IndexInconsistency::Newer { seen, size, .. }) = *found else {
            panic!("{found}");
        };
        assert_eq!((seen.entries, size), (10, 5));
    }
    assert_eq!(backup.signed().await, before, "nothing is signed");
    assert!(!cache.path().join("dedup.damaged-1").exists());
    // With the newest lock, the index is set aside.
    let log = world.start();
    assert_eq!(settled(&log, started).await, State::Running);
    assert!(cache.path().join("dedup.damaged-1").exists());
    stop(&log).await;
}

async fn indexed(log: &Shared, entries: u64) {
    let dedup = log
        .submissions
        .session
        .load()
        .as_ref()
        .unwrap()
        .dedup
        .clone();
    let what = format!("{entries} entries are indexed");
    until(&what, || dedup.anchor().head.size == entries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_whose_disk_has_failed_is_evidence() {
    an_index_that_is_not_used_is_evidence(|dedup| {
        let error = std::io::Error::from_raw_os_error(5);
        dedup.fatal(&error);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_named_a_wrong_place_is_evidence() {
    an_index_that_is_not_used_is_evidence(|dedup| {
        assert!(dedup.distrust());
        dedup.note_distrust().unwrap();
    })
    .await;
}

/// The disk of the index could not even store the mark of its failure, and an error of the lock
/// ended this session and the next session.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_has_failed_is_made_anew_whatever_ended_the_session() {
    let cache = tempfile::tempdir().unwrap();
    let world = World::new(&cache.path().join("dedup")).await;
    let log = world.start();
    settled(&log, started).await;
    fill(&log, 0..5).await;
    indexed(&log, 5).await;
    let error = std::io::Error::from_raw_os_error(5);
    let fail = |dedup: &Dedup| dedup.fatal(&error);
    fail(&log.submissions.session.load().as_ref().unwrap().dedup);
    std::fs::remove_file(cache.path().join("dedup/failed")).unwrap();
    world.lock.fail(Some("unplugged"));
    settled(&log, |_| log.metrics.failures.get() >= 2).await;
    world.lock.fail(None);
    log.wake.notify_one();
    assert_eq!(
        settled(&log, |state| *state == State::Running).await,
        State::Running
    );
    assert!(cache.path().join("dedup.damaged-1").exists());
    fill(&log, 0..10).await;
    stop(&log).await;
}

/// The steps of a submission whose round fails end with the wait for the round.
#[tokio::test(flavor = "multi_thread")]
async fn the_wait_for_a_failed_round_is_a_step() {
    let cache = tempfile::tempdir().unwrap();
    let world = World::new(&cache.path().join("dedup")).await;
    let log = world.start();
    settled(&log, started).await;
    world.lock.fail(Some("unplugged"));
    let chain = Pki::shared().certificate(&Pki::shared().p256, "failed.example");
    let chain = Chain::from_ders(chain.unwrap().certificates()).unwrap();
    let mut steps = StepTimes::since(std::time::Instant::now());
    let submitted = log
        .submissions
        .submit_in_steps(EntryKind::X509, chain, &mut steps);
    let error = submitted.await.unwrap_err();
    assert!(matches!(error, SubmitError::Unavailable(_)), "{error}");
    let names: Vec<_> = steps.into_steps().iter().map(|step| step.name).collect();
    assert_eq!(names, ["validate", "wait"]);
    world.lock.fail(None);
    stop(&log).await;
}

/// A stopped log that starts again in a second does not wait for a next leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_log_is_not_without_a_leader() {
    let cache = tempfile::tempdir().unwrap();
    let world = World::new(&cache.path().join("dedup")).await;
    let log = world.start();
    settled(&log, started).await;
    let submissions = &log.submissions;
    let outcome_in = async |state| {
        submissions.status.set_state(state);
        outcome(Err(submissions.unavailable())).await
    };
    let stopped = State::Stopped {
        reason: "an error".into(),
        since_ms: 0,
        retry_at_ms: log.config.clock.now_ms() + 1000,
    };
    let refused = Outcome::Unavailable {
        retry_after_seconds: 2,
    };
    assert_eq!(outcome_in(stopped).await, refused);
    let following = State::Following { leader: None };
    assert_eq!(outcome_in(following).await, Outcome::Lost);
    submissions.status.set_state(State::Running);
    stop(&log).await;
}

/// A chain to an unknown root may lead to a root that has not been read yet.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_root_is_not_refused_before_all_roots_are_read() {
    let cache = tempfile::tempdir().unwrap();
    let world = World::new(&cache.path().join("dedup")).await;
    let log = world.start();
    settled(&log, started).await;
    let roots = Roots::clone(&log.submissions.roots());
    let use_roots = |roots| log.submissions.set_roots(roots);
    use_roots(Roots::new());
    log.submissions.await_roots(true);
    let pki = Pki::shared();
    let chain = pki.certificate(&pki.p256, "early.example").unwrap();
    let chain = Chain::from_ders(chain.certificates()).unwrap();
    let submit = || log.submissions.submit(EntryKind::X509, chain.clone());
    let error = submit().await.unwrap_err();
    assert!(matches!(error, SubmitError::Unavailable(_)), "{error}");
    use_roots(roots);
    submit().await.unwrap();
    use_roots(Roots::new());
    log.submissions.await_roots(false);
    let other = pki.certificate(&pki.p256, "late.example").unwrap();
    let other = Chain::from_ders(other.certificates()).unwrap();
    let error = log
        .submissions
        .submit(EntryKind::X509, other)
        .await
        .unwrap_err();
    assert!(matches!(error, SubmitError::Rejected(_)), "{error}");
    stop(&log).await;
}

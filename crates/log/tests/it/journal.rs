//! A journal in a directory that another program has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lucarne_log::{Log, State};
use lucarne_storage::{PosixAssets, PosixRepairs, Repairs};
use lucarne_testkit::block_until;
use tempfile::TempDir;

use crate::fixture::{Submission, World, audit, reached, submit_all};

/// Header of a segment, and of a record.
const HEADERS: usize = 40 + 56;

/// A log with the directory of a killed process, and the directory one round earlier.
struct Killed {
    world: World,
    directory: TempDir,
    earlier: TempDir,
}

const ROUNDS: usize = 6;

impl Killed {
    async fn new() -> Killed {
        let (mut world, directory) = (World::new().await, TempDir::new().unwrap());
        world.lock = Arc::default();
        let running = Arc::new(PosixAssets::open(directory.path()).unwrap());
        Log::create(&world.config, &*running, &*world.lock)
            .await
            .unwrap();
        let log = world.start_on(running);
        reached(&log, |state| *state == State::Running).await;
        let mut copies = Vec::new();
        for round in 0..ROUNDS {
            submit_all(&log, &[Submission::number(round)]).await;
            copies.push(copy_of(directory.path()));
        }
        let lock = world.copy_of_lock().await;
        log.shutdown().await;
        world.lock = lock;
        world.config.cache = world.cache.path().join("next");
        let (directory, earlier) = (copies.pop().unwrap(), copies.pop().unwrap());
        Killed {
            world,
            directory,
            earlier,
        }
    }

    /// Returns the segment with the rounds.
    fn segment(&self) -> PathBuf {
        let journal = self.directory.path().join(".lucarne/journal");
        let segments = fs::read_dir(journal)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        segments
            .max_by_key(|path| written(&fs::read(path).unwrap()))
            .unwrap()
    }

    fn damage(&self, damage: impl Fn(&mut [u8])) {
        let path = self.segment();
        let mut bytes = fs::read(&path).unwrap();
        let end = written(&bytes);
        damage(&mut bytes[..end]);
        fs::write(path, bytes).unwrap();
    }

    /// Starts the log, and returns it with its state.
    async fn start(&self) -> (Arc<Log>, State) {
        let log = self.world.start_on(Arc::new(open(self.directory.path())));
        reached(&log, |state| *state != State::Starting).await;
        let state = log.state();
        (log, state)
    }
}

fn written(segment: &[u8]) -> usize {
    segment
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

/// Opens the directory after the last process or log has released it.
fn open(directory: &Path) -> PosixAssets {
    let mut assets = None;
    block_until("the directory is released", || {
        assets = PosixAssets::open(directory).ok();
        assets.is_some()
    });
    assets.unwrap()
}

fn copy_of(directory: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(directory.join("."))
        .arg(copy.path())
        .status();
    assert!(copied.unwrap().success());
    copy
}

fn kept(directory: &Path) -> usize {
    let kept = fs::read_dir(directory.join(".lucarne/damaged/journal"));
    kept.map_or(0, Iterator::count)
}

/// The published files have all rounds of the journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_journal_of_published_rounds_is_not_needed() {
    type Damage = (&'static str, fn(&mut [u8]));
    let damages: [Damage; 4] = [
        ("the header of the segment", |bytes| bytes[30] ^= 1),
        ("the first round", |bytes| bytes[HEADERS + 9] ^= 1),
        ("zeros", |bytes| {
            let half = bytes.len() / 2;
            bytes[HEADERS..half].fill(0);
        }),
        ("a truncated file that was appended to", |bytes| {
            let most = bytes.len() - 90;
            bytes[..most].fill(0);
        }),
    ];
    for (what, damage) in damages {
        let killed = Killed::new().await;
        killed.damage(damage);
        let (log, state) = killed.start().await;
        assert_eq!(state, State::Running, "{what}");
        assert_eq!(audit(&log).await.len(), ROUNDS, "{what}");
        submit_all(&log, &[Submission::number(100)]).await;
        log.shutdown().await;
        drop(log);
        assert_eq!(
            kept(killed.directory.path()),
            1,
            "{what}: it is kept as evidence"
        );
        let (log, state) = killed.start().await;
        assert_eq!(state, State::Running, "{what}");
        assert_eq!(audit(&log).await.len(), ROUNDS + 1, "{what}");
        log.shutdown().await;
    }
}

/// The round after the damage was not published: the journal still has this round.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_after_a_damaged_round_is_published() {
    let mut killed = Killed::new().await;
    killed.damage(|bytes| bytes[HEADERS + 9] ^= 1);
    let journal = PathBuf::from(".lucarne/journal");
    let damaged = killed.segment();
    let place = killed
        .earlier
        .path()
        .join(&journal)
        .join(damaged.file_name().unwrap());
    fs::copy(&damaged, place).unwrap();
    std::mem::swap(&mut killed.directory, &mut killed.earlier);
    let (log, state) = killed.start().await;
    assert_eq!(state, State::Running);
    assert_eq!(audit(&log).await.len(), ROUNDS);
    log.shutdown().await;
}

/// A power cut may also have taken files that only the damaged rounds could restore.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_journal_is_refused_if_its_rounds_are_not_published() {
    for lost in ["checkpoint", "issuer"] {
        let killed = Killed::new().await;
        killed.damage(|bytes| {
            let most = bytes.len() - 90;
            bytes[HEADERS + 9] ^= 1;
            bytes[most..].fill(1);
        });
        let lost = killed.directory.path().join(lost);
        if lost.is_dir() {
            fs::remove_dir_all(&lost).unwrap();
        } else {
            fs::copy(killed.earlier.path().join("checkpoint"), &lost).unwrap();
        }
        let (log, state) = killed.start().await;
        let State::Stopped { reason, .. } = state else {
            panic!("{state:?}");
        };
        assert!(reason.contains("is damaged at byte"), "{reason}");
        log.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_keeps_a_damaged_segment_aside() {
    let killed = Killed::new().await;
    killed.damage(|bytes| bytes[HEADERS + 9] ^= 1);
    let repairs = PosixRepairs::open(killed.directory.path()).unwrap();
    let size = ROUNDS as u64;
    let found = repairs.damaged_rounds(size).await.unwrap();
    assert!(
        found.contains(&killed.segment().display().to_string()),
        "{found:?}"
    );
    // The process of a running log moves its segments itself.
    let running = open(killed.directory.path());
    assert!(
        repairs
            .remove_damaged_rounds(size)
            .await
            .unwrap()
            .is_empty()
    );
    drop(running);
    let removed = repairs.remove_damaged_rounds(size).await.unwrap();
    assert_eq!(removed.len(), found.len());
    assert_eq!(kept(killed.directory.path()), found.len());
    assert!(repairs.damaged_rounds(size).await.unwrap().is_empty());
    let (log, state) = killed.start().await;
    assert_eq!(state, State::Running);
    log.shutdown().await;
}

//! Power failures of a log in a directory: files that were not settled may be missing, truncated,
//! zeroed or old, each independently, and the log continues.

use std::sync::Arc;
use std::time::Duration;

use crate::fixture::{Submission, World, audit, place, reached, submit_all};
use lucarne_log::State;
use lucarne_storage::PosixAssets;
use lucarne_storage::conformance::{Fate, PowerLoss};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Builder;

/// Index and timestamp of an entry.
type Place = (u64, u64);

/// Runs the log once, and drops all its tasks without a shutdown. Returns the new submissions with
/// their positions.
fn live(
    world: &World,
    assets: &Arc<PowerLoss>,
    promised: &[(Submission, Place)],
    random: &mut StdRng,
) -> Vec<(Submission, Place)> {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let new = runtime.block_on(async {
        let log = world.start_on(assets.clone());
        reached(&log, |state| *state == State::Running).await;
        let entries = audit(&log).await;
        for (submission, before) in promised {
            assert_eq!(
                entries[before.0 as usize].1, before.1,
                "an entry is not where it was"
            );
            if random.random_ratio(1, 8) {
                assert_eq!(place(&submission.to(&log).await.unwrap()), *before);
            }
        }
        let count = random.random_range(1..400);
        let submissions: Vec<_> = (0..count).map(Submission::number).collect();
        let mut new = Vec::new();
        for chunk in submissions.chunks(60) {
            let scts = submit_all(&log, chunk).await;
            new.extend(chunk.iter().cloned().zip(scts.iter().map(place)));
        }
        new
    });
    runtime.shutdown_timeout(Duration::from_secs(10));
    new
}

/// The same log survives many power failures, each with random damage to its unsettled files.
#[test]
fn a_log_survives_power_failures_one_after_the_other() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::new());
    let directory = tempfile::tempdir().unwrap();
    let mut random = StdRng::seed_from_u64(20_261_121);
    let mut promised = Vec::new();
    let mut at_risk = 0;
    for _ in 0..12 {
        let assets = PosixAssets::create(directory.path()).unwrap();
        let assets = Arc::new(PowerLoss::new(assets));
        promised.extend(live(&world, &assets, &promised, &mut random));
        at_risk += assets.unsettled().len();
        assets.fail_power(|_| match random.random_range(0..4) {
            0 => Fate::Kept,
            1 => Fate::Undone,
            2 => Fate::Truncated(random.random_range(0..200)),
            _ => Fate::Zeroed,
        });
        assets.tear_journal(&[0x4c; 37][..random.random_range(0..37)]);
    }
    assert!(
        at_risk > 100,
        "only {at_risk} files were at risk: the test tests nothing"
    );
}

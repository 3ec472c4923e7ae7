//! Damaged files that the log restores at its start.

use bytes::Bytes;
use lucarne_log::State;
use lucarne_storage::Assets;
use lucarne_tlog::{RightEdge, Tile};

use crate::fixture::{Submission, World, audit, reached, submit_all};

/// Returns a stopped log with hash tiles of two levels at its right edge, and its size.
async fn stopped() -> (World, u64) {
    let world = World::new().await;
    let log = world.run().await;
    let submissions: Vec<_> = (0..300).map(Submission::number).collect();
    submit_all(&log, &submissions).await;
    let size = log.published().unwrap().size;
    log.shutdown().await;
    (world, size)
}

/// Returns the file with a flipped bit, truncated, and missing.
fn damages(right: &Bytes) -> [Option<Bytes>; 3] {
    let mut flipped = right.to_vec();
    flipped[7] ^= 1;
    let cut = right.slice(..right.len() - 1);
    [Some(flipped.into()), Some(cut), None]
}

/// Hash tiles of the right edge are computed from the tiles beneath. The damaged files are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_restores_the_right_edge() {
    let (world, size) = stopped().await;
    let edge: Vec<Tile> = RightEdge::tiles(size).collect();
    assert_eq!(edge.len(), 2);
    for path in edge.iter().map(Tile::path) {
        let right = world.assets.get(&path).await.unwrap().unwrap();
        for damage in damages(&right) {
            let world = world.crashed().await;
            world.assets.tamper(&path, damage.clone());
            let log = world.run().await;
            assert_eq!(audit(&log).await.len() as u64, size);
            log.shutdown().await;
            let restored = world.assets.get(&path).await.unwrap();
            assert_eq!(restored, Some(right.clone()), "{path}");
            let kept = format!(".lucarne/damaged/{path}-1");
            let is_kept = world.assets.paths().contains(&kept);
            assert_eq!(is_kept, damage.is_some(), "{path}");
        }
    }
    // All tiles of the edge are missing.
    let world = world.crashed().await;
    for tile in edge {
        world.assets.tamper(&tile.path(), None);
    }
    let log = world.run().await;
    submit_all(&log, &[Submission::number(300)]).await;
    assert_eq!(audit(&log).await.len() as u64, size + 1);
    log.shutdown().await;
}

/// If the entries beneath are damaged as well, the refusal names the files and the command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_names_the_damaged_files() {
    let (world, _) = stopped().await;
    for path in ["tile/0/001.p/44", "tile/data/001.p/44"] {
        let right = world.assets.get(path).await.unwrap().unwrap();
        let [flipped, ..] = damages(&right);
        world.assets.tamper(path, flipped);
    }
    let log = world.start();
    reached(&log, |state| matches!(state, State::Stopped { .. })).await;
    let State::Stopped { reason, .. } = log.state() else {
        unreachable!();
    };
    assert!(reason.contains("restore tile/0/001.p/44"), "{reason}");
    assert!(reason.contains("lucarne repair --from"), "{reason}");
    log.shutdown().await;
}

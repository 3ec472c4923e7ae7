//! Samples: a random tile, and a listing that is compared with the size of the tree.
//!
//! A complete pass over a bucket costs millions of requests. A sample costs a few. If storage was
//! emptied or rolled back, one of the first samples detects that.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use lucarne_storage::AssetError;
use lucarne_tlog::{Level, TILE_WIDTH, Tile};

use crate::check::fsck::{Finding, Problem};
use crate::shared::Shared;

/// Number of tiles in one directory, by the paths of the static CT API.
const BESIDE: u64 = 1000;
/// Maximum number of missing tiles that are reported for one directory.
const MOST_REPORTED: usize = 8;

/// Returns the index of a random data tile of the published tree.
pub(super) fn random_tile(log: &Shared) -> u64 {
    let size = log.reader.published().map_or(0, |published| published.size);
    random(size.div_ceil(TILE_WIDTH))
}

/// Returns a random number below `below`. The hash keys of `std` are random enough for a sample.
fn random(below: u64) -> u64 {
    RandomState::new().hash_one(below) % below.max(1)
}

/// Lists a random directory of full tiles, and returns the missing tiles.
///
/// # Errors
/// If storage cannot list the directory.
pub(super) async fn missing(log: &Shared) -> Result<Vec<Finding>, AssetError> {
    let size = log.reader.published().map_or(0, |published| published.size);
    let full = size / TILE_WIDTH;
    let level = match random(2) {
        0 => Level::Data,
        _ => Level::Hashes(0),
    };
    let first = random(full) / BESIDE * BESIDE;
    let paths: Vec<(u64, String)> = (first..full.min(first + BESIDE))
        .filter_map(|index| Some((index, Tile::new(level, index, TILE_WIDTH as u16)?.path())))
        .collect();
    let Some((_, any)) = paths.first() else {
        return Ok(Vec::new());
    };
    let Some(names) = log.assets.beside(any).await? else {
        return Ok(Vec::new());
    };
    let names: HashSet<&str> = names.iter().map(String::as_str).collect();
    let is_missing = |path: &str| {
        !path
            .rsplit('/')
            .next()
            .is_some_and(|name| names.contains(name))
    };
    let missing = paths.into_iter().filter(|(_, path)| is_missing(path));
    let finding = |(index, path)| Finding {
        path,
        offset: None,
        entry: Some(index * TILE_WIDTH),
        problem: Problem::Missing,
    };
    Ok(missing.map(finding).take(MOST_REPORTED).collect())
}

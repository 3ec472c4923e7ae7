//! `freshness` and `backlog`: the two lanes of submissions.

use std::num::NonZeroU32;

use lucarne_log::LaneConfig;
use lucarne_settings::{Located, Reader};

use super::keys;
use super::keys::backlog::{POOL, RATE};
use super::keys::rounds::{BACKLOG, FRESHNESS};

/// Reads `freshness` and `backlog` of a log with this pool size.
pub(super) fn read(reader: &mut Reader<'_, '_>, pool_size: usize) -> LaneConfig {
    let usual = LaneConfig::default();
    let freshness = reader.get(&FRESHNESS);
    let (old_rate, old_pool) = backlog(reader, pool_size).unwrap_or_default();
    LaneConfig {
        freshness: freshness.unwrap_or(usual.freshness),
        old_rate,
        old_pool,
    }
}

fn backlog(
    reader: &mut Reader<'_, '_>,
    pool_size: usize,
) -> Option<(Option<NonZeroU32>, Option<usize>)> {
    let node = reader.node(&BACKLOG)?;
    let (path, directory) = (reader.path_of(&BACKLOG), reader.directory());
    let section = keys::open(node, &path, &keys::backlog::TABLE, reader.report())?;
    let mut inside = Reader::new(section, path, directory, reader.report());
    let rate = inside.get(&RATE);
    let pool = inside.read(&POOL);
    if let Some(Located { value, line }) = pool
        && value > pool_size as u64
    {
        let message =
            format!("{value} entries are more than `poolsize` ({pool_size}), which includes them");
        inside.problem(line, &POOL, message);
    }
    let rate = rate.and_then(|rate| NonZeroU32::new(u32::try_from(rate).ok()?));
    Some((rate, pool.map(|pool| pool.value as usize)))
}

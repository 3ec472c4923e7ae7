//! Fills the gaps of the dedup index when their tiles can be read again.

use std::convert::Infallible;
use std::sync::Arc;

use lucarne_tlog::TILE_WIDTH;

use super::source::Source;
use super::{LOOK_AGAIN, blocking};
use crate::error::Fatal;
use crate::index::dedup::Dedup;
use crate::index::log_index::LogIndex;
use crate::index::unreadable_entries::Gap;

/// Reads the tiles of gaps again every [`LOOK_AGAIN`].
pub(super) async fn again_and_again(log: &LogIndex, dedup: &Arc<Dedup>) -> Infallible {
    loop {
        // A fixed pause, because no event reports that an operator has restored a tile.
        tokio::time::sleep(LOOK_AGAIN).await;
        let Some(tree) = log.reader.tree() else {
            continue;
        };
        let source = Source::new(&*log.assets, log.reader.tiles(), &tree);
        let gaps = dedup.gaps.all();
        for of_tile in gaps.chunk_by(|a, b| a.first / TILE_WIDTH == b.first / TILE_WIDTH) {
            if let Err(error) = mend(dedup, &source, of_tile).await {
                tracing::warn!(log = log.config.shortname, %error, "dedup index: cannot fill \
                                                                    gaps, retrying");
            }
        }
        log.note(dedup);
    }
}

/// Reads the tile of these gaps, and fills the gaps whose entries are right.
async fn mend(dedup: &Arc<Dedup>, source: &Source<'_>, gaps: &[Gap]) -> Result<(), Fatal> {
    let Some(tile) = gaps.first().map(|gap| gap.first / TILE_WIDTH) else {
        return Ok(());
    };
    let found = source.read(tile).await?;
    let within = |index: u64| {
        gaps.iter()
            .find(|gap| (gap.first..gap.end).contains(&index))
    };
    let mut entries = found.entries;
    entries.retain(|(_, place)| within(place.index).is_some());
    if entries.is_empty() {
        return Ok(());
    }
    let mut left = found.gaps;
    left.retain(|gap| within(gap.first).is_some());
    for gap in &mut left {
        let bound = gaps.iter().map(|gap| gap.latest_ms).max();
        gap.latest_ms = gap.latest_ms.min(bound.unwrap_or(u64::MAX));
    }
    tracing::info!(tile, entries = entries.len(), "dedup index: filled gaps");
    let (index, gaps) = (dedup.clone(), gaps.to_vec());
    blocking(move || index.mend(&entries, &gaps, &left)).await
}

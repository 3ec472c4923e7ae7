//! Fills the gaps of the dedup index when their tiles can be read again.

use std::convert::Infallible;
use std::sync::Arc;

use lucarne_tlog::TILE_WIDTH;

use super::source::Source;
use super::{LOOK_AGAIN, blocking};
use crate::error::Fatal;
use crate::index::dedup::{self, Dedup, Record};
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
        if let Err(error) = fill(log, dedup, &source).await {
            let name = &log.config.shortname;
            tracing::warn!(log = name, %error, "dedup index: cannot fill gaps, retrying");
        }
        log.note(dedup);
    }
}

/// Gaps whose entries were read.
#[derive(Default)]
struct Filled {
    entries: Vec<Record>,
    before: Vec<Gap>,
    /// The parts of the gaps that are left.
    after: Vec<Gap>,
}

/// Reads the tiles of all gaps, and adds their entries in as few tables as a backlog of the size.
async fn fill(log: &LogIndex, dedup: &Arc<Dedup>, source: &Source<'_>) -> Result<(), Fatal> {
    let gaps = dedup.gaps.all();
    let mut filled = Filled::default();
    for of_tile in gaps.chunk_by(|a, b| a.first / TILE_WIDTH == b.first / TILE_WIDTH) {
        if let Err(error) = filled.read(source, of_tile).await {
            let name = &log.config.shortname;
            tracing::warn!(log = name, %error, "dedup index: cannot read a tile, retrying");
        }
        if filled.entries.len() as u64 >= dedup::PART {
            std::mem::take(&mut filled).write(dedup).await?;
        }
    }
    filled.write(dedup).await
}

impl Filled {
    /// Reads the tile of these gaps, and adds the entries that are right.
    async fn read(&mut self, source: &Source<'_>, gaps: &[Gap]) -> Result<(), Fatal> {
        let Some(tile) = gaps.first().map(|gap| gap.first / TILE_WIDTH) else {
            return Ok(());
        };
        let mut found = source.read(tile).await?;
        let within = |index: u64| gaps.iter().any(|gap| (gap.first..gap.end).contains(&index));
        found.entries.retain(|(_, place)| within(place.index));
        if found.entries.is_empty() {
            return Ok(());
        }
        found.gaps.retain(|gap| within(gap.first));
        let bound = gaps.iter().map(|gap| gap.latest_ms).max();
        for gap in &mut found.gaps {
            gap.latest_ms = gap.latest_ms.min(bound.unwrap_or(u64::MAX));
        }
        self.entries.append(&mut found.entries);
        self.before.extend(gaps);
        self.after.append(&mut found.gaps);
        Ok(())
    }

    async fn write(self, dedup: &Arc<Dedup>) -> Result<(), Fatal> {
        if self.entries.is_empty() {
            return Ok(());
        }
        tracing::info!(entries = self.entries.len(), "dedup index: filled gaps");
        let index = dedup.clone();
        blocking(move || index.mend(self.entries, &self.before, &self.after)).await
    }
}

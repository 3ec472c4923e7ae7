//! Names tiles that do not match their entries, as other software leaves them: the tiles lack
//! certificates that this software cannot parse. Names tiles are not signed, so they are computed
//! from the entries.

use std::pin::pin;
use std::sync::Arc;

use anyhow::{Result, ensure};
use futures_util::StreamExt;
use lucarne_ct::Roots;
use lucarne_log::{ForeignLog, FsckOptions, FsckPosition, Repair, repair};
use lucarne_net::counted;
use lucarne_tlog::Tile;

use super::findings::Findings;
use crate::commands::fsck;
use crate::config::LogSettings;
use crate::open;

/// Writes the names tiles of these data tiles.
///
/// # Errors
/// If a names tile cannot be written.
pub(super) async fn write(
    log: &LogSettings,
    foreign: &ForeignLog,
    tiles: &[Tile],
    findings: &mut Findings,
) -> Result<()> {
    if tiles.is_empty() {
        return Ok(());
    }
    let (files, _) = fsck::opened(&log.data.value).await?;
    let repairs = open::repairs(&log.data.value).await?;
    for tile in tiles {
        let log = Repair {
            files: files.clone(),
            repairs: repairs.clone(),
            sources: Vec::new(),
            signed: foreign.checkpoint(),
            accepted: Arc::new(Roots::new()),
            options: FsckOptions::new(1),
        };
        let from = FsckPosition {
            tile: tile.index(),
            newest_ms: 0,
        };
        // The first item has the repaired file, and the second one the check of the result.
        let mut repaired = pin!(repair(log, from).take(2));
        while let Some(repaired) = repaired.next().await {
            let repaired = repaired?;
            let of_tile = repaired.checked.next.tile <= tile.index() + 1;
            let names = tile.names_path();
            let mut left = repaired.checked.findings.iter().filter(|_| of_tile);
            let left = left.find(|finding| names.as_ref() == Some(&finding.path));
            ensure!(
                left.is_none(),
                "cannot write {}: {}",
                names.unwrap_or_default(),
                repaired.unwritten.first().map_or_else(
                    || "it does not match its entries".to_owned(),
                    |unwritten| unwritten.problem.to_string()
                )
            );
            if repaired.cures.is_empty() {
                break;
            }
        }
    }
    findings.right(
        "names",
        &format!("written: {}", counted(tiles.len(), "names tile")),
    );
    Ok(())
}

//! Verification of the log's files against its published tree. The first check reads all files;
//! later checks read only new files.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use futures_util::StreamExt;
use lucarne_ctread::Source;
use lucarne_log::{
    ForeignLog, FsckOptions, FsckPosition, KnownCheckpoint, Problem, SourceResponse, fsck,
};
use lucarne_tlog::{TILE_WIDTH, Tile};

use super::findings::Verdict;
use crate::commands::fsck::State;
use crate::config::LogSettings;

/// Maximum number of findings that are printed in full.
const MAX_PRINTED: usize = 5;

/// Outcome of a check.
pub(crate) struct Checked {
    /// Checked tree, and the position and number of findings so far.
    state: State,
    /// Number of entries that an earlier check has verified, and number of entries in the tree.
    pub(super) before: u64,
    pub(super) size: u64,
    printed: Vec<String>,
    /// Data tiles whose names tiles do not match their entries. These findings are in `state`, too.
    pub(super) names: Vec<Tile>,
}

impl Checked {
    /// Checks all files of the tree that no earlier check has verified.
    ///
    /// # Errors
    /// If the state of the earlier check cannot be read.
    pub(super) async fn up_to(
        log: &LogSettings,
        foreign: &ForeignLog,
        files: Arc<dyn Source>,
    ) -> Result<Checked> {
        let from = earlier(log, foreign).await?;
        Ok(Checked::from(foreign, files, from).await)
    }

    /// Checks all files of the tree.
    pub(crate) async fn all(foreign: &ForeignLog, files: Arc<dyn Source>) -> Checked {
        Checked::from(foreign, files, FsckPosition::default()).await
    }

    async fn from(foreign: &ForeignLog, files: Arc<dyn Source>, from: FsckPosition) -> Checked {
        let published = foreign.published();
        let mut checked = Checked {
            state: State::begin(published.checkpoint.clone()),
            before: from.tile * TILE_WIDTH,
            size: published.size,
            printed: Vec::new(),
            names: Vec::new(),
        };
        let at_once = std::thread::available_parallelism().map_or(2, usize::from);
        let tiles = fsck(files, foreign.checkpoint(), from, FsckOptions::new(at_once));
        futures_util::pin_mut!(tiles);
        while let Some(tile) = tiles.next().await {
            for finding in &tile.findings {
                match finding.problem {
                    Problem::Unreadable(_) => checked.state.unread += 1,
                    _ => {
                        checked.state.wrong += 1;
                        checked.names.extend(Tile::parse_names(&finding.path));
                    }
                }
                if checked.printed.len() < MAX_PRINTED {
                    checked.printed.push(finding.to_string());
                }
            }
            checked.state.next = tile.next;
        }
        checked
    }

    /// Describes the wrong and unreadable files, if any.
    pub(crate) fn problem(&self) -> Option<String> {
        let State { wrong, unread, .. } = self.state;
        (wrong + unread > 0).then(|| {
            format!(
                "{wrong} files are wrong and {unread} are unreadable: {}. `lucarne fsck` lists all \
                 of them, and `lucarne repair` restores them from a copy",
                self.printed.join("; ")
            )
        })
    }

    /// Returns whether only names tiles are wrong. Names tiles are not signed: they are computed
    /// from the entries.
    pub(super) fn only_names(&self) -> bool {
        let State { wrong, unread, .. } = self.state;
        unread == 0 && wrong == self.names.len() as u64
    }

    /// Describes the range of entries that this check has verified.
    pub(super) fn extent(&self) -> String {
        match self.before.min(self.size) {
            0 => format!("all {} entries lead to the signed root", self.size),
            before => format!(
                "the {} entries after the first {before} lead to the signed root; an earlier \
                 `--follow` read the entries before them (`lucarne fsck` reads all entries)",
                self.size - before
            ),
        }
    }

    /// Returns the verdict: unknown if files are unreadable and no file is wrong.
    pub(super) fn verdict(&self) -> Verdict {
        match (self.state.wrong, self.state.unread) {
            (0, 0) => Verdict::Right,
            (0, _) => Verdict::Unknown,
            _ => Verdict::Refused,
        }
    }

    /// Records in the cache that this tree is verified.
    ///
    /// # Errors
    /// If the state cannot be written.
    pub(super) fn remember(&self, log: &LogSettings) -> Result<()> {
        self.state.write(&file(log))
    }
}

fn file(log: &LogSettings) -> PathBuf {
    log.cache.value.join("adopt.state")
}

/// Returns the position at which an earlier check ended, if the tree of that check is a prefix of
/// this tree. The partial tile at this position is checked again, because the tile has grown.
async fn earlier(log: &LogSettings, foreign: &ForeignLog) -> Result<FsckPosition> {
    let Some(state) = State::read(&file(log))? else {
        return Ok(FsckPosition::default());
    };
    let response = SourceResponse {
        place: file(log).display().to_string(),
        note: Ok(state.note),
    };
    let known = KnownCheckpoint::verify(response, &log.to_log_config())?;
    foreign.hold_against(&known).await?;
    Ok(FsckPosition {
        tile: known.size() / TILE_WIDTH,
        newest_ms: state.next.newest_ms,
    })
}

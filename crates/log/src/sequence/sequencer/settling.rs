//! Settling: syncing storage, cutting the journal and removing superseded partial tiles.

use lucarne_storage::Assets;
use lucarne_tlog::{data_tiles_between, tiles_between};

use super::{Sequencer, joined};
use crate::error::Fatal;
use crate::sequence::phase::Phase;

/// Storage is settled after the bytes staged and published reach `journal_bytes` divided by this:
/// storage is synced, the journal is cut, and superseded partial tiles are removed.
pub(super) const SETTLE_AT: u64 = 8;

/// Upper bound of these bytes for storage on a disk. A restart reads the journal into memory and
/// publishes its rounds again.
const SETTLE_BYTES: u64 = 32 << 20;

/// Rounds after which storage on a disk is settled, however small they are, because publishing a
/// round again writes several files.
const SETTLE_ROUNDS: u32 = 256;

/// Rounds after which the journal is cut if that costs little. The work of a restart therefore does
/// not grow with the uptime of the log.
const CUT_ROUNDS: u32 = 16;

/// Entries before the settled tree whose superseded partial tiles are removed when a log is opened,
/// because a crash may have come between settling and removing them.
pub(super) const SWEEP_BACK: u64 = 1 << 16;

impl Sequencer {
    /// Syncs storage concurrently with the rounds, and cuts the journal.
    pub(super) async fn settle_if_due(&mut self) -> Result<(), Fatal> {
        if let Some(settling) = self.settling.take_if(|settling| settling.is_finished()) {
            self.swept = joined(settling.await)?;
        }
        let due = settle_due(
            self.unsettled_bytes,
            self.unsettled_rounds,
            self.log.config.rounds.journal_bytes,
            self.log.assets.publishes_durably(),
        );
        if let Some(due) = due
            && self.settling.is_none()
        {
            self.enter(Phase::Settle);
            self.unsettled_rounds = 0;
            if due == Due::All {
                self.unsettled_bytes = 0;
            }
            self.settling = Some(tokio::spawn(self.settle(due == Due::All)));
        }
        Ok(())
    }

    pub(super) async fn settle_all(&mut self) -> Result<(), Fatal> {
        if let Some(settling) = self.settling.take() {
            self.swept = joined(settling.await)?;
        }
        self.enter(Phase::Settle);
        self.swept = self.settle(true).await?;
        Ok(())
    }

    /// Settles storage. If `sweep` is set, removes superseded partial tiles afterwards. Returns the
    /// tree size of the last complete removal. The future owns its data.
    fn settle(&self, sweep: bool) -> impl Future<Output = Result<u64, Fatal>> + Send + 'static {
        let log = self.log.clone();
        let (from, to) = (self.swept, self.tree.size());
        async move {
            log.settle(to).await?;
            if !sweep {
                return Ok(from);
            }
            match remove_superseded(&*log.assets, from, to).await {
                Ok(()) => Ok(to),
                Err(error) => {
                    log.neglect(&error);
                    Ok(from)
                }
            }
        }
    }
}

/// The part of settling that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Only the journal is cut.
    Cut,
    /// Superseded partial tiles are removed as well.
    All,
}

/// Returns the required part of settling after these bytes and rounds, if the journal may have
/// `journal_bytes`. `durable` means that published files are already durable, so that cutting the
/// journal costs little.
fn settle_due(bytes: u64, rounds: u32, journal_bytes: u64, durable: bool) -> Option<Due> {
    let most = journal_bytes / SETTLE_AT;
    if durable && bytes >= most {
        Some(Due::All)
    } else if durable {
        (rounds >= CUT_ROUNDS).then_some(Due::Cut)
    } else {
        (bytes >= most.min(SETTLE_BYTES) || rounds >= SETTLE_ROUNDS).then_some(Due::All)
    }
}

/// Removes the partial tiles of tiles that have become full and durable.
async fn remove_superseded(
    assets: &dyn Assets,
    from: u64,
    to: u64,
) -> Result<(), lucarne_storage::AssetError> {
    let full: Vec<String> = tiles_between(from, to)
        .chain(data_tiles_between(from, to))
        .filter(lucarne_tlog::Tile::is_full)
        .flat_map(|tile| [Some(tile.path()), tile.names_path()])
        .flatten()
        .collect();
    assets.remove_partials(&full).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A restart publishes all unsettled rounds again.
    #[test]
    fn what_a_restart_has_to_publish_is_bounded_in_bytes_and_in_rounds() {
        const MIB: u64 = 1 << 20;
        for (bytes, rounds, journal, durable, due) in [
            (31 * MIB, 255, 1024 * MIB, false, None),
            (32 * MIB, 1, 1024 * MIB, false, Some(Due::All)),
            (1000, 256, 1024 * MIB, false, Some(Due::All)),
            (MIB, 1, 8 * MIB, false, Some(Due::All)),
            (127 * MIB, 15, 1024 * MIB, true, None),
            (127 * MIB, 16, 1024 * MIB, true, Some(Due::Cut)),
            (128 * MIB, 1, 1024 * MIB, true, Some(Due::All)),
        ] {
            let found = settle_due(bytes, rounds, journal, durable);
            assert_eq!(found, due, "{bytes} bytes, {rounds} rounds, {durable}");
        }
    }
}

//! The gaps of the dedup index: entries whose tile could not be read.
//!
//! A submission that the index does not find may be in a gap. The log does not log the submission
//! again, but responds with 503 until the tile is restored. Newer certificates cannot be in a gap:
//! a CA signs a certificate at most 48 hours before its notBefore (Baseline Requirements, section
//! 7.1.2.7). If notBefore is more than 48 hours after the newest timestamp of the gap, the
//! certificate did not exist at that time.

use lucarne_tlog::{Level, TILE_WIDTH, Tile};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

/// Maximum time from a certificate's signature to its notBefore.
pub(crate) const POSTDATED_MS: u64 = 48 * 3600 * 1000;

/// Maximum number of gaps whose tiles a message lists.
const NAMED: usize = 5;

/// A range of unknown entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gap {
    /// Index of the first entry.
    pub(crate) first: u64,
    /// Index after the last entry.
    pub(crate) end: u64,
    /// Upper bound of the entries' timestamps in Unix milliseconds: the timestamp of the next
    /// entry, or `u64::MAX` as long as that is unknown.
    pub(crate) latest_ms: u64,
}

impl Gap {
    /// Returns the path of the data tile with the first entry.
    pub(crate) fn tile(&self) -> String {
        let tile = Tile::new(Level::Data, self.first / TILE_WIDTH, TILE_WIDTH as u16);
        tile.map(|tile| tile.path()).unwrap_or_default()
    }
}

/// All gaps, in memory.
#[derive(Default)]
pub(crate) struct Gaps(RwLock<KnownGaps>);

#[derive(Default)]
struct KnownGaps {
    /// Gaps in ascending order.
    gaps: Vec<Gap>,
    /// Upper bound of the timestamps in all gaps; `None` without gaps.
    latest_ms: Option<u64>,
}

impl Gaps {
    /// Replaces all gaps.
    pub(crate) fn set(&self, mut gaps: Vec<Gap>) {
        gaps.sort_unstable_by_key(|gap| gap.first);
        let latest_ms = gaps.iter().map(|gap| gap.latest_ms).max();
        *self.0.write() = KnownGaps { gaps, latest_ms };
    }

    /// Returns all gaps in order.
    pub(crate) fn all(&self) -> Vec<Gap> {
        self.0.read().gaps.clone()
    }

    /// Formats the paths of the tiles of the first gaps, for messages.
    pub(crate) fn tiles(&self) -> String {
        let known = self.0.read();
        let mut tiles: Vec<_> = known.gaps.iter().map(Gap::tile).take(NAMED).collect();
        tiles.dedup();
        tiles.join(", ")
    }

    /// Returns the number of unknown entries.
    pub(crate) fn entries(&self) -> u64 {
        let gaps = &self.0.read().gaps;
        gaps.iter().map(|gap| gap.end - gap.first).sum()
    }

    /// Returns whether an entry with this notBefore, in Unix milliseconds, may be in a gap.
    pub(crate) fn may_have(&self, not_before_ms: Option<i64>) -> bool {
        let latest_ms = self.0.read().latest_ms;
        latest_ms.is_some_and(|latest_ms| signed_from(not_before_ms) <= latest_ms)
    }
}

/// Returns the earliest time at which a certificate with this notBefore can have been signed and
/// logged, in Unix milliseconds; 0 if notBefore cannot be read.
pub(crate) fn signed_from(not_before_ms: Option<i64>) -> u64 {
    let not_before_ms = not_before_ms.and_then(|ms| u64::try_from(ms).ok());
    not_before_ms.map_or(0, |ms| ms.saturating_sub(POSTDATED_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_signed_later_cannot_be_in_a_gap() {
        let gaps = Gaps::default();
        assert!(!gaps.may_have(None));
        let hour = 3600 * 1000;
        let gap = Gap {
            first: 3,
            end: 5,
            latest_ms: 1000 * hour,
        };
        gaps.set(vec![gap]);
        assert_eq!(gaps.entries(), 2);
        let hours = |n: i64| gaps.may_have(Some(n * 3600 * 1000));
        assert!(gaps.may_have(None) && hours(-5) && hours(0) && hours(1000) && hours(1048));
        assert!(!hours(1049));
        let open = Gap {
            latest_ms: u64::MAX,
            ..gap
        };
        gaps.set(vec![open]);
        assert!(gaps.may_have(Some(i64::MAX)));
        gaps.set(Vec::new());
        assert_eq!((gaps.entries(), gaps.may_have(None)), (0, false));
    }
}

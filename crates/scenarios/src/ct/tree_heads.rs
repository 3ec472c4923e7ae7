//! All observed checkpoints of a log: their signature, origin, freshness and growth, and one root
//! for each size.

use std::collections::BTreeMap;
use std::time::Duration;

use lucarne_ct::{CheckpointError, CheckpointVerifier};
use lucarne_tlog::{EMPTY_ROOT, Hash};

use super::checks::{self, CheckSink, Finding};

/// A verified tree head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeHead {
    /// Number of leaves.
    pub size: u64,
    /// Merkle tree hash of the leaves.
    pub root: Hash,
    /// Timestamp in milliseconds since 1970.
    pub timestamp: u64,
}

/// Number of remembered roots.
const REMEMBERED: usize = 4096;

/// The tree heads of one log.
#[derive(Debug)]
pub struct TreeHeads {
    verifier: CheckpointVerifier,
    max_age_ms: u64,
    tolerance_ms: u64,
    newest: Option<TreeHead>,
    /// Note of `newest`, so that the same bytes are not verified twice.
    note: Vec<u8>,
    /// Roots by size, for the largest sizes.
    roots: BTreeMap<u64, Hash>,
    /// Roots that no tiles have proven yet.
    unproven: BTreeMap<u64, Hash>,
    /// Number of different checkpoints.
    pub seen: u64,
}

/// The newest tree head at the time of a request for a checkpoint, if there was one.
#[derive(Clone, Copy, Debug, Default)]
pub struct PriorTreeHead(Option<TreeHead>);

/// The reasons why a signed tree head is not acceptable.
#[derive(Debug, thiserror::Error)]
enum TreeHeadError {
    #[error(
        "the checkpoint of size {size} has the timestamp 0: expected the time of its signature in \
         milliseconds since 1970"
    )]
    Timeless { size: u64 },
    #[error("the checkpoint of size {size} is {ahead_ms} ms in the future")]
    Future { size: u64, ahead_ms: u64 },
    #[error(
        "the checkpoint of size {size} is {:.1} s old: expected at most {:.1} s",
        *age_ms as f64 / 1e3,
        *max_age_ms as f64 / 1e3
    )]
    Stale {
        size: u64,
        age_ms: u64,
        max_age_ms: u64,
    },
    #[error("two checkpoints of size {size} have different roots: {known} and {found}")]
    Fork { size: u64, known: Hash, found: Hash },
    #[error("the log went back from size {prior} to a checkpoint of size {size}")]
    Shrunk { size: u64, prior: u64 },
    #[error("the checkpoints of sizes {prior} and {size} have the same timestamp")]
    SameTimestamp { size: u64, prior: u64 },
    #[error(
        "the timestamp {timestamp} of the checkpoint of size {size} is {} ms before the timestamp \
         {prior} of an earlier checkpoint",
        prior - timestamp
    )]
    Older {
        size: u64,
        timestamp: u64,
        prior: u64,
    },
}

impl TreeHeads {
    /// Creates the state for the log of `verifier`. A checkpoint is stale after `max_age`, and the
    /// clocks may differ by `tolerance`.
    #[must_use]
    pub fn new(verifier: CheckpointVerifier, max_age: Duration, tolerance: Duration) -> Self {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            verifier,
            max_age_ms: ms(max_age),
            tolerance_ms: ms(tolerance),
            newest: None,
            note: Vec::new(),
            roots: BTreeMap::from([(0, EMPTY_ROOT)]),
            unproven: BTreeMap::new(),
            seen: 0,
        }
    }

    /// Returns the largest head so far.
    #[must_use]
    pub fn newest(&self) -> Option<TreeHead> {
        self.newest
    }

    /// Returns the tree head that later checkpoints must not be below.
    #[must_use]
    pub fn prior(&self) -> PriorTreeHead {
        PriorTreeHead(self.newest)
    }

    /// Checks a checkpoint that was requested when `prior` was known and arrived at `now_ms`.
    /// Returns `None` if the checkpoint is not from this log, or contradicts another checkpoint.
    pub fn observe(
        &mut self,
        note: &[u8],
        prior: PriorTreeHead,
        now_ms: u64,
        sink: &dyn CheckSink,
    ) -> Option<TreeHead> {
        let head = match self.verify(note) {
            Ok(head) => head,
            Err(finding) => {
                sink.failed(finding);
                return None;
            }
        };
        for name in [
            checks::CHECKPOINT_WELLFORMED,
            checks::CHECKPOINT_ORIGIN,
            checks::CHECKPOINT_SIGNATURE,
        ] {
            sink.passed(name);
        }
        sink.check(checks::CHECKPOINT_FRESH, self.fresh(&head, now_ms));
        let grown = grown(&head, prior);
        let good = grown.is_ok();
        sink.check(checks::CHECKPOINT_GROWTH, grown);
        let one = self.one_root(&head);
        let good = good && one.is_ok();
        sink.check(checks::CHECKPOINT_FORK, one);
        if good {
            self.keep(head, note);
        }
        good.then_some(head)
    }

    fn verify(&self, note: &[u8]) -> Result<TreeHead, Finding> {
        if let Some(newest) = self.newest.filter(|_| self.note == note) {
            return Ok(newest);
        }
        let verified = self.verifier.verify(note);
        let (checkpoint, timestamp) = verified.map_err(|error| unverified(&error))?;
        Ok(TreeHead {
            size: checkpoint.size,
            root: checkpoint.root,
            timestamp,
        })
    }

    fn fresh(&self, head: &TreeHead, now_ms: u64) -> Result<(), TreeHeadError> {
        let (size, max_age_ms) = (head.size, self.max_age_ms);
        if head.timestamp == 0 {
            return Err(TreeHeadError::Timeless { size });
        }
        let age_ms = now_ms.saturating_sub(head.timestamp);
        if head.timestamp > now_ms.saturating_add(self.tolerance_ms) {
            let ahead_ms = head.timestamp - now_ms;
            return Err(TreeHeadError::Future { size, ahead_ms });
        }
        if age_ms > max_age_ms.saturating_add(self.tolerance_ms.min(1000)) {
            return Err(TreeHeadError::Stale {
                size,
                age_ms,
                max_age_ms,
            });
        }
        Ok(())
    }

    fn one_root(&self, head: &TreeHead) -> Result<(), TreeHeadError> {
        match self.roots.get(&head.size) {
            Some(known) if *known != head.root => Err(TreeHeadError::Fork {
                size: head.size,
                known: *known,
                found: head.root,
            }),
            _ => Ok(()),
        }
    }

    fn keep(&mut self, head: TreeHead, note: &[u8]) {
        if self.newest == Some(head) {
            return;
        }
        self.seen += 1;
        if self.roots.insert(head.size, head.root).is_none() {
            self.unproven.insert(head.size, head.root);
        }
        while self.roots.len() > REMEMBERED {
            self.roots.pop_first();
        }
        while self.unproven.len() > REMEMBERED {
            self.unproven.pop_first();
        }
        let key = |head: &TreeHead| (head.size, head.timestamp);
        if self.newest.is_none_or(|newest| key(&newest) < key(&head)) {
            self.newest = Some(head);
            self.note = note.to_vec();
        }
    }

    /// Returns the sizes up to `size` that tiles must still prove, in ascending order.
    #[must_use]
    pub fn unproven(&self, size: u64) -> Vec<(u64, Hash)> {
        let range = self.unproven.range(..=size);
        range.map(|(size, root)| (*size, *root)).collect()
    }

    /// Records that tiles have proven or disproven the root of this size.
    pub fn mark_checked(&mut self, size: u64) {
        self.unproven.remove(&size);
    }
}

/// Returns the finding for a checkpoint that does not verify.
pub(crate) fn unverified(error: &CheckpointError) -> Finding {
    let check = match error {
        CheckpointError::Note(_) | CheckpointError::Text(_) => checks::CHECKPOINT_WELLFORMED,
        CheckpointError::Origin { .. } => checks::CHECKPOINT_ORIGIN,
        _ => checks::CHECKPOINT_SIGNATURE,
    };
    Finding::new(check, error)
}

fn grown(head: &TreeHead, prior: PriorTreeHead) -> Result<(), TreeHeadError> {
    let TreeHead {
        size, timestamp, ..
    } = *head;
    let Some(prior) = prior.0 else {
        return Ok(());
    };
    if size < prior.size {
        let prior = prior.size;
        return Err(TreeHeadError::Shrunk { size, prior });
    }
    if size > prior.size && timestamp == prior.timestamp {
        let prior = prior.size;
        return Err(TreeHeadError::SameTimestamp { size, prior });
    }
    if timestamp < prior.timestamp {
        return Err(TreeHeadError::Older {
            size,
            timestamp,
            prior: prior.timestamp,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lucarne_ct::LogKey;
    use lucarne_tlog::leaf_hash;

    use super::*;
    use crate::ct::checks::Findings;

    const ORIGIN: &str = "log.example/2026h2";

    struct Log {
        key: LogKey,
        tree_heads: TreeHeads,
        findings: Findings,
    }

    impl Log {
        fn new() -> Self {
            let key = LogKey::from_seed(&[7; 32]).unwrap();
            let verifier = CheckpointVerifier::new(ORIGIN, key.public_key_spki()).unwrap();
            let (age, tolerance) = (Duration::from_secs(60), Duration::ZERO);
            Self {
                key,
                tree_heads: TreeHeads::new(verifier, age, tolerance),
                findings: Findings::default(),
            }
        }

        /// Serves a checkpoint at 100 s. Returns the names of the failed checks.
        fn serves(&mut self, size: u64, root: &[u8], seconds: u64) -> Vec<&'static str> {
            let root = leaf_hash(root);
            let note = self
                .key
                .sign_checkpoint(ORIGIN, size, &root, seconds * 1000);
            self.serves_note(note.unwrap().as_bytes())
        }

        fn serves_note(&mut self, note: &[u8]) -> Vec<&'static str> {
            let prior = self.tree_heads.prior();
            self.tree_heads
                .observe(note, prior, 100_000, &self.findings);
            let found = self.findings.take();
            found.iter().map(|finding| finding.check).collect()
        }
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn what_a_log_does_is_called_by_its_name() {
        let mut log = Log::new();
        assert_eq!(log.serves(5, b"five", 90), NOTHING);
        assert_eq!(log.serves(5, b"five", 91), NOTHING);
        assert_eq!(log.serves(9, b"nine", 92), NOTHING);
        assert_eq!(log.serves(9, b"NINE", 93), [checks::CHECKPOINT_FORK]);
        assert_eq!(log.serves(8, b"eight", 94), [checks::CHECKPOINT_GROWTH]);
        assert_eq!(log.serves(9, b"nine", 91), [checks::CHECKPOINT_GROWTH]);
        assert_eq!(log.serves(11, b"eleven", 92), [checks::CHECKPOINT_GROWTH]);
        assert_eq!(log.serves(10, b"ten", 101), [checks::CHECKPOINT_FRESH]);
        assert_eq!(
            log.serves(11, b"eleven", 39),
            [checks::CHECKPOINT_FRESH, checks::CHECKPOINT_GROWTH]
        );
        assert_eq!(log.serves_note(b"<html>"), [checks::CHECKPOINT_WELLFORMED]);
        assert_eq!(log.tree_heads.newest().unwrap().size, 10);
        assert_eq!(log.tree_heads.unproven(9).len(), 2);
    }

    /// No earlier checkpoint is to blame for the timestamp of the first one.
    #[test]
    fn a_first_checkpoint_without_a_time() {
        for size in [0, 5] {
            let mut log = Log::new();
            let root = if size == 0 {
                EMPTY_ROOT
            } else {
                leaf_hash(b"")
            };
            let note = log.key.sign_checkpoint(ORIGIN, size, &root, 0).unwrap();
            let prior = log.tree_heads.prior();
            let seen = log
                .tree_heads
                .observe(note.as_bytes(), prior, 100_000, &log.findings);
            assert!(seen.is_some());
            let found = log.findings.take();
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), 1, "{found:?}");
            let words = format!("the checkpoint of size {size} has the timestamp 0");
            assert!(found[0].contains(&words), "{found:?}");
        }
    }

    #[test]
    fn another_name_and_another_key() {
        let mut log = Log::new();
        let root = leaf_hash(b"");
        let other = log
            .key
            .sign_checkpoint("log.example/2026h1", 1, &root, 90_000)
            .unwrap();
        assert_eq!(
            log.serves_note(other.as_bytes()),
            [checks::CHECKPOINT_ORIGIN]
        );
        log.key = LogKey::from_seed(&[8; 32]).unwrap();
        assert_eq!(log.serves(1, b"", 90), [checks::CHECKPOINT_SIGNATURE]);
    }

    /// A response that arrives after a newer one is not a shrinking tree.
    #[test]
    fn answers_may_overtake_each_other() {
        let mut log = Log::new();
        let prior = log.tree_heads.prior();
        assert_eq!(log.serves(9, b"nine", 92), NOTHING);
        let root = leaf_hash(b"five");
        let late = log.key.sign_checkpoint(ORIGIN, 5, &root, 90_000).unwrap();
        let seen = log
            .tree_heads
            .observe(late.as_bytes(), prior, 100_000, &log.findings);
        assert_eq!(seen.unwrap().size, 5);
        assert!(log.findings.take().is_empty());
        assert_eq!(log.tree_heads.newest().unwrap().size, 9);
    }
}

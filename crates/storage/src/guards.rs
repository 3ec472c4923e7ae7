//! The named guards that keep every promise of the log when something fails.
//!
//! A test proves something only if it fails without the code under test. So each guard can be
//! disabled in a special build: with `--cfg lucarne_guards`, the environment variable
//! `LUCARNE_WITHOUT` names the guard to disable. `cargo xtask guards` creates that build and runs
//! the tests of all guards without each of them. In any other build [`Guard::stands`] is the
//! constant `true`, and the switch does not exist.

/// A rule of the protocol that keeps promises when something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A round counts as staged only after it is durable.
    Sync,
    /// No file of a round is published before its commit.
    CommitFirst,
    /// Submitters get a response only after the checkpoint is published.
    AnswerLast,
    /// An instance stops if its swap in the lock fails.
    Swap,
    /// The dedup index gets a round only after it is published.
    IndexLast,
    /// A round is read back, and its root is computed in a second way, before the root is signed.
    Verify,
    /// The published checkpoint is replaced only by a process that knows its current value.
    Condition,
    /// The dedup index is rebuilt only from entries that the tree covers.
    VouchedRebuild,
    /// A submission is refused if it may be among entries that the dedup index does not know.
    UnknownRefused,
}

impl Guard {
    /// All guards.
    pub const ALL: [Guard; 9] = [
        Guard::Sync,
        Guard::CommitFirst,
        Guard::AnswerLast,
        Guard::Swap,
        Guard::IndexLast,
        Guard::Verify,
        Guard::Condition,
        Guard::VouchedRebuild,
        Guard::UnknownRefused,
    ];

    /// Returns the name that `LUCARNE_WITHOUT` uses.
    pub const fn name(self) -> &'static str {
        match self {
            Guard::Sync => "sync",
            Guard::CommitFirst => "commit-first",
            Guard::AnswerLast => "answer-last",
            Guard::Swap => "swap",
            Guard::IndexLast => "index-last",
            Guard::Verify => "verify",
            Guard::Condition => "condition",
            Guard::VouchedRebuild => "vouched-rebuild",
            Guard::UnknownRefused => "unknown-refused",
        }
    }

    /// Returns `true`: every guard is enabled.
    #[cfg(not(lucarne_guards))]
    #[inline(always)]
    pub const fn stands(self) -> bool {
        true
    }

    /// Returns `false` for the guard that `LUCARNE_WITHOUT` names.
    ///
    /// # Panics
    /// If `LUCARNE_WITHOUT` has an unknown name: a failing test would then prove nothing.
    #[cfg(lucarne_guards)]
    pub fn stands(self) -> bool {
        static WITHOUT: std::sync::OnceLock<Option<Guard>> = std::sync::OnceLock::new();
        let without = WITHOUT.get_or_init(|| {
            let name = std::env::var("LUCARNE_WITHOUT").ok()?;
            let named = Guard::ALL.into_iter().find(|guard| guard.name() == name);
            assert!(named.is_some(), "LUCARNE_WITHOUT={name}: no such guard");
            named
        });
        *without != Some(self)
    }
}

// Release builds have no switch.
#[cfg(not(lucarne_guards))]
const _: () = {
    let mut at = 0;
    while at < Guard::ALL.len() {
        assert!(Guard::ALL[at].stands());
        at += 1;
    }
};

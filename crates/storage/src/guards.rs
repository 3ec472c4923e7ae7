//! The guards that stand between a fault and a lost promise, by name.
//!
//! A test proves something only if it fails without what it tests. So each
//! guard can be taken away, in a build that exists for nothing else: with
//! `--cfg lucarne_guards`, the guard that the environment variable
//! `LUCARNE_WITHOUT` names does not stand. `cargo xtask guards` makes that build
//! and runs the tests of all guards without each of them. In any other build
//! [`Guard::stands`] is the constant `true`, and nothing of this is left.

/// A rule of the protocol that keeps promises when something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A round counts as staged once the disk has it, and not before.
    Sync,
    /// Nothing of a round is published before its commit.
    CommitFirst,
    /// Nobody is answered before the checkpoint is published.
    AnswerLast,
    /// An instance that loses the swap in the lock stops.
    Swap,
    /// A round is in the dedup index only once it is published.
    IndexLast,
    /// A round is read back and computed by another path before it is signed.
    Verify,
    /// The published checkpoint is replaced only by who knows which one it is.
    Condition,
    /// The dedup index is rebuilt only from entries that the tree vouches for.
    VouchedRebuild,
    /// What may be among the entries that the dedup index does not know is refused.
    UnknownRefused,
}

impl Guard {
    /// All of them.
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

    /// The name by which `LUCARNE_WITHOUT` has it.
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

    /// Returns true: every guard stands.
    #[cfg(not(lucarne_guards))]
    #[inline(always)]
    pub const fn stands(self) -> bool {
        true
    }

    /// Returns false of the guard that `LUCARNE_WITHOUT` names.
    ///
    /// # Panics
    /// If it names none: a test that then fails would prove nothing.
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

// What is shipped has no switch.
#[cfg(not(lucarne_guards))]
const _: () = {
    let mut at = 0;
    while at < Guard::ALL.len() {
        assert!(Guard::ALL[at].stands());
        at += 1;
    }
};

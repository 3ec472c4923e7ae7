//! A model of the protocol, and a test of all of its states.
//!
//! The model is a state machine with a lock, a journal, published tiles and a checkpoint, a dedup
//! index, and two instances that both sequence. It is small enough to visit every state.
//!
//! Between any two steps (of a round in `phase.rs`, of an opening in `recover.rs`) an instance may
//! be killed, or the power may fail and destroy any part of the files that are not durable. The
//! second instance may start on a copy of the directory, or in the same bucket. A write to the
//! bucket may arrive after its process has ended, cosignatures are added to a checkpoint, a bit may
//! flip before a round is verified, a data tile may be damaged, and an index or its newest entry
//! may be lost. All of this may happen any number of times. Missing entries of an index are read
//! concurrently with rounds. With a separate signer, a backup of the machine or of the memory of
//! the signer may be restored once. The number of rounds, of new signatures and of submissions is
//! bounded for both instances together. A round has one entry.
//!
//! `cluster.rs` has the instances of one log, where one instance leads: followers, the lease, and
//! forwarded submissions. The steps of a leader are the same.
//!
//! Every state must satisfy each [`Invariant`]. The model omits:
//! - rounds with several entries: all entries of a round have the same outcome;
//! - the pool: outside `cluster.rs`, a submission is looked up and sealed in one step;
//! - superseded partial tiles;
//! - clocks: the model only counts;
//! - certificates that are too young to be among the missing entries of the index.
//!
//! The absence of a violation proves nothing if the model cannot find violations. The model must
//! therefore find a violation if any single [`Guard`] is removed, or any
//! single [`InstanceRule`].

mod checker;
mod cluster;
mod cluster_action;
mod history;
mod instance;
mod member;
mod place;
mod protocol;
mod world;

use std::time::Instant;

use self::checker::{Explored, Machine, explore};
use self::cluster::ClusterBounds;
use self::protocol::{Guard, InstanceRule, Protocol};
use self::world::{Bounds, Invariant};

const IN_BUCKET: Protocol = Protocol {
    in_bucket: true,
    ..Protocol::COMPLETE
};

/// A directory for each of two instances.
const DIRECTORIES: Bounds = Bounds {
    protocol: Protocol::COMPLETE,
    instances: 2,
    rounds: 2,
    submissions: 2,
    faults: false,
    restores: 0,
};

/// A single directory, with all faults.
const FAULTS: Bounds = Bounds {
    instances: 1,
    rounds: 3,
    faults: true,
    ..DIRECTORIES
};

/// A bucket for two instances.
const BUCKET: Bounds = Bounds {
    protocol: IN_BUCKET,
    faults: true,
    ..DIRECTORIES
};

/// A directory, its copy, and a separate signer.
const SIGNED_APART: Bounds = Bounds {
    protocol: Protocol {
        is_signed_apart: true,
        ..Protocol::COMPLETE
    },
    ..DIRECTORIES
};

/// A single directory, a separate signer, and a backup of each.
const RESTORED: Bounds = Bounds {
    instances: 1,
    restores: 1,
    ..SIGNED_APART
};

/// A bucket for two instances, and a separate signer.
const BUCKET_SIGNED_APART: Bounds = Bounds {
    protocol: Protocol {
        is_signed_apart: true,
        ..IN_BUCKET
    },
    ..BUCKET
};

/// Two instances in one bucket, with at most one intended leader: one entry, and a new signature.
const FOLLOWING: ClusterBounds = ClusterBounds {
    protocol: IN_BUCKET,
    without: None,
    rounds: 2,
    submissions: 1,
    epochs: 3,
    forwards: false,
};

/// The bounds of [`FOLLOWING`], with two entries.
const FOLLOWING_TWO: ClusterBounds = ClusterBounds {
    submissions: 2,
    epochs: 2,
    ..FOLLOWING
};

/// A single entry, which the clients of both instances submit.
const FORWARDING: ClusterBounds = ClusterBounds {
    epochs: 2,
    forwards: true,
    ..FOLLOWING
};

fn explored<M>(name: &str, bounds: &M) -> Explored<Invariant>
where
    M: Machine<Invariant = Invariant>,
{
    let start = Instant::now();
    let explored = explore(bounds);
    println!(
        "{name}: {} states, up to {} steps away, in {:.1?}",
        explored.states,
        explored.depth,
        start.elapsed()
    );
    explored
}

/// Checks all states. The environment variable `LUCARNE_MODEL_ROUNDS` replaces the number of
/// rounds. With two instances, one more round takes twelve times as long.
fn holds(name: &str, bounds: &Bounds) {
    let mut bounds = *bounds;
    if let Ok(rounds) = std::env::var("LUCARNE_MODEL_ROUNDS") {
        bounds.rounds = rounds.parse().expect("LUCARNE_MODEL_ROUNDS is a number");
    }
    nothing_breaks(name, &bounds);
}

fn nothing_breaks<M>(name: &str, bounds: &M)
where
    M: Machine<Invariant = Invariant>,
{
    let explored = explored(name, bounds);
    if let Some(counterexample) = explored.counterexample {
        panic!("{name}: {counterexample}");
    }
    assert!(explored.states > 10_000, "{}", explored.states);
}

#[test]
fn whatever_fails_in_a_directory_the_invariants_hold() {
    holds("one directory", &FAULTS);
}

#[test]
fn whatever_two_instances_do_the_invariants_hold() {
    holds("a directory and its copy", &DIRECTORIES);
}

#[test]
fn whatever_happens_in_a_bucket_the_invariants_hold() {
    holds("a bucket", &BUCKET);
}

#[test]
fn whatever_happens_beside_a_signer_the_invariants_hold() {
    holds("a directory, its copy, a signer", &SIGNED_APART);
    holds("one directory, a signer, a backup", &RESTORED);
    holds("a bucket and a signer", &BUCKET_SIGNED_APART);
}

#[test]
fn whatever_a_lease_says_the_invariants_hold() {
    nothing_breaks("a leader and a follower, one entry", &FOLLOWING);
    nothing_breaks("a leader and a follower, two entries", &FOLLOWING_TWO);
}

#[test]
fn whatever_becomes_of_forwarded_entries_the_invariants_hold() {
    nothing_breaks("forwarded entries", &FORWARDING);
}

#[test]
fn without_a_signer_a_backup_of_lock_and_data_is_a_fork() {
    let without = Bounds {
        protocol: Protocol::COMPLETE,
        ..RESTORED
    };
    // If the memory of the signer is restored too, the signer cannot detect the restored machine.
    let with_its_memory = Bounds {
        restores: 2,
        ..RESTORED
    };
    for (name, bounds) in [("no signer", without), ("its memory too", with_its_memory)] {
        breaks(name, &bounds, Invariant::OneHistory);
    }
}

/// Returns the bounds of a model without this guard, and the invariant that the model then
/// violates.
fn missed(guard: Guard) -> (Bounds, Invariant) {
    let (bounds, invariant) = match guard {
        Guard::Sync | Guard::CommitFirst => (FAULTS, Invariant::NoPromiseLost),
        Guard::AnswerLast | Guard::IndexLast | Guard::Verify => (FAULTS, Invariant::NoSctOutside),
        Guard::Swap => (DIRECTORIES, Invariant::OneHistory),
        Guard::Condition => (BUCKET, Invariant::AppendOnly),
        Guard::VouchedRebuild | Guard::UnknownRefused => (FAULTS, Invariant::NoEntryTwice),
    };
    let protocol = Protocol {
        without: Some(guard),
        ..bounds.protocol
    };
    (Bounds { protocol, ..bounds }, invariant)
}

#[test]
fn without_any_one_guard_something_is_lost() {
    for guard in Guard::ALL {
        let (bounds, invariant) = missed(guard);
        breaks(&format!("without {guard:?}"), &bounds, invariant);
    }
}

/// Returns the bounds of a model without this rule, and the invariant that the model then violates.
fn missed_rule(rule: InstanceRule) -> (ClusterBounds, Invariant) {
    let (bounds, invariant) = match rule {
        InstanceRule::ReadOnly => (FOLLOWING, Invariant::OnlyLeaderWrites),
        InstanceRule::ReadOrder => (FOLLOWING, Invariant::NoFalseAlarm),
        InstanceRule::NoStaleView => (FOLLOWING, Invariant::NoViewBack),
        InstanceRule::Prove => (FORWARDING, Invariant::NoSctOutside),
        InstanceRule::LookAgain | InstanceRule::SameEpoch | InstanceRule::IndexFirst => {
            (FORWARDING, Invariant::NoEntryTwice)
        }
    };
    let without = Some(rule);
    (ClusterBounds { without, ..bounds }, invariant)
}

#[test]
fn without_any_one_rule_of_instances_something_is_lost() {
    for rule in InstanceRule::ALL {
        let (bounds, invariant) = missed_rule(rule);
        breaks(&format!("without {rule:?}"), &bounds, invariant);
    }
}

/// The lease replaces neither the swap nor the order of the steps.
#[test]
fn a_lease_does_not_replace_the_guards_of_a_round() {
    for (guard, bounds, invariant) in [
        (Guard::Swap, FORWARDING, Invariant::OneHistory),
        (Guard::AnswerLast, FORWARDING, Invariant::NoSctOutside),
    ] {
        let protocol = Protocol {
            without: Some(guard),
            ..bounds.protocol
        };
        let bounds = ClusterBounds { protocol, ..bounds };
        breaks(&format!("without {guard:?}"), &bounds, invariant);
    }
}

fn breaks<M>(name: &str, bounds: &M, invariant: Invariant)
where
    M: Machine<Invariant = Invariant>,
{
    let Some(counterexample) = explored(name, bounds).counterexample else {
        panic!("{name}: nothing breaks");
    };
    println!("{counterexample}");
    assert_eq!(counterexample.broken, invariant, "{name}");
}

//! The protocol as a model, and all that can happen to it.
//!
//! A lock, a journal, published tiles and a checkpoint, a dedup index, and two
//! instances that both believe to be the one: a state machine small enough to go
//! through every state of. Between any two steps (those of `phase.rs`, and of an
//! opening, those of `recover.rs`), an instance may be killed, its power may fail
//! and take any part of what is not durable, the second one may begin on a copy
//! of the directory or in the same bucket, a put of a dead process may arrive, a
//! bit may flip before a round is verified, a data tile may rot, an index may be
//! lost, or the newest of it; as often as they like. What an index lacks is read
//! beside the rounds. Beside a signer, a backup of the machine or of the
//! signer's memory may be restored once. What is bounded is the number of rounds and new
//! signatures, of both together, each of one entry, and the number of submissions.
//!
//! The things that must hold are the [`Invariant`]s. Left out are several entries to
//! a round (they share their fate), the pool (a submission is looked for and sealed
//! in one step), superseded partials, clocks, which only count, and that a certificate may be too
//! young to be among what the index lacks.
//!
//! A model that finds nothing proves nothing by that: without any one of the
//! guards that `lucarne_storage::guards` names, it must find a story.

mod checker;
mod history;
mod instance;
mod place;
mod protocol;
mod steps;
mod world;

use std::time::Instant;

use lucarne_storage::guards::Guard;

use self::checker::{Explored, explore};
use self::protocol::Protocol;
use self::world::{Bounds, Invariant};

const IN_BUCKET: Protocol = Protocol {
    in_bucket: true,
    ..Protocol::COMPLETE
};

/// A directory each, for as many instances.
const DIRECTORIES: Bounds = Bounds {
    protocol: Protocol::COMPLETE,
    instances: 2,
    rounds: 2,
    submissions: 2,
    faults: false,
    restores: 0,
};

/// One directory, and everything that can go bad.
const FAULTS: Bounds = Bounds {
    instances: 1,
    rounds: 3,
    faults: true,
    ..DIRECTORIES
};

/// One bucket for both.
const BUCKET: Bounds = Bounds {
    protocol: IN_BUCKET,
    faults: true,
    ..DIRECTORIES
};

/// A directory and its copy, and a signer.
const SIGNED_APART: Bounds = Bounds {
    protocol: Protocol {
        is_signed_apart: true,
        ..Protocol::COMPLETE
    },
    ..DIRECTORIES
};

/// One directory, a signer, and a backup of either.
const RESTORED: Bounds = Bounds {
    instances: 1,
    restores: 1,
    ..SIGNED_APART
};

/// One bucket for both, and a signer.
const BUCKET_SIGNED_APART: Bounds = Bounds {
    protocol: Protocol {
        is_signed_apart: true,
        ..IN_BUCKET
    },
    ..BUCKET
};

fn explored(name: &str, bounds: &Bounds) -> Explored<Invariant> {
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

/// With `LUCARNE_MODEL_ROUNDS` for the rounds: with two instances, one more takes a dozen times as long.
fn holds(name: &str, bounds: &Bounds) {
    let mut bounds = *bounds;
    if let Ok(rounds) = std::env::var("LUCARNE_MODEL_ROUNDS") {
        bounds.rounds = rounds.parse().expect("LUCARNE_MODEL_ROUNDS is a number");
    }
    let explored = explored(name, &bounds);
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
fn without_a_signer_a_backup_of_lock_and_data_is_a_fork() {
    let without = Bounds {
        protocol: Protocol::COMPLETE,
        ..RESTORED
    };
    // Nor is one of use whose memory is restored with them.
    let with_its_memory = Bounds {
        restores: 2,
        ..RESTORED
    };
    for (name, bounds) in [("no signer", without), ("its memory too", with_its_memory)] {
        let found = explored(name, &bounds).counterexample;
        let Some(counterexample) = found else {
            panic!("{name}: nothing breaks");
        };
        println!("{counterexample}");
        assert_eq!(counterexample.broken, Invariant::OneHistory, "{name}");
    }
}

/// The invariant that breaks first without a guard, and where.
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
        let name = format!("without {}", guard.name());
        let found = explored(&name, &bounds).counterexample;
        let Some(counterexample) = found else {
            panic!("{name}: nothing breaks");
        };
        println!("{counterexample}");
        assert_eq!(counterexample.broken, invariant, "{name}");
    }
}

//! Compares the steps of the model with the code.

use crate::sequence::phase::{Phase, ROUND};

const SEQUENCER: &str = concat!(
    include_str!("../sequence/sequencer.rs"),
    include_str!("../sequence/sequencer/steps.rs"),
    include_str!("../sequence/sequencer/indexing.rs"),
    include_str!("../sequence/sequencer/settling.rs"),
);
const RECOVERY: &str = concat!(
    include_str!("../recovery/recover.rs"),
    include_str!("../recovery/recover/judge.rs")
);
const CATCH_UP: &str = include_str!("../index/catchup.rs");
const DEDUP: &str = include_str!("../index/dedup/writing.rs");
const SUBMIT: &str = concat!(
    include_str!("../submit/submission.rs"),
    include_str!("../submit/submission/proof.rs"),
);
const SUPERVISOR: &str = include_str!("../log/supervise.rs");
const FOLLOW: &str = concat!(
    include_str!("../instances/follow.rs"),
    include_str!("../instances/follow/growing.rs"),
    include_str!("../instances/follow/leading.rs"),
);
const FORWARD: &str = include_str!("../instances/forward.rs");
const POOL: &str = include_str!("../submit/pool.rs");

/// The calls of the sequencer that have effects outside of it, with their steps.
const EFFECTS: [(&str, Phase); 10] = [
    ("pool.seal(", Phase::Seal),
    ("Verified::check(", Phase::Prepare),
    ("assets.stage(", Phase::Stage),
    ("tree_head::sign(", Phase::Sign),
    ("lock.replace(", Phase::Commit),
    ("assets.publish(batch", Phase::PublishTiles),
    ("assets.publish(vec![checkpoint]", Phase::PublishCheckpoint),
    ("outcome.decide(", Phase::Answer),
    (".to_index.send(", Phase::Index),
    ("log.settle(", Phase::Settle),
];

/// Functions of the sequencer that contain these calls, with the step of their callers.
const ELSEWHERE: [(&str, Phase); 3] = [
    ("self.prepare(", Phase::Prepare),
    ("self.index(", Phase::Index),
    ("self.settle(", Phase::Settle),
];

/// Returns the code without comments, without line breaks, and without the blocks of disabled
/// guards.
fn code(source: &str) -> String {
    let lines = source
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    let code = lines.map(str::trim).collect::<String>();
    let mut parts = code.split("if !Guard::");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept += part.split_once('}').map_or("", |(_, after)| after);
    }
    kept
}

/// Returns the last step that the code enters before this place.
fn entered(before: &str) -> String {
    let last = before.rsplit("self.enter(Phase::").next();
    let name = last.and_then(|after| after.split(')').next());
    name.unwrap_or_default().to_owned()
}

#[test]
fn the_sequencer_does_what_the_model_does_under_the_same_names() {
    let code = code(SEQUENCER);
    for (call, phase) in EFFECTS {
        assert_eq!(code.matches(call).count(), 1, "`{call}` is one step");
        let is_elsewhere = ELSEWHERE.iter().any(|(_, of)| *of == phase);
        let (before, _) = code.split_once(call).unwrap();
        assert!(
            is_elsewhere || entered(before) == format!("{phase:?}"),
            "`{call}`"
        );
    }
    for (call, phase) in ELSEWHERE {
        for (at, _) in code.match_indices(call) {
            assert_eq!(entered(&code[..at]), format!("{phase:?}"), "`{call}`");
        }
    }
    for phase in ROUND.iter().chain(&[Phase::Settle]) {
        let enter = format!("self.enter(Phase::{phase:?})");
        assert!(code.contains(&enter), "no `{enter}` in the sequencer");
        assert!(
            EFFECTS.iter().any(|(_, of)| of == phase),
            "{phase:?} does nothing"
        );
    }
    let sequence = [
        "async fn sequence(",
        "self.prepare(",
        "self.stage(",
        "self.commit(",
        "self.publish(",
        "self.answer(",
        "self.index(",
    ];
    in_order(&code, &sequence);
    // There are no other writes.
    let writes = ["assets.", "lock."].map(|of| code.matches(&format!("log.{of}")).count());
    let reads = code.matches("log.assets.stats(").count()
        + code.matches("log.assets.publishes_durably(").count()
        + code.matches("log.assets.confirm_published(").count();
    assert_eq!(writes[0] - reads, 3, "stage, and two publications");
    assert_eq!(writes[1], 1, "one swap");
}

/// The code calls the steps of an opening (`instance::Opening`) in the same order.
#[test]
fn an_opening_reads_and_judges_in_the_order_of_the_model() {
    let (recovery, catch_up) = (code(RECOVERY), code(CATCH_UP));
    let supervisor = code(SUPERVISOR);
    let session = [
        "async fn open(",
        "tree_head::last_signed(&self.config)",
        "self.recover(signed, known)",
        "self.remind(&recovered",
        "catchup::open(&self.index",
    ];
    let judge = [
        "async fn judge(",
        "committed(config, lock)",
        "rounds(config, assets)",
        "published(config, assets)",
        "not_newer(published",
        "no_tile_beyond(&head",
        "no_round_beyond(&head",
        "signed_ahead::newest(head",
        "rounds_to(&head",
        "same_history(published",
        "published_rounds(&path",
        "tree_at(base(",
    ];
    let whole = [
        "async fn judge_whole(",
        "judge(config, &**assets, lock, signed)",
        "rollback::check(unconfirmed, tree, &judged.path, assets)",
    ];
    let recover = [
        "async fn recover(",
        "judge_whole(config, assets, lock, signed)",
        "history.hold_against_all(&known",
        "NewestSigned::commit(",
        "replay(&mut tree, record, head.checkpoint.size, &**assets)",
        "assets.publish(batch)",
        "assets.publish(vec![checkpoint])",
    ];
    let open = [
        "async fn open(",
        "opened(log, &source)",
        "async fn opened(",
        "usable(log, source)",
        "index.go_over(head)",
    ];
    for (code, steps) in [
        (&supervisor, &session[..]),
        (&recovery, &judge),
        (&recovery, &whole),
        (&recovery, &recover),
        (&catch_up, &open),
    ] {
        in_order(code, steps);
    }
}

/// The index finds an entry before the entry counts as read. A lookup checks first which
/// entries are not read yet.
#[test]
fn what_the_index_lacks_is_read_in_the_order_of_the_model() {
    let read = [
        "async fn read_range(",
        "source.read(tile)",
        "part.add(found",
        "writing.go_on(dedup",
    ];
    let take_up = [
        "fn take_up(",
        "anchor.backlog.cut(",
        "fn write_table(",
        "self.tables.write(&records)",
        "self.commit(&anchor, Some(list), gaps)",
        "self.tables.change(&[], table, note)",
        "self.gaps.replace(&[], gaps)",
        "self.unflushed.write().anchor = anchor",
    ];
    let look = [
        "async fn look(",
        "session.pool.find(",
        "session.dedup.unknown(",
        "session.dedup.find_in_memory(",
        "session.lookups.find(",
    ];
    for (source, steps) in [(CATCH_UP, &read[..]), (DEDUP, &take_up), (SUBMIT, &look)] {
        in_order(&code(source), steps);
    }
}

/// A follower reads, compares and shows in the order of `cluster.rs`, and a new leader recovers and
/// extends its index before it accepts entries.
#[test]
fn a_follower_reads_and_a_new_leader_recovers_in_the_order_of_the_model() {
    let open = [
        "async fn open(",
        "recover::published(",
        "log.committed()",
        "recover::not_newer(",
        "recover::published_tree(",
        "log.not_back(",
        "catchup::open(",
    ];
    let advance = [
        "async fn advance(",
        "recover::published(",
        "head.size < tree.size()",
        "grow(&log",
        "self.take_up(grown, Some(published))",
        "async fn take_up(",
        "self.show(published)",
        "index.extend(",
    ];
    let lead = [
        "async fn lead(",
        "self.recover()",
        "self.take_up(grown, None)",
        "Sequencer::new(",
        "opened.opened(session",
        "term.keep(",
    ];
    for steps in [&open[..], &advance, &lead] {
        in_order(&code(FOLLOW), steps);
    }
    // A follower writes nothing but the lease.
    let follow = code(FOLLOW);
    for write in [
        ".publish(",
        ".stage(",
        ".settle(",
        "lock.replace(",
        "lock.create(",
    ] {
        assert_eq!(follow.matches(write).count(), 0, "`{write}` in a follower");
    }
}

/// The leader looks for a forwarded entry again, lets it join the pool, and responds after its
/// round. The follower compares the response with its own tree.
#[test]
fn an_entry_is_forwarded_in_the_order_of_the_model() {
    let taken = [
        "async fn taken(",
        "session.follows().is_none()",
        "self.submissions.join(&session",
        "self.submissions.prove_indexed(",
        "join_all(joins)",
        "outcome(at).await",
        "async fn outcome(",
        "ticket.wait().await",
        "Outcome::Placed {",
    ];
    let join = [
        "async fn join(",
        "self.look(session",
        "session.follows()",
        "forwarder.send(entry",
        "session.pool.join(entry, lane, epoch)",
    ];
    let join_at = [
        "fn join_at(",
        "inner.tickets.get(&entry.identity)",
        "inner.epoch != looked.0",
        "inner.tickets.insert(identity",
        "fn forget_oldest(",
        "inner.epoch += 1",
        "inner.tickets.remove(",
    ];
    let sct = [
        "async fn try_submit(",
        "self.forwarded(lane, outcome)",
        "self.prove(&identity, &signed, place, Source::Leader)",
        "self.scts.sct(&identity, &signed, place)",
        "async fn forwarded(",
        "timeout(wait, outcome).await",
        "shown.wait_for(",
        "async fn prove(",
        "leaf_hash(&leaf) == in_tree",
    ];
    for (source, steps) in [
        (FORWARD, &taken[..]),
        (SUBMIT, &join),
        (POOL, &join_at),
        (SUBMIT, &sct),
    ] {
        in_order(&code(source), steps);
    }
}

fn in_order(code: &str, steps: &[&str]) {
    let mut rest = code;
    for step in steps {
        let after = rest.split_once(step);
        rest = after
            .unwrap_or_else(|| panic!("`{step}` is not where it was"))
            .1;
    }
}

//! The pool under arbitrary sequences of events: waiting, admission, and no lost entries.

use std::collections::HashSet;
use std::num::NonZeroU32;

use bytes::Bytes;
use futures_util::FutureExt;
use lucarne_ct::{Issuer, SignedEntry};
use proptest::prelude::*;

use super::*;

const CAPACITY: usize = 64;
const SHARE: usize = 24;
/// Maximum number of bytes of an entry in these tests. Some entries exceed their part of the pool.
const MOST_BYTES: usize = 5 * BYTES_PER_ENTRY;

fn lanes(old_rate: Option<u32>) -> LaneConfig {
    LaneConfig {
        old_rate: old_rate.and_then(NonZeroU32::new),
        old_pool: Some(SHARE),
        ..LaneConfig::default()
    }
}

fn entry(number: u64, issuer: u8, bytes: usize) -> Entry {
    let mut identity = [0; 32];
    identity[..8].copy_from_slice(&number.to_be_bytes());
    let issuer = Issuer::new(Bytes::copy_from_slice(&[issuer]));
    Entry {
        identity: Identity(identity),
        signed: SignedEntry::X509 {
            certificate: Bytes::from(vec![0; bytes]),
        },
        precertificate: None,
        issuers: Arc::new([Arc::new(issuer)]),
    }
}

/// Looks up and joins, like a submission that is not in the index.
fn submit(pool: &Pool, entry: Entry, lane: Lane, now: Instant) -> Joined {
    match pool.find(&entry.identity) {
        Known::Here(ticket) => Joined::At(ticket),
        Known::NotHere(epoch) => pool.join_at(entry, lane, epoch, now),
    }
}

#[derive(Clone, Debug)]
enum Event {
    Submit {
        number: u64,
        lane: Lane,
        issuer: u8,
        bytes: usize,
    },
    /// A round with this duration in milliseconds. The index has the round afterwards.
    Round(u64),
    TurnAway,
}

fn event() -> impl Strategy<Value = Event> {
    let lane = prop_oneof![Just(Lane::Fresh), Just(Lane::Old), Just(Lane::Old)];
    let bytes = prop_oneof![9 => 100..4000_usize, 1 => 0..MOST_BYTES];
    let submit = (0..400_u64, lane, 0..4_u8, bytes).prop_map(|(number, lane, issuer, bytes)| {
        Event::Submit {
            number,
            lane,
            issuer,
            bytes,
        }
    });
    prop_oneof![60 => submit, 3 => (1..2000_u64).prop_map(Event::Round), 1 => Just(Event::TurnAway)]
}

/// The expected content of a pool.
#[derive(Default)]
struct Model {
    fresh: Vec<Identity>,
    old: Vec<Identity>,
    tickets: Vec<(Identity, Ticket)>,
    /// The index of each logged entry.
    places: HashMap<Identity, u64>,
}

impl Model {
    fn submit(&mut self, pool: &Pool, entry: Entry, lane: Lane) {
        let identity = entry.identity;
        if self.places.contains_key(&identity) {
            // The submission is found in the index.
            return;
        }
        let waits = self.fresh.contains(&identity) || self.old.contains(&identity);
        let (fresh, old) = {
            let inner = pool.inner.lock();
            (inner.fresh.held(), inner.old.held())
        };
        match submit(pool, entry, lane, Instant::now()) {
            Joined::At(ticket) => {
                self.tickets.push((identity, ticket));
                match lane {
                    _ if waits => {}
                    Lane::Fresh => self.fresh.push(identity),
                    Lane::Old => self.old.push(identity),
                }
            }
            Joined::Full {
                retry_after_seconds,
            } => {
                assert!(!waits, "a duplicate needs no room");
                assert!((1..=60).contains(&retry_after_seconds));
                if lane == Lane::Fresh {
                    // Old entries leave more than half of the part for fresh entries, regardless of
                    // the issuer.
                    let left = CAPACITY - SHARE;
                    let many = fresh.entries >= left / 2;
                    let much = fresh.bytes + old.bytes >= left / 2 * BYTES_PER_ENTRY;
                    assert!(many || much, "{fresh:?}");
                }
            }
            Joined::LookAgain(_) => panic!("nothing has moved"),
            Joined::Closed => panic!("it is open"),
        }
    }

    fn round(&mut self, pool: &Pool, took: Duration) {
        let room = pool.inner.lock().cost.room();
        let is_closed = pool.is_closed();
        let round = pool.seal();
        let sealed: Vec<Identity> = round.entries.iter().map(|entry| entry.identity).collect();
        // The round has all fresh entries, then the oldest old entries.
        let old = if is_closed {
            self.old.len()
        } else {
            self.old.len().min(room)
        };
        assert_eq!(sealed[..round.fresh], self.fresh[..]);
        assert_eq!(sealed[round.fresh..], self.old[..old]);
        assert_eq!(pool.waiting(Lane::Fresh), 0);
        self.fresh.clear();
        self.old.drain(..old);
        let first_index = self.places.len() as u64;
        for identity in &sealed {
            let place = self.places.len() as u64;
            assert_eq!(self.places.insert(*identity, place), None, "logged twice");
        }
        round.outcome.decide(Ok(Sequenced {
            first_index,
            timestamp_ms: 7,
        }));
        if !sealed.is_empty() {
            pool.note_round(sealed.len(), took, Duration::from_millis(200));
            pool.forget_oldest();
        }
    }

    fn turn_away(&mut self, pool: &Pool) {
        pool.turn_away();
        self.fresh.clear();
        self.old.clear();
        self.tickets.retain(|(identity, ticket)| {
            let place = ticket.wait().now_or_never();
            place != Some(Err(Abandoned)) || self.places.contains_key(identity)
        });
    }

    fn check(&self, pool: &Pool) {
        let inner = pool.inner.lock();
        let (fresh, old) = (inner.fresh.held(), inner.old.held());
        assert_eq!(
            (fresh.entries, old.entries),
            (self.fresh.len(), self.old.len())
        );
        assert!(inner.fresh.identities().eq(self.fresh.iter().copied()));
        assert!(inner.old.identities().eq(self.old.iter().copied()));
        assert!(old.entries <= SHARE && fresh.entries + old.entries <= CAPACITY);
        let bytes = fresh.bytes + old.bytes;
        assert!(bytes < CAPACITY * BYTES_PER_ENTRY + MOST_BYTES, "{bytes}");
        assert!(old.bytes < SHARE * BYTES_PER_ENTRY + MOST_BYTES);
        assert_eq!(inner.tickets.len(), self.fresh.len() + self.old.len());
        assert!(inner.sealed.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn none_is_lost_and_fresh_ones_wait_for_no_old_one(
        events in proptest::collection::vec(event(), 0..300),
    ) {
        let pool = Pool::new(CAPACITY, &lanes(None));
        let mut model = Model::default();
        for event in events {
            match event {
                Event::Submit { number, lane, issuer, bytes } => {
                    model.submit(&pool, entry(number, issuer, bytes), lane);
                }
                Event::Round(ms) => model.round(&pool, Duration::from_millis(ms)),
                Event::TurnAway => model.turn_away(&pool),
            }
            model.check(&pool);
        }
        pool.close();
        model.round(&pool, Duration::ZERO);
        model.check(&pool);
        assert_eq!(pool.depth(), 0);
        for (identity, ticket) in &model.tickets {
            let place = ticket.wait().now_or_never();
            assert_eq!(place, Some(Ok((model.places[identity], 7))));
        }
    }
}

/// A pool with a manual clock.
struct Timed {
    pool: Pool,
    now: Instant,
}

impl Timed {
    fn new(capacity: usize, lanes: &LaneConfig) -> Self {
        Timed {
            pool: Pool::new(capacity, lanes),
            now: Instant::now(),
        }
    }

    /// Returns the number of accepted entries, and the Retry-After of the first rejected entry.
    fn fill(&self, lane: Lane, issuer: u8, numbers: std::ops::Range<u64>) -> (usize, u32) {
        let mut taken = 0;
        for number in numbers {
            match submit(&self.pool, entry(number, issuer, 100), lane, self.now) {
                Joined::At(_) => taken += 1,
                Joined::Full {
                    retry_after_seconds,
                } => return (taken, retry_after_seconds),
                _ => panic!("neither taken nor refused"),
            }
        }
        (taken, 0)
    }

    fn advance(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    /// Runs a round with this duration, plus a time per entry; returns the number of entries.
    fn round(&mut self, ms: u64, each_ms: u64) -> usize {
        let sealed = self.pool.seal_at(self.now).entries.len();
        let took = ms + each_ms * sealed as u64;
        self.advance(took);
        let took = Duration::from_millis(took);
        self.pool.note_round(sealed, took, took);
        self.pool.forget_oldest();
        sealed
    }
}

#[test]
fn old_ones_of_a_ca_take_nothing_from_its_fresh_ones() {
    let pool = Timed::new(CAPACITY, &lanes(None));
    // One CA gets seven eighths of the share; the rest is for CAs without entries.
    assert_eq!(pool.fill(Lane::Old, 1, 0..100).0, SHARE - SHARE / 8);
    assert_eq!(pool.fill(Lane::Old, 2, 100..101).0, 1);
    let left = CAPACITY - (SHARE - SHARE / 8) - 1;
    assert_eq!(pool.fill(Lane::Fresh, 1, 200..300).0, left - left / 8);
    assert_eq!(pool.fill(Lane::Fresh, 2, 300..301).0, 1);
}

#[test]
fn the_rate_of_old_ones_is_theirs_alone_and_so_is_their_retry_after() {
    let mut pool = Timed::new(1000, &lanes(Some(2)));
    assert_eq!(pool.fill(Lane::Old, 1, 0..10), (2, 1));
    assert_eq!(pool.fill(Lane::Fresh, 1, 100..200), (100, 0));
    // Two clients have the next second as Retry-After by now, so the next client gets the second
    // after that.
    assert_eq!(pool.fill(Lane::Old, 1, 10..11), (0, 1));
    assert_eq!(pool.fill(Lane::Old, 1, 11..12), (0, 2));
    pool.advance(1000);
    assert_eq!(pool.fill(Lane::Old, 1, 2..3).0, 1);
    assert_eq!(pool.fill(Lane::Old, 1, 10..11).0, 1);
    pool.advance(1000);
    assert_eq!(pool.fill(Lane::Old, 1, 11..12).0, 1);
}

/// A round takes the entries that a disk writes in 250 ms. Retry-After includes the rounds before
/// the client's entry.
#[test]
fn the_time_to_come_back_is_that_of_the_lane() {
    let mut pool = Timed::new(4000, &LaneConfig::default());
    for (n, entries) in (100..).zip([20, 40, 60, 20]) {
        pool.fill(Lane::Fresh, 1, 100 * n..100 * n + entries);
        pool.round(900, 10);
    }
    let room = pool.pool.inner.lock().cost.room();
    assert!((24..=25).contains(&room), "{room}");
    // Entries that would wait longer than ten seconds are rejected.
    let (taken, retry_after) = pool.fill(Lane::Old, 1, 0..1000);
    assert!((150..250).contains(&taken), "{taken}");
    assert!((10..=12).contains(&retry_after), "{retry_after}");
    let began = pool.now;
    while pool.pool.waiting(Lane::Old) > 0 {
        assert!((1..=30).contains(&pool.round(900, 10)));
    }
    let took = pool.now - began;
    assert!(took <= Duration::from_secs(retry_after.into()), "{took:?}");
    assert_eq!(pool.fill(Lane::Old, 1, 1000..1001).0, 1);
}

/// If a round takes longer and longer, no Retry-After ends before the round.
#[test]
fn a_disk_that_hangs_is_told_of() {
    let mut pool = Timed::new(8, &LaneConfig::default());
    pool.fill(Lane::Fresh, 1, 0..1);
    pool.pool.seal_at(pool.now);
    pool.advance(30_000);
    assert_eq!(pool.fill(Lane::Fresh, 1, 1..100), (7, 30));
    assert_eq!(pool.fill(Lane::Old, 1, 100..200).1, 30);
}

/// An identity is known from its arrival until the index has it, in any round.
#[test]
fn an_old_one_that_waits_for_a_later_round_is_known_all_the_time() {
    let mut pool = Timed::new(4000, &LaneConfig::default());
    for (n, entries) in [(1, 10), (2, 20)] {
        pool.fill(Lane::Fresh, 1, 100 * n..100 * n + entries);
        pool.round(0, 20);
    }
    let Timed { pool, now } = pool;
    for number in 5000..5040 {
        let joined = submit(&pool, entry(number, 1, 100), Lane::Old, now);
        assert!(matches!(joined, Joined::At(_)));
    }
    let mut indexed = HashSet::new();
    while indexed.len() < 40 {
        assert_eq!(pool.waiting(Lane::Old), 40 - indexed.len());
        let sealed = pool.seal_at(now);
        for number in 5000..5040 {
            let identity = entry(number, 1, 0).identity;
            let is_known = matches!(pool.find(&identity), Known::Here(_));
            assert_eq!(is_known, !indexed.contains(&identity));
        }
        assert!(sealed.entries.len() < 20, "{}", sealed.entries.len());
        indexed.extend(sealed.entries.iter().map(|entry| entry.identity));
        pool.forget_oldest();
    }
}

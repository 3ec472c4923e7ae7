//! Witnesses cosign the checkpoints of a log, and none of them can disturb the log.

use std::fmt;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_cosign::{AddCheckpoint, LogKeys, Refusal, TrustedKey, Witness};
use lucarne_ct::CheckpointVerifier;
use lucarne_log::{Endpoint, State, WitnessClient, WitnessError, WitnessResponse, Witnesses};
use lucarne_storage::memory::Operation;
use lucarne_storage::{AssetError, Assets, Lock, MemoryLock};
use lucarne_testkit::{eventually, until};
use lucarne_tlog::{Cosigner, Policy, SignedNote};
use tokio::sync::watch;

use crate::fixture::{Submission, World, audit, key, reached};

const ORIGIN: &str = "log.example/test";

fn cosigner(name: &str) -> Cosigner {
    let mut seed = [0; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    Cosigner::ml_dsa_44(name, &seed).unwrap()
}

/// Returns a policy whose quorum is all of these witnesses.
fn policy(names: &[&str]) -> Policy {
    let mut text = String::new();
    for name in names {
        text += &format!(
            "witness {name} {} https://{name}/\n",
            cosigner(name).verifier()
        );
    }
    text += &format!("group all all {}\nquorum all\n", names.join(" "));
    Policy::parse(text.as_bytes()).unwrap()
}

fn honest(name: &str) -> Witness {
    let verifier = CheckpointVerifier::new(ORIGIN, key().public_key_spki()).unwrap();
    let mut logs = LogKeys::default();
    logs.add(ORIGIN, TrustedKey::Ct(verifier));
    Witness::new(vec![cosigner(name)], logs, Arc::new(MemoryLock::new())).unwrap()
}

fn response(status: u16, body: impl Into<Bytes>) -> Result<WitnessResponse, WitnessError> {
    let body = body.into();
    Ok(WitnessResponse { status, body })
}

/// Returns the checkpoint in a request.
fn note(body: &[u8]) -> &str {
    let body = std::str::from_utf8(body).unwrap();
    body.split_once("\n\n").unwrap().1
}

/// Returns the text of the checkpoint in a request.
fn text(body: &[u8]) -> String {
    SignedNote::parse(note(body).as_bytes()).unwrap().text
}

fn old(body: &[u8]) -> u64 {
    let line = std::str::from_utf8(body).unwrap().lines().next().unwrap();
    line.strip_prefix("old ").unwrap().parse().unwrap()
}

fn line(name: &str, text: &str) -> String {
    format!("{}\n", cosigner(name).cosign(text, 1_790_000_000).unwrap())
}

type Answer = Box<dyn Fn(&[u8]) -> Option<Result<WitnessResponse, WitnessError>> + Send + Sync>;

/// Two witnesses of this process: `good` is honest, and `bad` gives any response or none.
pub(crate) struct Two {
    good: Witness,
    bad: Answer,
    /// All requests: the name of the witness and the body.
    requests: Mutex<Vec<(String, Bytes)>>,
    count: watch::Sender<usize>,
}

impl Two {
    /// Only the honest witness exists.
    pub(crate) fn honest() -> Arc<Self> {
        Self::with(Box::new(|_| panic!("there is no such witness")))
    }

    fn with(bad: Answer) -> Arc<Self> {
        Arc::new(Two {
            good: honest("good"),
            bad,
            requests: Mutex::default(),
            count: watch::Sender::new(0),
        })
    }

    pub(crate) fn requests(&self, of: &str) -> Vec<Bytes> {
        let requests = self.requests.lock().unwrap();
        let of = requests.iter().filter(|(name, _)| name == of);
        of.map(|(_, body)| body.clone()).collect()
    }
}

impl fmt::Debug for Two {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Two")
    }
}

#[async_trait]
impl WitnessClient for Two {
    async fn post(
        &self,
        prefix: &str,
        _endpoint: Endpoint,
        body: Bytes,
        _max: usize,
    ) -> Result<WitnessResponse, WitnessError> {
        let name = prefix.strip_prefix("https://").unwrap().to_owned();
        self.requests
            .lock()
            .unwrap()
            .push((name.clone(), body.clone()));
        self.count.send_modify(|count| *count += 1);
        if name == "slow" {
            let is_newer = |other: &Bytes| note(other) != note(&body);
            let newer = |_: &usize| self.requests("good").last().is_some_and(is_newer);
            self.count.subscribe().wait_for(newer).await.unwrap();
            return response(200, line("slow", &text(&body)));
        }
        if name != "good" {
            return match (self.bad)(&body) {
                Some(response) => response,
                None => std::future::pending().await,
            };
        }
        let request = AddCheckpoint::parse(&body).unwrap();
        match self.good.add_checkpoint(&request, 1_790_000_000).await {
            Ok(lines) => {
                let lines = lines.iter().map(|line| format!("{line}\n"));
                response(200, lines.collect::<String>())
            }
            Err(Refusal::Stale(size)) => response(409, format!("{size}\n")),
            Err(refusal) => panic!("{refusal}"),
        }
    }
}

pub(crate) async fn with(witnesses: &[&str], two: &Arc<Two>) -> World {
    let mut world = World::new().await;
    world.config.rounds.period = Duration::from_millis(20);
    world.config.witnesses = Some(Witnesses::new(policy(witnesses), two.clone()).unwrap());
    world
}

async fn stored(world: &World) -> Bytes {
    world.assets.get("checkpoint").await.unwrap().unwrap()
}

async fn committed(world: &World) -> Vec<u8> {
    let id = world.config.key.log_id().0;
    world.lock.load(&id).await.unwrap().unwrap()
}

/// Waits until `good` has cosigned the published checkpoint, and returns the checkpoint.
pub(crate) async fn cosigned(world: &World) -> Bytes {
    let mut found = Bytes::new();
    eventually("a cosigned checkpoint", async || {
        found = stored(world).await;
        let note = SignedNote::parse(&found).unwrap();
        policy(&["good"]).verify_cosignatures(&note).is_ok()
    })
    .await;
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_checkpoint_gets_the_cosignatures_of_the_policy() {
    let two = Two::honest();
    let world = with(&["good"], &two).await;
    for run in 0..2 {
        let log = world.run().await;
        for n in 0..3 {
            Submission::number(3 * run + n).to(&log).await.unwrap();
            cosigned(&world).await;
        }
        log.shutdown().await;
        let (published, committed) = (stored(&world).await, committed(&world).await);
        // The text and the signatures of the log are the same bytes.
        assert!(published.starts_with(&committed));
        assert_eq!(log.published().unwrap().size, 3 * run as u64 + 3);
        let witness = &log.witnesses()[0];
        assert_eq!((&*witness.name, &witness.problem), ("good", &None));
        assert_eq!(witness.cosigned.unwrap().1, 1_790_000_000);
    }
    // The second run did not know the size that the witness had cosigned, and requested again.
    let requests = two.requests("good");
    let of_three = requests.iter().filter(|body| text(body).contains("\n3\n"));
    let sizes: Vec<_> = of_three.map(|body| old(body)).collect();
    assert!(sizes.windows(2).any(|two| two == [0, 3]), "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_this_process_see_the_cosignatures() {
    let two = Two::honest();
    let world = with(&["good"], &two).await;
    let log = world.run().await;
    let shows = || {
        let note = SignedNote::parse(&log.published().unwrap().checkpoint).unwrap();
        policy(&["good"]).verify_cosignatures(&note).is_ok()
    };
    until("a cosigned checkpoint", shows).await;
    let checks = log.health().await.checks;
    let check = checks
        .iter()
        .find(|check| check.name == "witnesses")
        .unwrap();
    assert!(check.ok, "{}", check.detail);
    until("the quorum", || log.witnesses()[0].cosigned.is_some()).await;
    log.shutdown().await;
}

/// A checkpoint is requested once, and a second time only with the size of the response 409.
#[tokio::test(flavor = "multi_thread")]
async fn each_checkpoint_is_requested_once() {
    let two = Two::honest();
    let mut world = with(&["good"], &two).await;
    world.config.rounds.max_checkpoint_age = Duration::from_millis(100);
    let log = world.run().await;
    Submission::number(0).to(&log).await.unwrap();
    let mut count = two.count.subscribe();
    count.wait_for(|count| *count >= 8).await.unwrap();
    log.shutdown().await;
    let mut requests = two.requests("good");
    let all = requests.len();
    requests.sort();
    requests.dedup();
    assert_eq!(requests.len(), all);
}

/// Runs a log with an honest witness, and one with this response. The log works, publishes the
/// cosignature of the honest witness, and reports `problem`.
async fn reported(bad: Answer, problem: &str) -> Arc<Two> {
    let two = Two::with(bad);
    let world = with(&["good", "bad"], &two).await;
    let log = world.run().await;
    for n in 0..3 {
        Submission::number(n).to(&log).await.unwrap();
    }
    until(problem, || {
        log.witnesses()[1].problem.as_deref() == Some(problem)
    })
    .await;
    let published = cosigned(&world).await;
    let note = SignedNote::parse(&published).unwrap();
    let by_bad = note.signatures.iter().filter(|line| line.name == "bad");
    assert_eq!(by_bad.count(), 0, "{problem}");
    assert_eq!(log.witnesses()[1].cosigned, None);
    assert_eq!(audit(&log).await.len(), 3);
    let checks = log.health().await.checks;
    let check = checks
        .into_iter()
        .find(|check| check.name == "witnesses")
        .unwrap();
    assert!(
        check.ok && check.detail.contains(problem),
        "{}",
        check.detail
    );
    log.shutdown().await;
    // The term of this process has ended.
    assert_eq!(log.witnesses()[1].problem, None);
    two
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_responses_are_reported_and_change_nothing() {
    let invalid = "the response has no valid cosignature of a key of the policy";
    let oversized = "the response has more than 16 KiB";
    let answers: Vec<(Answer, &str)> = vec![
        (
            Box::new(|_| {
                Some(response(
                    200,
                    line(
                        "bad",
                        "log.example/test\n1\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n",
                    ),
                ))
            }),
            invalid,
        ),
        (
            Box::new(|body| Some(response(200, line("other", &text(body))))),
            invalid,
        ),
        (
            // The timestamp is zero, which no cosigner signs.
            Box::new(|body| {
                let mut zero = cosigner("bad").cosign(&text(body), 1).unwrap();
                zero.signature[..8].fill(0);
                Some(response(200, format!("{zero}\n")))
            }),
            invalid,
        ),
        (
            Box::new(|body| {
                let line = cosigner("bad").cosign(&text(body), i64::MAX as u64);
                Some(response(200, format!("{}\n", line.unwrap())))
            }),
            "the response has a cosignature with a time in the future",
        ),
        (Box::new(|_| Some(response(200, ""))), invalid),
        (Box::new(|_| Some(response(200, vec![0xff; 9]))), invalid),
        (
            Box::new(|body| Some(response(200, line("bad", &text(body)).repeat(2)))),
            "the response has two cosignatures of one key",
        ),
        (
            Box::new(|_| Some(response(200, vec![b'a'; 16 << 20]))),
            oversized,
        ),
        (Box::new(|_| Some(Err(WitnessError::TooLong))), oversized),
        (
            Box::new(|_| Some(response(302, ""))),
            "the response has the status 302",
        ),
        (
            Box::new(|_| Some(Err(WitnessError::Unreachable("connection refused".into())))),
            "connection refused",
        ),
    ];
    for (answer, problem) in answers {
        reported(answer, problem).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_makes_no_sense_is_followed_at_most_once() {
    let unusable = "the response with the status 409 has no usable size";
    let answers: Vec<(Answer, &str)> = vec![
        (Box::new(|_| Some(response(409, "many\n"))), unusable),
        (Box::new(|_| Some(response(409, "1"))), unusable),
        (
            Box::new(|body| Some(response(409, format!("{}\n", old(body))))),
            unusable,
        ),
        // The size goes down, and up again.
        (
            Box::new(|body| Some(response(409, if old(body) == 0 { "1\n" } else { "0\n" }))),
            unusable,
        ),
        (
            Box::new(|_| Some(response(409, "18446744073709551615\n"))),
            "the witness has cosigned a tree of 18446744073709551615 entries, more than this log \
             has published",
        ),
    ];
    for (answer, problem) in answers {
        let two = reported(answer, problem).await;
        let requests = two.requests("bad");
        for body in &requests {
            let same = requests.iter().filter(|other| note(other) == note(body));
            assert!(same.count() <= 2, "{problem}");
        }
    }
}

/// The witness has the first request, and never responds. Rounds are published, with SCTs and with
/// the cosignatures of the other witness.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_do_not_wait_for_a_silent_witness() {
    let two = Two::with(Box::new(|_| None));
    let world = with(&["good", "bad"], &two).await;
    let log = world.run().await;
    until("the request", || !two.requests("bad").is_empty()).await;
    for n in 0..3 {
        Submission::number(n).to(&log).await.unwrap();
        let published = cosigned(&world).await;
        assert!(published.starts_with(&committed(&world).await));
    }
    // Each round had its own request, while the silent witness had one for several rounds.
    assert!(two.requests("good").len() > two.requests("bad").len());
    let late = Some("no response within 2 s");
    until("a late response", || {
        log.witnesses()[1].problem.as_deref() == late
    })
    .await;
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_second_publication_does_not_disturb_the_log() {
    let two = Two::honest();
    let world = with(&["good"], &two).await;
    world.assets.inject(|operation| {
        (operation == Operation::Amend).then(|| AssetError::Unavailable {
            action: "write",
            place: "memory".into(),
            detail: "down".into(),
        })
    });
    let log = world.run().await;
    Submission::number(0).to(&log).await.unwrap();
    until("a request of one entry", || {
        two.requests("good")
            .iter()
            .any(|body| text(body).contains("\n1\n"))
    })
    .await;
    Submission::number(1).to(&log).await.unwrap();
    assert_eq!(stored(&world).await, committed(&world).await);
    eventually("the reason is reported", async || {
        let checks = log.health().await.checks;
        let mut details = checks.iter().map(|check| &check.detail);
        details.any(|detail| detail.contains("cannot publish cosignatures: "))
    })
    .await;
    world.assets.heal();
    cosigned(&world).await;
    log.shutdown().await;
}

/// The keys of two witnesses have one URL, which responds with a line of one key.
#[tokio::test(flavor = "multi_thread")]
async fn each_key_needs_a_line_of_its_own() {
    let two = Two::honest();
    let mut world = with(&["good"], &two).await;
    let [good, other] = ["good", "other"].map(|name| cosigner(name).verifier().to_string());
    let policy = format!(
        "witness good {good} https://good/\nwitness other {other} https://good/\nquorum good\n"
    );
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    world.config.witnesses = Some(Witnesses::new(policy, two.clone()).unwrap());
    let log = world.run().await;
    let missing = Some("the response has no cosignature of this key");
    until("the other key has no line", || {
        log.witnesses()[1].problem.as_deref() == missing
    })
    .await;
    cosigned(&world).await;
    assert_eq!(log.witnesses()[0].problem, None);
    assert_eq!(log.witnesses()[1].cosigned, None);
    log.shutdown().await;
}

/// A witness responds after the next checkpoint is published.
#[tokio::test(flavor = "multi_thread")]
async fn a_valid_response_after_the_next_round_is_reported() {
    let two = Two::honest();
    let mut world = with(&["good", "slow"], &two).await;
    world.config.rounds.max_checkpoint_age = Duration::from_millis(100);
    let log = world.run().await;
    until("the slow witness is too slow", || {
        let problem = log.witnesses()[1].problem.clone();
        problem.is_some_and(|it| it.starts_with("the response came after the next round"))
    })
    .await;
    log.shutdown().await;
}

/// No later checkpoint replaces the last one.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_checkpoint_of_a_retired_log_is_cosigned() {
    let two = Two::honest();
    let mut world = with(&["good"], &two).await;
    world.config.rounds.max_checkpoint_age = Duration::from_millis(100);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let week = Duration::from_secs(7 * 24 * 3600);
    let limit = now - week + Duration::from_secs(60);
    world.config.policy.not_after_limit = Some(limit.as_millis() as u64);
    let log = world.run().await;
    for step in 1..=8 {
        // The log follows a clock that jumps by less than 10 s.
        let before = log.published().unwrap().timestamp_ms;
        world.skew_ms.store(9000 * step, SeqCst);
        until("a later checkpoint", || {
            let later = log.published().unwrap().timestamp_ms >= before + 8000;
            later || log.state() == State::Retired
        })
        .await;
    }
    reached(&log, |state| *state == State::Retired).await;
    let note = SignedNote::parse(&stored(&world).await).unwrap();
    policy(&["good"]).verify_cosignatures(&note).unwrap();
    log.shutdown().await;
}

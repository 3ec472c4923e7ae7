//! Several instances of one log: one leads, the others follow, and replace it.

mod clocks;
mod following;
mod pressure;
mod readers;
mod troubles;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::LogId;
use lucarne_log::{
    Instances, Log, LogConfig, Messenger, MessengerError, Metrics, State, SubmitError,
};
use lucarne_mint::testing::Pki;
use lucarne_storage::{Lease, Lock, LockError, MemoryLock, StoreDate};
use lucarne_testkit::{eventually, until};
use prometheus_client::registry::Registry;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::fixture::{Submission, World, audit, old_ones, persistently, place, reached, spawn};

/// The channel between the instances of this process.
#[derive(Clone, Default)]
struct Switchboard(Arc<Mutex<HashMap<String, Weak<Log>>>>);

impl std::fmt::Debug for Switchboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Switchboard")
    }
}

#[async_trait]
impl Messenger for Switchboard {
    async fn ask(&self, address: &str, _: LogId, message: Bytes) -> Result<Bytes, MessengerError> {
        let log = self.0.lock().unwrap().get(address).and_then(Weak::upgrade);
        let log = log.ok_or_else(|| MessengerError {
            address: address.to_owned(),
            source: "connection refused".into(),
        })?;
        Ok(log.take_forwarded(message).await)
    }
}

/// A lock that blocks all calls while its gate is closed. Other instances cannot distinguish this
/// from a paused process.
struct Gated {
    lock: Arc<MemoryLock>,
    open: watch::Receiver<bool>,
}

impl Gated {
    async fn pass(&self) {
        let mut open = self.open.clone();
        let _ = open.wait_for(|open| *open).await;
    }
}

#[async_trait]
impl Lock for Gated {
    async fn load(&self, log: &[u8; 32]) -> Result<Option<Vec<u8>>, LockError> {
        self.pass().await;
        self.lock.load(log).await
    }

    async fn create(&self, log: &[u8; 32], body: &[u8]) -> Result<(), LockError> {
        self.pass().await;
        self.lock.create(log, body).await
    }

    async fn replace(&self, log: &[u8; 32], old: &[u8], new: &[u8]) -> Result<(), LockError> {
        self.pass().await;
        self.lock.replace(log, old, new).await
    }

    async fn check(&self) -> Result<(), LockError> {
        self.lock.check().await
    }

    async fn date(&self) -> Result<Option<StoreDate>, LockError> {
        self.lock.date().await
    }

    fn location(&self) -> String {
        self.lock.location()
    }
}

/// An instance on its own threads, which end with the instance, as in a process.
struct Instance {
    log: Arc<Log>,
    runtime: Option<Runtime>,
    gate: watch::Sender<bool>,
    _cache: tempfile::TempDir,
}

impl Instance {
    fn start(world: &World, switchboard: &Switchboard, name: &str) -> Instance {
        Instance::start_with(world, switchboard, name, |_| {})
    }

    fn start_with(
        world: &World,
        switchboard: &Switchboard,
        name: &str,
        change: impl FnOnce(&mut LogConfig),
    ) -> Instance {
        let cache = tempfile::tempdir().unwrap();
        let mut config = world.config.clone();
        config.cache = cache.path().join("dedup");
        config.rounds.period = Duration::from_millis(20);
        config.instances = Some(Instances {
            address: name.into(),
            lease: Duration::from_millis(600),
            messenger: Arc::new(switchboard.clone()),
        });
        change(&mut config);
        let (roots, _) = lucarne_ct::Roots::from_pem(Pki::shared().roots_pem().as_bytes());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(name)
            .enable_all()
            .build()
            .unwrap();
        let (gate, open) = watch::channel(true);
        let lock = Gated {
            lock: world.lock.clone(),
            open,
        };
        let (assets, metrics) = (
            world.assets.clone(),
            Metrics::register(&mut Registry::default()),
        );
        let log = {
            let _within = runtime.enter();
            Log::start(config, roots, Arc::new(assets), Arc::new(lock), &metrics)
        };
        let known = Arc::downgrade(&log);
        switchboard.0.lock().unwrap().insert(name.into(), known);
        Instance {
            log,
            runtime: Some(runtime),
            gate,
            _cache: cache,
        }
    }

    fn leads(&self) -> bool {
        self.log.state() == State::Running
    }

    /// Stops the instance at once, in any state.
    fn kill(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts a leader, and then a follower with a changed configuration.
async fn two(
    world: &World,
    switchboard: &Switchboard,
    change: impl FnOnce(&mut LogConfig),
) -> [Instance; 2] {
    let leader = Instance::start(world, switchboard, "a:1");
    until("it leads", || leader.leads()).await;
    let follower = Instance::start_with(world, switchboard, "b:1", change);
    let two = [leader, follower];
    settled(&two).await;
    two
}

/// Gives the lease to a leader that does not exist, and starts an instance that follows it until it
/// hands the lease over.
async fn follower_of_nobody(world: &World) -> (Lease, Instance) {
    let held = Lease {
        holder: Some([1; 16]),
        address: "a:1".into(),
        epoch: 1,
        renewal: 0,
    };
    let id = world.config.key.log_id().0;
    held.create(&*world.lock, &id).await.unwrap();
    let follower = Instance::start_with(world, &Switchboard::default(), "b:1", |config| {
        config.instances.as_mut().unwrap().lease = Duration::from_secs(60);
    });
    reached(&follower.log, follows).await;
    (held, follower)
}

/// Hands a lease over.
async fn hand_over(held: &Lease, world: &World) {
    let nobody = Lease {
        holder: None,
        ..held.clone()
    };
    let id = world.config.key.log_id().0;
    held.replace(&nobody, &*world.lock, &id).await.unwrap();
}

fn follows(state: &State) -> bool {
    matches!(state, State::Following { leader: Some(_) })
}

/// Returns the failed check `instances` of a log.
async fn trouble(log: &Log) -> Option<String> {
    let health = log.health().await;
    let mut checks = health.checks.into_iter();
    let check = checks.find(|check| check.name == "instances")?;
    (!check.ok).then_some(check.detail)
}

/// Waits until all is well.
async fn untroubled(log: &Log) {
    eventually("all is well", async || trouble(log).await.is_none()).await;
}

/// Waits until the check `instances` fails with these words.
async fn troubled(log: &Log, words: &str) {
    eventually(words, async || {
        let said = trouble(log).await.unwrap_or_default();
        said.contains(words)
    })
    .await;
}

/// Starts three instances, and waits until one of them leads.
async fn three(world: &World, switchboard: &Switchboard) -> Vec<Instance> {
    let three = ["a:1", "b:1", "c:1"].map(|name| Instance::start(world, switchboard, name));
    let three = Vec::from(three);
    settled(&three).await;
    three
}

/// Waits until one instance leads and the others follow.
async fn settled(instances: &[Instance]) {
    until("one leads and the others follow", || {
        let states = instances.iter().map(|instance| instance.log.state());
        let states: Vec<_> = states.collect();
        let leading = states
            .iter()
            .filter(|state| **state == State::Running)
            .count();
        leading == 1 && states.iter().filter(|state| follows(state)).count() + 1 == states.len()
    })
    .await;
}

/// Removes and returns the leader.
fn leader(instances: &mut Vec<Instance>) -> Instance {
    let at = instances.iter().position(Instance::leads);
    instances.swap_remove(at.expect("one leads"))
}

/// A submission, and the index and timestamp in its SCT.
type Promised = (Submission, (u64, u64));

/// Submits the chains with these numbers through all instances in turn. Each submission must get an
/// SCT without a retry.
async fn submitted(instances: &[Instance], numbers: std::ops::Range<usize>) -> Vec<Promised> {
    let mut tasks = tokio::task::JoinSet::new();
    for n in numbers {
        let log = instances[n % instances.len()].log.clone();
        tasks.spawn(async move {
            let submission = Submission::number(n);
            let sct = submission.to(&log).await;
            let place = place(&sct.unwrap_or_else(|error| panic!("{n}: {error}")));
            (submission, place)
        });
    }
    tasks.join_all().await
}

/// Checks that every entry with an SCT is in the log once, and that all instances have the same
/// log.
async fn agree(instances: &[Instance], promised: &[Promised]) {
    let last = promised.iter().map(|(_, (index, _))| *index).max().unwrap();
    for instance in instances {
        let log = &instance.log;
        until("all is followed", || {
            log.published()
                .is_some_and(|published| published.size > last)
        })
        .await;
        let entries = audit(log).await;
        for (submission, (index, timestamp_ms)) in promised {
            assert_eq!(entries[*index as usize].1, *timestamp_ms);
            let again = persistently(log, submission).await;
            assert_eq!(place(&again), (*index, *timestamp_ms));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_instances_take_submissions_and_one_chain_gets_one_place() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let three = three(&world, &switchboard).await;
    let promised = submitted(&three, 0..700).await;
    // The same chain is sent to all instances concurrently.
    for n in 1000..1020 {
        let submission = Submission::number(n);
        let scts = three.iter().map(|instance| submission.to(&instance.log));
        let scts = futures_util::future::join_all(scts).await;
        let places: Vec<_> = scts.into_iter().map(|sct| place(&sct.unwrap())).collect();
        assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    }
    agree(&three, &promised).await;
    for instance in &three {
        let health = instance.log.health().await;
        assert!(health.ok(), "{health:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_is_replaced() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let mut left = three(&world, &switchboard).await;
    let mut promised = submitted(&left, 0..100).await;
    leader(&mut left).kill();
    // None of these submissions gets a Retry-After: they wait for the next leader.
    promised.extend(submitted(&left, 100..200).await);
    agree(&left, &promised).await;
    left.push(Instance::start(&world, &switchboard, "d:1"));
    settled(&left).await;
    promised.extend(submitted(&left, 200..300).await);
    agree(&left, &promised).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_stopped_hands_over_without_a_failed_submission() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let mut left = three(&world, &switchboard).await;
    let mut promised = submitted(&left, 0..50).await;
    for start in [100, 200] {
        let leader = leader(&mut left);
        let (closing, mut tasks) = (leader.log.clone(), tokio::task::JoinSet::new());
        for n in start..start + 50 {
            let (log, wait) = (
                leader.log.clone(),
                Duration::from_millis(n as u64 - start as u64),
            );
            tasks.spawn(async move {
                // The submissions arrive one after the other. The leader stops before, between or
                // after them, with the same result.
                tokio::time::sleep(wait).await;
                let submission = Submission::number(n);
                let sct = submission.to(&log).await;
                (n, submission, sct)
            });
        }
        // The leader stops while some submissions are in progress: see above.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let others = submitted(&left, start + 50..start + 100);
        let closed = leader
            .runtime
            .as_ref()
            .unwrap()
            .spawn(async move { closing.shutdown().await });
        promised.extend(others.await);
        for (n, submission, sct) in tasks.join_all().await {
            match sct {
                Ok(sct) => promised.push((submission, place(&sct))),
                // Submissions after the end get this error. A real process accepts no connections
                // then.
                Err(SubmitError::Unavailable(_)) if leader.log.state() == State::Closed => {}
                Err(error) => panic!("{n}: {error}"),
            }
        }
        closed.await.unwrap();
        assert_eq!(leader.log.state(), State::Closed);
        left.push(Instance::start(
            &world,
            &switchboard,
            &format!("new{start}:1"),
        ));
        settled(&left).await;
        agree(&left, &promised).await;
    }
}

/// A log is removed from a process whose clients keep their connections.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_closed_although_its_clients_continue() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let mut instances = vec![
        Instance::start(&world, &switchboard, "a:1"),
        Instance::start(&world, &switchboard, "b:1"),
    ];
    settled(&instances).await;
    let leading = leader(&mut instances);
    let log = &instances[0].log;
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..4_usize {
        let log = log.clone();
        clients.spawn(async move {
            let mut promised = Vec::new();
            let mut n = 1000 * client;
            while log.state() != State::Closed {
                let submission = Submission::number(n);
                match submission.to(&log).await {
                    Ok(sct) => promised.push((submission, place(&sct))),
                    // The pace of a client that retries.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
                n += 1;
            }
            promised
        });
    }
    until("a client has an SCT", || {
        log.published().is_some_and(|published| published.size > 0)
    })
    .await;
    let closing = log.clone();
    let runtime = instances[0].runtime.as_ref().unwrap();
    let closed = runtime.spawn(async move { closing.shutdown().await });
    until("the log is closed", || log.state() == State::Closed).await;
    closed.await.unwrap();
    let promised = clients.join_all().await.concat();
    agree(std::slice::from_ref(&leading), &promised).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_paused_follows_when_it_wakes() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let mut others = three(&world, &switchboard).await;
    let mut promised = submitted(&others, 0..50).await;
    let paused = leader(&mut others);
    paused.gate.send_replace(false);
    let late = {
        let log = paused.log.clone();
        tokio::spawn(async move {
            let submission = Submission::number(5000);
            let sct = persistently(&log, &submission).await;
            (submission, place(&sct))
        })
    };
    promised.extend(submitted(&others, 50..150).await);
    assert!(others.iter().any(Instance::leads));
    paused.gate.send_replace(true);
    promised.push(late.await.unwrap());
    others.push(paused);
    settled(&others).await;
    promised.extend(submitted(&others, 150..250).await);
    agree(&others, &promised).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_configuration_is_named_and_nothing_of_it_is_taken() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let leader = Instance::start(&world, &switchboard, "a:1");
    until("it leads", || leader.leads()).await;
    let other = Instance::start_with(&world, &switchboard, "b:1", |config| {
        config.policy.reject_expired = true;
    });
    reached(&other.log, follows).await;
    let refused = Submission::number(1).to(&other.log).await;
    assert!(
        matches!(refused, Err(SubmitError::Unavailable(_))),
        "{refused:?}"
    );
    let said = trouble(&other.log).await.unwrap();
    assert!(
        said.contains("a:1") && said.contains("another configuration"),
        "{said}"
    );
    persistently(&leader.log, &Submission::number(2)).await;
    audit(&leader.log).await;
}

/// Old entries that a follower forwards wait for the leader. Fresh entries do not wait for these
/// old entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_forwards_each_lane_by_itself() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let start = |name| {
        Instance::start_with(&world, &switchboard, name, |config| {
            config.rounds.period = Duration::from_millis(300);
            config.rounds.lanes.old_pool = Some(4);
        })
    };
    let mut instances = vec![start("a:1"), start("b:1")];
    settled(&instances).await;
    let _leader = leader(&mut instances);
    let follower = &instances[0].log;
    let all = |submissions: Vec<Submission>| -> Vec<_> {
        let each = submissions.into_iter();
        each.map(|submission| spawn(follower, submission)).collect()
    };
    let old = all((0..60).map(Submission::old).collect());
    let fresh = all((0..10).map(Submission::number).collect());
    for task in fresh {
        task.await.unwrap().unwrap();
    }
    let (taken, refused) = old_ones(old).await;
    assert!(taken > 0 && refused > 0, "{taken}, {refused}");
}

//! A follower names the true reason of its trouble, in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::LogId;
use lucarne_log::{Messenger, MessengerError, State, SubmitError, Unavailable};
use lucarne_storage::memory::Operation;
use lucarne_storage::{AssetError, Lease};
use lucarne_testkit::{eventually, in_time, until};
use tokio::sync::watch;

use super::{
    Instance, Switchboard, follower_of_nobody, follows, hand_over, trouble, troubled, two,
    untroubled,
};
use crate::fixture::{Submission, World, audit, persistently, reached};

/// A switchboard that delivers no message while its gate is closed.
#[derive(Debug)]
struct Silent {
    switchboard: Switchboard,
    open: watch::Receiver<bool>,
}

#[async_trait]
impl Messenger for Silent {
    async fn ask(
        &self,
        address: &str,
        log: LogId,
        message: Bytes,
    ) -> Result<Bytes, MessengerError> {
        let mut open = self.open.clone();
        let _ = open.wait_for(|open| *open).await;
        self.switchboard.ask(address, log, message).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_does_not_respond_is_named_within_seconds() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let (gate, open) = watch::channel(false);
    let instances = two(&world, &switchboard, |config| {
        let switchboard = switchboard.clone();
        config.instances.as_mut().unwrap().messenger = Arc::new(Silent { switchboard, open });
    })
    .await;
    let log = &instances[1].log;
    let submission = Submission::number(0);
    let refused = in_time("a refusal", submission.to(log)).await;
    match refused {
        Err(SubmitError::Unavailable(Unavailable::LeaderSilent)) => {}
        other => panic!("{other:?}"),
    }
    troubled(log, "a:1 has not responded").await;
    gate.send_replace(true);
    persistently(log, &submission).await;
    untroubled(log).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_with_the_same_address_is_named() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let leader = Instance::start(&world, &switchboard, "a:1");
    until("it leads", || leader.leads()).await;
    let follower = Instance::start(&world, &switchboard, "a:1");
    troubled(&follower.log, "has the same `address`, a:1").await;
    assert!(trouble(&leader.log).await.is_none());
}

/// Fails all reads of storage while the flag is set.
fn failing_reads(world: &World) -> Arc<AtomicBool> {
    let fails = Arc::new(AtomicBool::new(false));
    let failing = fails.clone();
    world.assets.inject(move |operation| {
        let read = matches!(operation, Operation::Get | Operation::Staged);
        (read && failing.load(SeqCst)).then(|| AssetError::Unavailable {
            action: "read",
            place: "memory".into(),
            detail: "down".into(),
        })
    });
    fails
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_cannot_lead_goes_on_following() {
    let world = World::new().await;
    let id = world.config.key.log_id().0;
    let fails = failing_reads(&world);
    let (held, follower) = follower_of_nobody(&world).await;
    let log = &follower.log;
    fails.store(true, SeqCst);
    hand_over(&held, &world).await;
    eventually("the failed attempt is named", async || {
        let said = trouble(log).await.unwrap_or_default();
        said.contains("cannot take the lead: ") && said.contains("down")
    })
    .await;
    // Another instance takes the released lease, and this instance follows it at once.
    let released = until_released(&world).await;
    let other = Lease {
        holder: Some([2; 16]),
        address: "c:1".into(),
        epoch: released.epoch + 1,
        renewal: 0,
    };
    if released.replace(&other, &*world.lock, &id).await.is_ok() {
        reached(
            log,
            |state| matches!(state, State::Following { leader: Some(leader) } if leader == "c:1"),
        )
        .await;
        hand_over(&other, &world).await;
    }
    fails.store(false, SeqCst);
    reached(log, |state| *state == State::Running).await;
    untroubled(log).await;
}

/// Waits until no instance has the lease, and returns it.
async fn until_released(world: &World) -> Lease {
    let id = world.config.key.log_id().0;
    let mut found = None;
    eventually("the lease is released", async || {
        found = Lease::load(&*world.lock, &id).await.unwrap();
        found.as_ref().is_some_and(|lease| lease.holder.is_none())
    })
    .await;
    found.unwrap()
}

/// A follower that cannot read the published checkpoint is in trouble all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_cannot_read_does_not_recover_between_its_attempts() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let instances = two(&world, &switchboard, |_| {}).await;
    let fails = failing_reads(&world);
    fails.store(true, SeqCst);
    let log = &instances[1].log;
    persistently(&instances[0].log, &Submission::number(0)).await;
    troubled(log, "down").await;
    // Health is read for longer than a dozen attempts to follow.
    for _ in 0..12 {
        assert!(trouble(log).await.is_some());
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    fails.store(false, SeqCst);
    untroubled(log).await;
}

/// The store is slow for one instance only.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_rounds_are_slow_hands_over_once() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let instances = two(&world, &switchboard, |config| {
        // This instance takes the lead only if the leader hands over.
        config.instances.as_mut().unwrap().lease = Duration::from_secs(60);
    })
    .await;
    world.assets.inject(|operation| {
        if operation == Operation::Stage && std::thread::current().name() == Some("a:1") {
            // More than twice the lease of 600 ms.
            std::thread::sleep(Duration::from_millis(1300));
        }
        None
    });
    let [slow, fast] = &instances;
    let mut n = 0;
    // Commits renew the lease. Without them, the lease of 60 s is not renewed in time for `slow`.
    eventually("the other instance leads", async || {
        persistently(&fast.log, &Submission::number(n)).await;
        n += 1;
        fast.leads() && follows(&slow.log.state())
    })
    .await;
    untroubled(&slow.log).await;
    assert_eq!(audit(&fast.log).await.len(), n);
}

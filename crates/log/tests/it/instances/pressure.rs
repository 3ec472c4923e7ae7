//! The Retry-After of a follower depends on the load of the leader.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::LogId;
use lucarne_log::{Messenger, MessengerError, SubmitError};
use lucarne_testkit::{in_time, until};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Instance, Switchboard, settled};
use crate::fixture::{Submission, World, persistently};

/// Batches of old entries that a follower sends at the same time.
const BATCHES: usize = 16;

/// A switchboard with a gate that replaces the load of the leader's pool in each response.
#[derive(Debug)]
struct UnderPressure {
    switchboard: Switchboard,
    depth: u32,
    drain_rate: u32,
    /// Number of messages so far.
    sent: watch::Sender<usize>,
    open: watch::Receiver<bool>,
}

#[async_trait]
impl Messenger for UnderPressure {
    async fn ask(
        &self,
        address: &str,
        log: LogId,
        message: Bytes,
    ) -> Result<Bytes, MessengerError> {
        self.sent.send_modify(|sent| *sent += 1);
        let mut open = self.open.clone();
        let _ = open.wait_for(|open| *open).await;
        let mut response = self.switchboard.ask(address, log, message).await?.to_vec();
        // The load follows 16 bytes of magic and the status.
        response[17..21].copy_from_slice(&self.depth.to_be_bytes());
        response[21..25].copy_from_slice(&self.drain_rate.to_be_bytes());
        Ok(response.into())
    }
}

/// The Retry-After of a full follower is the Retry-After of the whole log.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_follower_says_when_the_leader_will_have_room() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    // The leader keeps its lease if this machine pauses.
    let lease = Duration::from_secs(30);
    let leader = Instance::start_with(&world, &switchboard, "a:1", |config| {
        config.instances.as_mut().unwrap().lease = lease;
    });
    until("it leads", || leader.leads()).await;
    let (sent, mut messages) = watch::channel(0);
    let (gate, open) = watch::channel(true);
    let follower = Instance::start_with(&world, &switchboard, "b:1", |config| {
        config.rounds.lanes.old_pool = Some(1);
        let instances = config.instances.as_mut().unwrap();
        instances.lease = lease;
        instances.messenger = Arc::new(UnderPressure {
            switchboard: switchboard.clone(),
            depth: 2950,
            drain_rate: 100,
            sent,
            open,
        });
    });
    let instances = [leader, follower];
    settled(&instances).await;
    // The first response has the load of the leader.
    persistently(&instances[1].log, &Submission::number(0)).await;

    gate.send_replace(false);
    let mut tasks = JoinSet::new();
    let mut submit = |n| {
        let log = instances[1].log.clone();
        tasks.spawn(async move { Submission::old(n).to(&log).await });
    };
    let before = *messages.borrow_and_update();
    for n in 0..BATCHES {
        submit(n);
        let is_sent = messages.wait_for(|sent| *sent > before + n);
        in_time("a batch of its own", is_sent).await.unwrap();
    }
    // The queue has room for one of these two entries.
    submit(BATCHES);
    submit(BATCHES + 1);
    let first = in_time("a refusal", tasks.join_next()).await.unwrap();
    match first.unwrap() {
        Err(SubmitError::Full {
            retry_after_seconds,
            ..
        }) => assert_eq!(retry_after_seconds, 30),
        other => panic!("{other:?}"),
    }
    gate.send_replace(true);
    let rest = in_time("the others", tasks.join_all()).await;
    assert_eq!(rest.len(), BATCHES + 1);
    rest.into_iter().for_each(|sct| drop(sct.unwrap()));
}

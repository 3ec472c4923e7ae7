//! The Retry-After of a follower follows from the load of the leader.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::LogId;
use lucarne_log::{Messenger, SubmitError};
use lucarne_testkit::until;

use super::{Instance, Switchboard, settled};
use crate::fixture::{Submission, World, persistently, spawn};

/// A switchboard that replaces the load of the leader's pool in each response.
#[derive(Debug)]
struct UnderPressure {
    switchboard: Switchboard,
    depth: u32,
    drain_rate: u32,
}

#[async_trait]
impl Messenger for UnderPressure {
    async fn ask(&self, address: &str, log: LogId, message: Bytes) -> Result<Bytes, String> {
        let mut answer = self.switchboard.ask(address, log, message).await?.to_vec();
        // Behind 16 bytes of magic and the status.
        answer[17..21].copy_from_slice(&self.depth.to_be_bytes());
        answer[21..25].copy_from_slice(&self.drain_rate.to_be_bytes());
        Ok(answer.into())
    }
}

/// The queue of a follower is full: its Retry-After is that of the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_follower_says_when_the_leader_will_have_room() {
    let (world, switchboard) = (World::new().await, Switchboard::default());
    let leader = Instance::start(&world, &switchboard, "a:1");
    until("it leads", || leader.leads()).await;
    let follower = Instance::start_with(&world, &switchboard, "b:1", |config| {
        config.pool_size = 1;
        let instances = config.instances.as_mut().unwrap();
        instances.messenger = Arc::new(UnderPressure {
            switchboard: switchboard.clone(),
            depth: 2950,
            drain_rate: 100,
        });
    });
    let instances = [leader, follower];
    settled(&instances).await;
    let follower = &instances[1].log;
    // The first response has the load of the leader.
    persistently(follower, &Submission::number(0)).await;
    let tasks: Vec<_> = (1..400)
        .map(|n| spawn(follower, Submission::number(n)))
        .collect();
    let (mut taken, mut waits) = (0, Vec::new());
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => taken += 1,
            Err(SubmitError::Full {
                retry_after_seconds,
                ..
            }) => waits.push(retry_after_seconds),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(taken > 0 && !waits.is_empty(), "{taken}, {waits:?}");
    assert!(waits.iter().all(|wait| *wait == 30), "{waits:?}");
}

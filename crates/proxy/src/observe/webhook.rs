//! Webhook: sends the events of the inventory, one at a time, with a bounded number of attempts.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lucarne_mint::now_ms;
use lucarne_net::Client;
use url::Url;

use super::inventory::{Event, Inventory, Outcome, next_event, settle_event};

/// Limit of the attempts for one event.
const ATTEMPTS: u32 = 8;
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// Longest wait between two queries for events.
const LOOK: Duration = Duration::from_secs(60);

pub(crate) struct Webhook {
    pub(crate) url: Url,
    pub(crate) client: Client,
    pub(crate) inventory: Weak<Inventory>,
    /// Pause after the first failed attempt. Each further pause is four times as long.
    pub(crate) pause: Duration,
}

impl Webhook {
    /// Sends events until the inventory is dropped.
    pub(crate) async fn run(self) {
        // The outcome that the database does not have yet.
        let mut unsettled: Option<Arc<(String, Outcome)>> = None;
        while let Some(inventory) = self.inventory.upgrade() {
            if let Some(outcome) = unsettled.take() {
                let kept = outcome.clone();
                let settle = move |_: &Inventory, db: &_| settle_event(db, &kept.0, &kept.1);
                // Without the outcome, the event would be sent again.
                if inventory.run(settle).await.is_none() {
                    unsettled = Some(outcome);
                    drop(inventory);
                    tokio::time::sleep(self.pause).await;
                    continue;
                }
            }
            let wait = match inventory.run(|_, db| next_event(db)).await.flatten() {
                Some((at, event)) => match u64::try_from(at).unwrap_or(0).checked_sub(now_ms()) {
                    None | Some(0) => {
                        let outcome = self.send(&event).await;
                        unsettled = Some(Arc::new((event.id, outcome)));
                        continue;
                    }
                    Some(ms) => Duration::from_millis(ms).min(LOOK),
                },
                None => LOOK,
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = inventory.wake.notified() => {}
            }
        }
    }

    async fn send(&self, event: &Event) -> Outcome {
        let sent = self
            .client
            .post_json(self.url.as_str(), event.body.clone())
            .await;
        let why = match sent {
            Ok(response) if response.status.is_success() => return Outcome::Sent,
            Ok(response) => response.status.to_string(),
            Err(error) => error.to_string(),
        };
        if event.tries + 1 >= ATTEMPTS {
            return Outcome::GivenUp(why);
        }
        let pause = self
            .pause
            .saturating_mul(1 << (2 * event.tries))
            .min(LONGEST_PAUSE);
        let pause = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let at = now_ms().saturating_add(pause);
        Outcome::Again(i64::try_from(at).unwrap_or(i64::MAX), why)
    }
}

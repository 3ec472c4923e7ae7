//! The newest checkpoint that any instance has shown, for readers of this instance.
//!
//! A balancer sends the requests of one reader to several instances. The reader must not get an
//! older checkpoint after a newer one, and must get the tiles of a checkpoint from every instance.
//! A follower polls several times a second, so it may be behind the leader. Before it responds with
//! its checkpoint, or with 404 for a tile, the follower therefore reads the published checkpoint
//! from storage. The leader knows that its own checkpoint is the newest, unless it publishes a
//! checkpoint at this moment, or may have lost the lease without noticing.

use std::time::Duration;

use lucarne_storage::AssetError;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{Fatal, ReadError};
use crate::recovery::recover;
use crate::shared::Shared;
use crate::shared::instance::Look;

/// Minimum time between the starts of two reads: at most 20 requests a second to the store for
/// each log, however many clients read.
const INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of a read. A reader waits no longer for storage that does not respond.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

impl Shared {
    /// Reads the published checkpoint for readers, unless this process surely has the newest one.
    /// Readers that wait at the same time share one read, which begins after the last of them has
    /// arrived. Therefore a reader never gets an older checkpoint than any instance has shown
    /// before.
    ///
    /// # Errors
    /// If storage cannot be read: another instance may have shown a newer checkpoint.
    pub(crate) async fn look_for_newest(&self) -> Result<(), ReadError> {
        if self.config.instances.is_none() || self.instance.has_newest() {
            return Ok(());
        }
        let asked = Instant::now();
        let mut look = self.instance.look.lock().await;
        if let Some((begun, result)) = &look.done
            && *begun >= asked
        {
            return result.clone();
        }
        if let Some(begun) = look.begun {
            // The pace of the requests to the store.
            sleep_until(begun + INTERVAL).await;
        }
        let begun = Instant::now();
        look.begun = Some(begun);
        let read = timeout(LOOK_TIMEOUT, self.show_newer()).await;
        let result = read.unwrap_or_else(|_| Err(self.is_silent()));
        *look = Look {
            begun: Some(begun),
            done: Some((begun, result.clone())),
        };
        result
    }

    /// Shows the published checkpoint to readers if it is newer than the checkpoint that they see.
    async fn show_newer(&self) -> Result<(), ReadError> {
        let published = match recover::published(&self.config, &*self.assets).await {
            Ok(published) => published,
            Err(Fatal::Storage(error)) => return Err(error.into()),
            Err(fatal) => {
                return Err(ReadError::Damaged {
                    path: "checkpoint".into(),
                    problem: fatal.to_string(),
                });
            }
        };
        if let Some(published) = published
            && self.reader.show_ahead(published.published())
        {
            // A follower gets the new tree, with its tiles in memory, at once.
            self.instance.nudge.notify_one();
        }
        Ok(())
    }

    fn is_silent(&self) -> ReadError {
        ReadError::from(AssetError::Unavailable {
            action: "read",
            place: format!("{}/checkpoint", self.assets.location()),
            detail: "no response in time".into(),
        })
    }
}

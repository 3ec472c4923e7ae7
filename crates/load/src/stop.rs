//! Being asked to stop.

use tokio::sync::watch;

/// Tells a task that it is time to stop. Clones hear of it too.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// The other end of a [`Stop`]. Dropping it stops, too.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stop {
    /// A pair of a stopper and what it stops.
    pub fn new() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(receiver))
    }

    /// Returns whether it is time.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits until it is time.
    pub async fn cancelled(&self) {
        let mut receiver = self.0.clone();
        // An error means that nobody is left to stop us.
        let _ = receiver.wait_for(|stopped| *stopped).await;
    }
}

impl Stopper {
    /// Announces that it is time.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

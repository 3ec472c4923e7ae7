//! Cancellation of background tasks.

use tokio::sync::watch;

/// Signal for a task to stop. Clones share the signal.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Sender of a [`Stop`]. Dropping the stopper sends the signal, too.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stop {
    /// Creates a stopper with its signal.
    pub fn new() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(receiver))
    }

    /// Returns whether the task must stop.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits for the signal.
    pub async fn cancelled(&self) {
        let mut receiver = self.0.clone();
        // An error means that the stopper was dropped.
        let _ = receiver.wait_for(|stopped| *stopped).await;
    }
}

impl Stopper {
    /// Sends the signal.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

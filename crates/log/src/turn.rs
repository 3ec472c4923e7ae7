//! The turn of this process to run a log that another one still runs.

use tokio::sync::watch;

/// The turn of a process to run its logs. Until it comes, another process runs them, and
/// this one does no more than read what that one publishes.
#[derive(Clone, Debug)]
pub struct Turn(watch::Receiver<bool>);

/// Gives all logs of this process their turn.
#[derive(Debug)]
pub struct GiveTurn(watch::Sender<bool>);

impl Turn {
    /// A turn that has come: nobody else runs the logs.
    pub fn now() -> Self {
        let (give, turn) = Turn::later();
        give.give();
        turn
    }

    /// A turn that comes when it is given.
    pub fn later() -> (GiveTurn, Self) {
        let (give, turn) = watch::channel(false);
        (GiveTurn(give), Turn(turn))
    }

    /// Returns true if it has come.
    pub fn has_come(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it comes; for ever if it never does.
    pub async fn comes(&self) {
        if self.0.clone().wait_for(|come| *come).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl GiveTurn {
    /// Gives it.
    pub fn give(&self) {
        self.0.send_replace(true);
    }
}

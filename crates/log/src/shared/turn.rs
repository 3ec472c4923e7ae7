//! The turn of this process to run a log that another process still runs.

use tokio::sync::watch;

/// The turn of this process to run its logs. Before the turn comes, another process runs the logs,
/// and this process only reads the published files.
#[derive(Clone, Debug)]
pub struct Turn(watch::Receiver<bool>);

/// Gives all logs of this process their turn.
#[derive(Debug)]
pub struct GiveTurn(watch::Sender<bool>);

impl Turn {
    /// Creates a turn that has come: no other process runs the logs.
    pub fn now() -> Self {
        let (give, turn) = Turn::later();
        give.give();
        turn
    }

    /// Creates a turn that comes when [`GiveTurn::give`] is called.
    pub fn later() -> (GiveTurn, Self) {
        let (give, turn) = watch::channel(false);
        (GiveTurn(give), Turn(turn))
    }

    /// Returns whether the turn has come.
    pub fn has_come(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the turn comes, forever if the turn is never given.
    pub async fn comes(&self) {
        if self.0.clone().wait_for(|come| *come).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl GiveTurn {
    /// Lets the logs run: no other process runs them any more.
    pub fn give(&self) {
        self.0.send_replace(true);
    }
}

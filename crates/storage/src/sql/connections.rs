//! Connections to a server, kept for the next statement.
//!
//! Not sqlx's pool: it tries again whatever fails while connecting, and then
//! says that it timed out instead of why; and it would ask the server before
//! each statement whether it is there.

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// As many logs commit at the same time. A server takes 100 or 150 connections
/// unless told otherwise, and other instances have theirs.
const MOST: usize = 16;

/// Connections that nobody uses now, and a bound on all that are open.
pub(super) struct Connections<C> {
    idle: Mutex<Vec<C>>,
    slots: Semaphore,
}

/// The right to use one connection.
pub(super) struct Slot<'c, C> {
    idle: &'c Mutex<Vec<C>>,
    _permit: SemaphorePermit<'c>,
}

impl<C> Connections<C> {
    pub(super) fn new() -> Self {
        Self {
            idle: Mutex::default(),
            slots: Semaphore::new(MOST),
        }
    }

    /// Waits until fewer than [`MOST`] are in use.
    pub(super) async fn slot(&self) -> Option<Slot<'_, C>> {
        let permit = self.slots.acquire().await.ok()?;
        Some(Slot {
            idle: &self.idle,
            _permit: permit,
        })
    }

    /// Drops those that nobody uses: the server has gone, and they with it.
    pub(super) fn clear(&self) {
        self.take_all();
    }

    /// Lets nobody have one again.
    pub(super) fn close(&self) -> Vec<C> {
        self.slots.close();
        self.take_all()
    }

    fn take_all(&self) -> Vec<C> {
        std::mem::take(&mut *self.idle.lock())
    }
}

impl<C> Slot<'_, C> {
    /// One that was used before, if there is any.
    pub(super) fn take(&self) -> Option<C> {
        self.idle.lock().pop()
    }

    /// Keeps one for the next: only after an answer that was read to its end.
    pub(super) fn keep(self, connection: C) {
        self.idle.lock().push(connection);
    }
}

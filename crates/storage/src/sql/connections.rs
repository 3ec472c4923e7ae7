//! Connections to a server, kept for the next statement.
//!
//! This module replaces sqlx's pool, which retries every failed connection attempt and then reports
//! a timeout instead of the reason. sqlx's pool would also ping the server before each statement.

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Maximum number of connections, and so of concurrent commits. A server accepts 100 or 150
/// connections by default, and other instances need connections, too.
const MAX_CONNECTIONS: usize = 16;

/// The idle connections, and a bound on the number of open connections.
pub(super) struct Connections<C> {
    idle: Mutex<Vec<C>>,
    slots: Semaphore,
}

/// The permission to use one connection.
pub(super) struct Slot<'c, C> {
    idle: &'c Mutex<Vec<C>>,
    _permit: SemaphorePermit<'c>,
}

impl<C> Connections<C> {
    pub(super) fn new() -> Self {
        Self {
            idle: Mutex::default(),
            slots: Semaphore::new(MAX_CONNECTIONS),
        }
    }

    /// Waits until fewer than [`MAX_CONNECTIONS`] connections are in use; returns `None` after
    /// [`close`](Self::close).
    pub(super) async fn slot(&self) -> Option<Slot<'_, C>> {
        let permit = self.slots.acquire().await.ok()?;
        Some(Slot {
            idle: &self.idle,
            _permit: permit,
        })
    }

    /// Drops idle connections, because the server has closed them.
    pub(super) fn clear(&self) {
        self.take_all();
    }

    /// Prevents all further use and returns the idle connections.
    pub(super) fn close(&self) -> Vec<C> {
        self.slots.close();
        self.take_all()
    }

    fn take_all(&self) -> Vec<C> {
        std::mem::take(&mut *self.idle.lock())
    }
}

impl<C> Slot<'_, C> {
    /// Returns an idle connection; `None` if a new connection must be opened.
    pub(super) fn take(&self) -> Option<C> {
        self.idle.lock().pop()
    }

    /// Keeps a connection for the next caller. The last response on the connection must have been
    /// read completely.
    pub(super) fn keep(self, connection: C) {
        self.idle.lock().push(connection);
    }
}

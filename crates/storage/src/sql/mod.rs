//! [`SqlLock`].

use async_trait::async_trait;

use crate::{Lock, LockError, LogId};

/// A lock in an SQL database.
pub struct SqlLock {}

#[allow(clippy::todo, unused_variables)]
impl SqlLock {
    /// Opens an existing lock database: a path, or `sqlite:<path>`.
    pub async fn open(place: &str) -> Result<Self, LockError> {
        todo!()
    }

    /// Makes a lock database that does not exist yet, readable by its owner only.
    pub async fn create(place: &str) -> Result<Self, LockError> {
        todo!()
    }
}

#[allow(clippy::todo, unused_variables)]
#[async_trait]
impl Lock for SqlLock {
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        todo!()
    }
    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError> {
        todo!()
    }
    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError> {
        todo!()
    }
    async fn check(&self) -> Result<(), LockError> {
        todo!()
    }
    fn location(&self) -> String {
        todo!()
    }
}

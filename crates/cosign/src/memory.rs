//! The logs of lists, kept in the lock, so that a list that is unavailable at a start removes no
//! log.
//!
//! The value is the one of Sunlight, so that both programs know the same logs, one after the
//! other. Public keys of CT logs are in a field of their own, which Sunlight ignores.

use std::sync::Arc;

use lucarne_storage::LockError;
use serde_json::{Map, Value, json};

use crate::logs::{ListedLog, TrustedKey};
use crate::witness::Witness;

/// Kind of the key in the lock.
const KIND: &str = "witness config\n";

/// The logs with verifier keys: a map from origins to objects.
const LOGS: &str = "log_meta";

/// The keys of a log in its object of [`LOGS`].
const KEYS: &str = "Verifiers";

/// The public keys of static CT logs: a map from origins to texts.
const CT_LOGS: &str = "ct_logs";

/// Number of attempts to replace a value that other processes replace at the same time.
const ATTEMPTS: usize = 8;

/// The reason and remedy for a lock without the value of this witness.
pub(crate) const NO_STATE: &str = "the lock has no state of this witness: restore the newest lock, \
     or, if the name has never cosigned, run `lucarne init`";

/// The reasons why the logs are not read or stored.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The lock failed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The value is not JSON.
    #[error("the list of known logs in the lock is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
    /// The lock was lost, or the witness was never created.
    #[error("{NO_STATE}")]
    NoState,
}

impl Witness {
    /// Creates the value of a witness that has never cosigned. Returns `false` if the value exists.
    ///
    /// # Errors
    /// If the lock fails.
    pub async fn create(&self) -> Result<bool, LockError> {
        match self.lock().create(&self.lock_key(KIND, ""), b"{}").await {
            Ok(()) => Ok(true),
            Err(LockError::Exists { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the lock has the value of this witness. Without the value, the records of
    /// the witness may be lost: it must not cosign.
    ///
    /// # Errors
    /// If the lock fails.
    pub async fn exists(&self) -> Result<bool, LockError> {
        Ok(self.lock().load(&self.lock_key(KIND, "")).await?.is_some())
    }

    /// Returns the logs of earlier lists with their keys. Keys that cannot be used are left out.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn remembered(&self) -> Result<Vec<ListedLog>, MemoryError> {
        let stored = self.lock().load(&self.lock_key(KIND, "")).await?;
        Ok(logs(&parse(&stored.ok_or(MemoryError::NoState)?)?))
    }

    /// Adds logs to those that [`remembered`](Self::remembered) returns. Known logs stay as they
    /// are.
    ///
    /// # Errors
    /// [`MemoryError`].
    pub async fn remember(&self, added: &[ListedLog]) -> Result<(), MemoryError> {
        let lock_key = self.lock_key(KIND, "");
        let mut attempts = 0;
        loop {
            let stored = self.lock().load(&lock_key).await?;
            let old = stored.ok_or(MemoryError::NoState)?;
            let mut value = parse(&old)?;
            if !add(&mut value, added) {
                return Ok(());
            }
            let new = serde_json::to_vec(&value)?;
            match self.lock().replace(&lock_key, &old, &new).await {
                Err(LockError::Conflict { .. }) if attempts < ATTEMPTS => attempts += 1,
                swapped => return Ok(swapped?),
            }
        }
    }
}

fn parse(stored: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    match stored {
        [] => Ok(Map::new()),
        json => serde_json::from_slice(json),
    }
}

fn logs(value: &Map<String, Value>) -> Vec<ListedLog> {
    let map = |name: &str| value.get(name).and_then(Value::as_object);
    let mut texts = Vec::new();
    for (origin, log) in map(LOGS).into_iter().flatten() {
        let keys = log.get(KEYS).and_then(Value::as_array);
        texts.extend(keys.into_iter().flatten().map(|key| (origin, key)));
    }
    texts.extend(map(CT_LOGS).into_iter().flatten());
    let parsed = texts.into_iter().filter_map(|(origin, key)| {
        let key = TrustedKey::parse(origin, key.as_str()?).ok()?;
        Some((origin.clone(), Arc::new(key)))
    });
    parsed.collect()
}

/// Adds the logs that the value does not have. Returns whether there are any.
fn add(value: &mut Map<String, Value>, added: &[ListedLog]) -> bool {
    let mut is_changed = false;
    for (origin, key) in added {
        let (name, log) = match &**key {
            TrustedKey::Note(key) => (LOGS, json!({KEYS: [key.to_string()], "Mirror": false})),
            TrustedKey::Ct(_) => (CT_LOGS, json!(key.to_string())),
        };
        let map = value.entry(name).or_insert_with(|| json!({}));
        if let Some(map) = map.as_object_mut()
            && !map.contains_key(origin)
        {
            map.insert(origin.clone(), log);
            is_changed = true;
        }
    }
    is_changed
}

//! Pool of keys that are slow to generate.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Release},
};

use parking_lot::Mutex;

use crate::{KeyPair, KeyType, MintError};

/// A few keys that were generated in advance, because their generation takes longer than a client
/// should wait. Each key is used once.
#[derive(Debug)]
pub(super) struct KeyPool {
    kind: KeyType,
    size: usize,
    ready: Mutex<VecDeque<KeyPair>>,
    filling: AtomicBool,
}

impl KeyPool {
    /// Creates a pool, which stays empty for kinds that are generated in microseconds.
    pub(super) fn new(kind: KeyType, size: usize) -> Arc<Self> {
        let slow = matches!(kind, KeyType::Rsa(_));
        Arc::new(KeyPool {
            kind,
            size: if slow { size } else { 0 },
            ready: Mutex::default(),
            filling: AtomicBool::new(false),
        })
    }

    /// Takes an unused key from the pool, or generates one. Blocks.
    ///
    /// # Errors
    /// If the kind cannot be generated.
    pub(super) fn take(self: &Arc<Self>) -> Result<KeyPair, MintError> {
        let ready = self.ready.lock().pop_front();
        self.fill();
        ready.map_or_else(|| KeyPair::generate(self.kind), Ok)
    }

    /// Fills the pool on a separate thread. At most one thread runs at a time.
    pub(super) fn fill(self: &Arc<Self>) {
        if self.ready.lock().len() >= self.size || self.filling.swap(true, AcqRel) {
            return;
        }
        let pool = Arc::downgrade(self);
        let fill = move || {
            // The owner may drop the pool in the meantime.
            while let Some(pool) = pool.upgrade() {
                let made = KeyPair::generate(pool.kind).ok();
                // If the generation fails, the next caller of `take` receives the error.
                let failed = made.is_none();
                let mut ready = pool.ready.lock();
                ready.extend(made);
                if failed || ready.len() >= pool.size {
                    pool.filling.store(false, Release);
                    return;
                }
            }
        };
        let spawned = std::thread::Builder::new()
            .name("mint-keys".to_owned())
            .spawn(fill);
        if spawned.is_err() {
            self.filling.store(false, Release);
        }
    }
}

//! Keys that are slow to make, made before they are asked for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Release},
};

use parking_lot::Mutex;

use crate::{KeyPair, KeyType, MintError};

/// A few keys in store, for a kind that takes longer to make than a client
/// likes to wait. Each is given out once.
#[derive(Debug)]
pub(super) struct KeyPool {
    kind: KeyType,
    size: usize,
    ready: Mutex<VecDeque<KeyPair>>,
    filling: AtomicBool,
}

impl KeyPool {
    /// For kinds that are made in microseconds the pool stays empty.
    pub(super) fn new(kind: KeyType, size: usize) -> Arc<Self> {
        let slow = matches!(kind, KeyType::Rsa(_));
        Arc::new(KeyPool {
            kind,
            size: if slow { size } else { 0 },
            ready: Mutex::default(),
            filling: AtomicBool::new(false),
        })
    }

    /// A key that nobody had, from the pool or made now. Blocks.
    ///
    /// # Errors
    /// A kind that cannot be made.
    pub(super) fn take(self: &Arc<Self>) -> Result<KeyPair, MintError> {
        let ready = self.ready.lock().pop_front();
        self.fill();
        ready.map_or_else(|| KeyPair::generate(self.kind), Ok)
    }

    /// Has the pool filled by a thread of its own, one at a time.
    pub(super) fn fill(self: &Arc<Self>) {
        if self.ready.lock().len() >= self.size || self.filling.swap(true, AcqRel) {
            return;
        }
        let pool = Arc::downgrade(self);
        let fill = move || {
            // Whoever has the pool may let go of it meanwhile.
            while let Some(pool) = pool.upgrade() {
                let made = KeyPair::generate(pool.kind).ok();
                // If none can be made, whoever asks for one is told why.
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

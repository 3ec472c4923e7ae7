//! Tests of the witness with logs in memory.
#![allow(clippy::unwrap_used)]

mod add_checkpoint;
mod evidence;
mod lists;
mod mirror;
mod mirror_crashes;
mod mirror_pull;
mod sign_subtree;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use lucarne_cosign::{AddCheckpoint, LogKeys, TrustedKey, Witness};
use lucarne_storage::{Lock, LockError, LogId, MemoryLock, StoreDate};
use lucarne_testkit::{PushedLog, SignedLog as Log};
use lucarne_tlog::*;
use tokio::sync::Barrier;

const ORIGIN: &str = "log.example/2026h2";
const NOW: u64 = 1_790_000_000;

fn cosigners() -> Vec<Cosigner> {
    let name = "witness.example/w1";
    let [old, new] = [Cosigner::ed25519, Cosigner::ml_dsa_44];
    vec![old(name, &[2; 32]).unwrap(), new(name, &[3; 32]).unwrap()]
}

/// Returns a witness of the logs with these origins.
fn witness(origins: &[&str], lock: impl Lock) -> Witness {
    witness_of(origins, Arc::new(lock))
}

fn witness_of(origins: &[&str], lock: Arc<dyn Lock>) -> Witness {
    Witness::new(cosigners(), known(origins), lock).unwrap()
}

fn known(origins: &[&str]) -> LogKeys {
    let mut logs = LogKeys::default();
    for origin in origins {
        let key = Log::new(origin, 0).key.verifier().clone();
        logs.add(origin, TrustedKey::Note(key));
    }
    logs
}

/// Returns the key of a log's record in the lock.
fn record_key(origin: &str) -> [u8; 32] {
    witness(&[], memory()).record_key(origin)
}

/// Returns the recorded checkpoint of the log.
async fn recorded(witness: &Witness) -> Option<String> {
    let recorded = witness.checkpoint(ORIGIN).await.unwrap();
    recorded.map(|note| note.encode())
}

async fn send(
    witness: &Witness,
    request: &AddCheckpoint,
) -> Result<Vec<NoteSignature>, lucarne_cosign::Refusal> {
    let request = AddCheckpoint::parse(request.to_string().as_bytes())?;
    witness.add_checkpoint(&request, NOW).await
}

/// Verifies that the note with these lines has a cosignature of each key, and returns their time.
fn cosigned(text: &str, signatures: &[NoteSignature]) -> u64 {
    let (text, signatures) = (text.to_owned(), signatures.to_vec());
    let note = SignedNote { text, signatures };
    let times = cosigners()
        .iter()
        .map(|key| key.verifier().verify(&note).unwrap().unwrap())
        .max();
    times.unwrap()
}

fn memory() -> MemoryLock {
    MemoryLock::new()
}

/// A lock whose first two reads wait for each other, after `reads` was set to 0.
struct Racing {
    lock: MemoryLock,
    reads: AtomicUsize,
    both: Barrier,
    before_replace: Box<dyn Fn() + Send + Sync>,
}

impl Racing {
    fn new(lock: MemoryLock, before_replace: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            lock,
            reads: AtomicUsize::new(2),
            both: Barrier::new(2),
            before_replace: Box::new(before_replace),
        }
    }
}

#[async_trait]
impl Lock for Racing {
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        let loaded = self.lock.load(log).await;
        if self.reads.fetch_add(1, Ordering::SeqCst) < 2 {
            self.both.wait().await;
        }
        loaded
    }

    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError> {
        self.lock.create(log, body).await
    }

    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError> {
        (self.before_replace)();
        self.lock.replace(log, old, new).await
    }

    async fn check(&self) -> Result<(), LockError> {
        self.lock.check().await
    }

    async fn date(&self) -> Result<Option<StoreDate>, LockError> {
        self.lock.date().await
    }

    fn location(&self) -> String {
        self.lock.location()
    }
}

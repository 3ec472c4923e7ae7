//! Certificates in memory.

use std::sync::Arc;

use super::{
    CertificateStore, Generate, LayeredStore, NoStore, Outcome, StoreKey, StoreOptions, StoreStats,
};

/// Keeps certificates in memory, within a bound; those that are asked for
/// least go first (and a rush of names that are asked for once does not drive
/// out those in use).
#[derive(Debug)]
pub struct MemoryStore(LayeredStore);

impl MemoryStore {
    /// An empty one.
    pub fn new(options: StoreOptions) -> Self {
        let none = Arc::new(NoStore::new(&options));
        MemoryStore(LayeredStore::new(options, none))
    }
}

#[async_trait::async_trait]
impl CertificateStore for MemoryStore {
    async fn fetch(&self, key: &StoreKey, generate: Generate) -> Outcome {
        self.0.fetch(key, generate).await
    }

    fn stats(&self) -> StoreStats {
        self.0.stats()
    }
}

//! Certificate store in memory.

use std::sync::Arc;

use super::{
    CertificateStore, Generate, LayeredStore, NoStore, Outcome, StoreKey, StoreOptions, StoreStats,
};

/// Stores certificates in memory within a limit. The least requested certificates are dropped
/// first. Many names that are requested once do not displace certificates in use.
#[derive(Debug)]
pub struct MemoryStore(LayeredStore);

impl MemoryStore {
    /// Creates an empty store.
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

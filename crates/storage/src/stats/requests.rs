//! Counting and reporting of requests to object stores.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Stats;
use crate::Observer;

impl Stats {
    /// Creates counters that also report requests to `observer`.
    pub(crate) fn observed(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer: Some(observer),
            ..Self::default()
        }
    }

    pub(crate) fn report(&self, what: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.observer {
            what(&**observer);
        }
    }

    pub(crate) fn requested(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn hedged(&self) {
        self.hedges.fetch_add(1, Relaxed);
        self.report(|observer| observer.hedge());
    }
}

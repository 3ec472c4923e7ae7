use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_load::{Note, OwnMetrics, PrepareError, Recorder, Scenario, VirtualUser};

use super::acknowledged::{ACKNOWLEDGED, ENTITY_TAG};
use super::options::S3Options;
use super::read_back;
use super::shared_state::{SharedState, WRITTEN};
use super::user::{DELETED, S3User};
use super::{conditional_put, objects};

/// Builds the scenario from `options`, with `seed` for its random choices.
///
/// # Errors
/// If the options are invalid, or keys are missing.
pub fn build(options: S3Options, seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    Ok(Arc::new(S3(Arc::new(SharedState::new(options, seed)?))))
}

struct S3(Arc<SharedState>);

#[async_trait]
impl Scenario for S3 {
    fn metrics(&self) -> Option<OwnMetrics> {
        Some(&[("cell_seconds", "gauge"), ("object_bytes", "counter")])
    }

    fn checks(&self) -> Option<Vec<&'static str>> {
        Some(vec![
            objects::READY,
            objects::LISTED,
            WRITTEN,
            ACKNOWLEDGED,
            ENTITY_TAG,
            DELETED,
            conditional_put::CHECK,
        ])
    }

    async fn prepare(&self) -> Result<(), PrepareError> {
        let shared = &self.0;
        for (index, store) in shared.stores.iter().enumerate() {
            store.resolve().await?;
            let made = objects::require_bucket(store, shared.options.create_bucket).await?;
            shared.made_bucket[index].store(made, Ordering::Relaxed);
            shared.fill(index).await?;
        }
        Ok(())
    }

    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(S3User::new(self.0.clone(), number, recorder))
    }

    fn purpose(&self) -> &'static str {
        "an operation on an object"
    }

    fn grace(&self) -> Duration {
        // Removing many objects takes time.
        Duration::from_secs(600)
    }

    async fn finish(&self, recorder: Recorder) -> Vec<Note> {
        let shared = &self.0;
        let mut notes = Vec::new();
        notes.extend(shared.tell_cells(&recorder));
        let counts = shared.stores.iter().zip(&shared.counts);
        let lines: Vec<_> = counts
            .filter_map(|(store, counts)| counts.line(&store.name, shared.racers))
            .collect();
        if !lines.is_empty() {
            let title = "Conditional PUT".into();
            notes.push(Note { title, lines });
        }
        notes.extend(read_back::read_back(shared, &recorder).await);
        if !shared.options.keep {
            notes.push(shared.tidy(&recorder).await);
        }
        notes
    }
}

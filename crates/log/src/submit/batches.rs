//! Batches of signatures, which one submission verifies for several submissions.
//!
//! A submission whose signature can share a batch adds the signature here, then yields once to the
//! tasks that are ready to run. The submission that fills a batch verifies the whole batch. If the
//! batch stays incomplete, the first submission that runs again verifies all signatures in it. A
//! submission therefore never waits for submissions that have not arrived yet. Waiting submissions
//! do all the work; a cancelled submission removes its signature.
//!
//! Full batches do not wait. The number of waiting signatures is therefore bounded by one batch for
//! each curve, and each signature has a bounded length. Every log has its own batches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lucarne_ct::KnownSignature;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::yield_now;

/// The signatures of a log that wait for verification.
#[derive(Default)]
pub(crate) struct Batches(Mutex<Vec<Waiting>>);

/// A waiting signature, and a sender. Dropping the sender after the verification notifies the
/// submission.
struct Waiting {
    signature: Arc<KnownSignature>,
    _told: oneshot::Sender<()>,
}

impl Batches {
    /// Returns after the signature was verified together with the waiting signatures of its batch.
    /// The caller must check the result of the signature itself.
    pub(crate) async fn try_beside_others(&self, signature: &Arc<KnownSignature>) {
        let (told, tried) = oneshot::channel();
        let place = Place::take(self, signature, told);
        if !place.is_in_full_batch() {
            yield_now().await;
        }
        match place.batch() {
            // Another thread is verifying this signature.
            batch if batch.is_empty() => drop(tried.await),
            batch => try_all(&batch),
        }
    }
}

/// The place of a waiting signature. Dropping the place removes the signature.
struct Place<'b> {
    batches: &'b Batches,
    signature: &'b Arc<KnownSignature>,
}

impl<'b> Place<'b> {
    fn take(
        batches: &'b Batches,
        signature: &'b Arc<KnownSignature>,
        told: oneshot::Sender<()>,
    ) -> Self {
        batches.0.lock().push(Waiting {
            signature: signature.clone(),
            _told: told,
        });
        Self { batches, signature }
    }

    fn is_in_full_batch(&self) -> bool {
        let waiting = self.batches.0.lock();
        let batch = waiting.iter().filter(|waiting| self.goes_with(waiting));
        batch.count() >= KnownSignature::BATCH
    }

    /// Removes and returns this signature and all signatures of its batch. Returns an empty list if
    /// another thread has taken the batch already.
    fn batch(&self) -> Vec<Waiting> {
        let mut waiting = self.batches.0.lock();
        if !waiting.iter().any(|waiting| self.is_of(waiting)) {
            return Vec::new();
        }
        waiting
            .extract_if(.., |waiting| self.goes_with(waiting))
            .collect()
    }

    fn is_of(&self, waiting: &Waiting) -> bool {
        Arc::ptr_eq(&waiting.signature, self.signature)
    }

    fn goes_with(&self, waiting: &Waiting) -> bool {
        waiting.signature.goes_with(self.signature)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.batches.0.lock();
        waiting.retain(|waiting| !self.is_of(waiting));
    }
}

/// Verifies a batch. Dropping the batch afterwards notifies all submissions. If the verification
/// panics, the signatures count as not tried, and each submission verifies its own signature.
fn try_all(batch: &[Waiting]) {
    let signatures: Vec<_> = batch.iter().map(|it| it.signature.clone()).collect();
    let tried = catch_unwind(AssertUnwindSafe(|| KnownSignature::try_all(&signatures)));
    if tried.is_err() {
        tracing::error!(
            "the verification of a batch of signatures panicked: verifying each \
                         signature alone"
        );
    }
}

#[cfg(test)]
mod tests;

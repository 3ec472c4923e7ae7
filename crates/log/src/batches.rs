//! Batches of signatures, which are verified together by whichever submission comes first.
//!
//! A submission whose signature gains by company leaves it here and lets all others go first that
//! are ready to run. The one that makes a batch full tries all of it; if none does, the first that
//! runs again tries what there is. So nobody waits for company that is not there already, and
//! nothing runs but those who wait: whoever gives up takes its signature along.
//!
//! As full batches do not wait, no more signatures do than a batch of each curve has, and each is
//! of bounded length. Every log has its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lucarne_ct::KnownSignature;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::yield_now;

/// The signatures of a log that wait to be tried.
#[derive(Default)]
pub(crate) struct Batches(Mutex<Vec<Waiting>>);

/// A signature, and what tells its submission, by being dropped, that it has been tried.
struct Waiting {
    signature: Arc<KnownSignature>,
    _told: oneshot::Sender<()>,
}

impl Batches {
    /// Returns once the signature has been tried, beside as many others as are there.
    pub(crate) async fn try_beside_others(&self, signature: &Arc<KnownSignature>) {
        let (told, tried) = oneshot::channel();
        let place = Place::take(self, signature, told);
        if !place.is_in_full_batch() {
            yield_now().await;
        }
        match place.batch() {
            // Another thread has it in hand.
            batch if batch.is_empty() => drop(tried.await),
            batch => try_all(&batch),
        }
    }
}

/// The place of a signature that waits, for as long as its submission does.
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

    /// This signature, and all that go with it. None if somebody has taken it.
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

/// Tries a batch, and tells all by dropping it afterwards. Should that panic, it has not been tried,
/// and each submission tries its own.
fn try_all(batch: &[Waiting]) {
    let signatures: Vec<_> = batch.iter().map(|it| it.signature.clone()).collect();
    let tried = catch_unwind(AssertUnwindSafe(|| KnownSignature::try_all(&signatures)));
    if tried.is_err() {
        tracing::error!("a batch of signatures could not be tried; they are verified one by one");
    }
}

#[cfg(test)]
mod tests;

//! Values that are opened on first use.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// Timeout of a caller. The attempt continues without the caller.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A value that is opened once. Only one attempt runs at a time, and continues if its caller is
/// cancelled. A hung disk is thus opened once for any number of callers.
pub(crate) struct Late<T, E> {
    opened: OnceLock<T>,
    opening: Mutex<Option<JoinHandle<Result<T, E>>>>,
}

impl<T, E> Default for Late<T, E> {
    fn default() -> Self {
        Late {
            opened: OnceLock::new(),
            opening: Mutex::new(None),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Late<T, E> {
    /// Returns the value, if it is open.
    pub(crate) fn get(&self) -> Option<&T> {
        self.opened.get()
    }

    /// Returns the value, and opens it first if necessary.
    ///
    /// # Errors
    /// The error of `open`; the error of `silent` after a timeout.
    pub(crate) async fn get_or_open<F>(
        &self,
        open: impl FnOnce() -> F,
        silent: impl FnOnce() -> E,
    ) -> Result<&T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        if let Some(opened) = self.get() {
            return Ok(opened);
        }
        let waited = tokio::time::timeout(OPEN_TIMEOUT, self.wait_for(open)).await;
        waited.unwrap_or_else(|_| Err(silent()))
    }

    async fn wait_for<F>(&self, open: impl FnOnce() -> F) -> Result<&T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let mut opening = self.opening.lock().await;
        if let Some(opened) = self.get() {
            return Ok(opened);
        }
        let task = opening.get_or_insert_with(|| tokio::spawn(open()));
        let ended = task.await;
        *opening = None;
        match ended {
            Ok(Ok(value)) => Ok(self.opened.get_or_init(|| value)),
            Ok(Err(error)) => Err(error),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn one_attempt_is_under_way_however_many_come_and_leave() {
        let late: Late<&str, &str> = Late::default();
        let (attempts, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let open = || {
            let (attempts, answer) = (attempts.clone(), answer.clone());
            async move {
                attempts.fetch_add(1, SeqCst);
                answer.notified().await;
                Ok("opened")
            }
        };
        for _ in 0..20 {
            let waited = late.get_or_open(open, || "silent");
            let left = tokio::time::timeout(Duration::from_millis(5), waited).await;
            assert!(left.is_err());
        }
        assert_eq!(attempts.load(SeqCst), 1);
        answer.notify_one();
        assert_eq!(
            *late.get_or_open(open, || "silent").await.unwrap(),
            "opened"
        );
        assert_eq!(attempts.load(SeqCst), 1);
    }

    #[tokio::test]
    async fn what_failed_is_tried_again() {
        let late: Late<u8, &str> = Late::default();
        let failed = late.get_or_open(|| async { Err("no") }, || "silent").await;
        assert_eq!(failed.unwrap_err(), "no");
        let opened = late.get_or_open(|| async { Ok(7) }, || "silent").await;
        assert_eq!(*opened.unwrap(), 7);
    }
}

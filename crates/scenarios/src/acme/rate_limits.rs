use std::time::{Duration, Instant};

use lucarne_load::Iteration;
use parking_lot::Mutex;

use super::step::Step;

/// Time at which each step may be requested again, according to the server. Rate limits apply to an
/// account or an address, so all users of a run share them.
#[derive(Debug, Default)]
pub(super) struct RateLimits([Mutex<Option<Instant>>; Step::ALL.len()]);

/// Delay if a response with a rate limit has no valid `Retry-After`, or the wait zero.
const UNTOLD: Duration = Duration::from_secs(5);

impl RateLimits {
    /// Delays all requests of this step for `wait`, which the server requested; `None` and zero
    /// mean [`UNTOLD`].
    pub(super) fn close(&self, step: Step, wait: Option<Duration>) {
        let until = Instant::now() + wait.filter(|wait| !wait.is_zero()).unwrap_or(UNTOLD);
        let mut closed = self.0[step as usize].lock();
        *closed = (*closed).max(Some(until));
    }

    /// Waits until the step may be requested. The wait counts as throttled by the server.
    pub(super) async fn pass(&self, step: Step, iteration: &mut Iteration) {
        loop {
            let until = *self.0[step as usize].lock();
            match until {
                Some(until) if until > Instant::now() => iteration.throttled_until(until).await,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use lucarne_load::Recorder;

    use super::*;

    #[tokio::test]
    async fn a_step_waits_and_the_others_do_not() {
        let (long, short) = (Duration::from_secs(3600), Duration::from_millis(30));
        let limits = RateLimits::default();
        let iteration = &mut Iteration::detached(&Recorder::detached("acme"), 0);
        limits.close(Step::NewOrder, Some(long));
        limits.close(Step::NewOrder, Some(short));
        let nonce = limits.pass(Step::NewNonce, iteration);
        assert!(nonce.now_or_never().is_some());
        let order = limits.pass(Step::NewOrder, iteration);
        assert!(order.now_or_never().is_none());
        let begin = Instant::now();
        limits.close(Step::Finalize, Some(Duration::ZERO));
        let finalize = limits.pass(Step::Finalize, iteration);
        assert!(finalize.now_or_never().is_none());
        limits.close(Step::NewNonce, Some(short));
        limits.pass(Step::NewNonce, iteration).await;
        assert!(begin.elapsed() >= short);
    }
}

//! Sleeping until an instant with a precision of microseconds.

use std::io;
use std::time::Instant;

/// Timer that wakes at an instant. tokio's own timers have a precision of a millisecond.
#[cfg(target_os = "linux")]
pub(crate) struct Timer {
    timer: tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>,
    armed: Option<Instant>,
}

#[cfg(target_os = "linux")]
impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let interest = tokio::io::Interest::READABLE;
        // The replacement of this function is unsafe, because a descriptor might be closed while it
        // is registered. The timer is an `OwnedFd`, which stays open as long as it is registered.
        #[expect(deprecated, reason = "the descriptor is owned")]
        let timer = tokio::io::unix::AsyncFd::with_interest(timer, interest)?;
        Ok(Timer { timer, armed: None })
    }

    /// Returns at `deadline`, never before. The future may be dropped and the call repeated.
    pub(crate) async fn until(&mut self, deadline: Instant) -> io::Result<()> {
        loop {
            let now = Instant::now();
            if now >= deadline {
                return Ok(());
            }
            if self.armed != Some(deadline) {
                self.arm(deadline - now)?;
                self.armed = Some(deadline);
            }
            // Expirations are not read: resetting the timer discards them, and epoll reports each
            // expiration as an edge.
            let mut ready = self.timer.readable().await?;
            ready.clear_ready();
            self.armed = None;
        }
    }

    fn arm(&self, after: std::time::Duration) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let it_value = Timespec {
            tv_sec: after.as_secs() as _,
            tv_nsec: after.subsec_nanos().into(),
        };
        let timer = Itimerspec {
            it_interval: zero,
            it_value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)?;
        Ok(())
    }
}

/// Timer that wakes at an instant, with a precision of a millisecond.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Timer;

#[cfg(not(target_os = "linux"))]
impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Timer)
    }

    /// Returns at `deadline`, never before.
    pub(crate) async fn until(&mut self, deadline: Instant) -> io::Result<()> {
        tokio::time::sleep_until(deadline.into()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The benchmark `accuracy` measures the delay.
    #[tokio::test]
    async fn never_early() {
        let mut timer = Timer::new().unwrap();
        for _ in 0..50 {
            let deadline = Instant::now() + Duration::from_micros(700);
            timer.until(deadline).await.unwrap();
            assert!(Instant::now() >= deadline);
        }
    }

    #[tokio::test]
    async fn a_wait_can_be_given_up_for_another_one() {
        let mut timer = Timer::new().unwrap();
        let late = Instant::now() + Duration::from_secs(3600);
        let given_up = tokio::time::timeout(Duration::from_millis(5), timer.until(late)).await;
        assert!(given_up.is_err());
        timer
            .until(Instant::now() + Duration::from_millis(5))
            .await
            .unwrap();
        timer.until(Instant::now()).await.unwrap();
    }
}

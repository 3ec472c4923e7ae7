//! SIGTERM and SIGINT stop, SIGHUP rereads, SIGUSR2 upgrades.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code when a second signal cuts the draining short.
const IMPATIENT: i32 = 130;

/// Ends the process so long after a request to stop, if it has not ended by
/// itself: whatever hangs, even the threads that serve. A thread of its own
/// waits for it.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn exit_in_any_case(after: Duration) -> std::io::Result<()> {
    let wait = move || match crate::runtime::run_here(until_stop()) {
        Ok(()) => {
            std::thread::sleep(after);
            errln!("not everything has ended in time (`draintimeout`): exiting");
            std::process::exit(1);
        }
        Err(error) => tracing::warn!(%error, "a stop will wait for whatever hangs"),
    };
    let thread = std::thread::Builder::new().name("lucarne-exit".into());
    thread.spawn(wait).map(drop)
}

async fn until_stop() -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    signals.stop().await;
    Ok(())
}

/// The signals of this process.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    upgrade: Signal,
}

/// A wrapper may forward what the terminal has sent to us as well: signals
/// this close to each other are one wish.
pub(crate) const ONE_WISH: Duration = Duration::from_millis(300);

/// The wishes that signals stand for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Drain and exit; the signal's name.
    Stop(&'static str),
    /// Read roots and TLS files again.
    Reread,
    /// Start the process that is to take over.
    Successor,
}

impl Signals {
    /// From now on signals no longer end the process by themselves.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.terminate.recv() => Wish::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Wish::Stop("SIGINT"),
            _ = self.hangup.recv() => Wish::Reread,
            _ = self.upgrade.recv() => Wish::Successor,
        }
    }

    /// Waits for a request to stop; the signal's name.
    pub(crate) async fn stop(&mut self) -> &'static str {
        loop {
            if let Wish::Stop(name) = self.next().await {
                return name;
            }
        }
    }

    /// While the process drains: the next request to stop ends it at once.
    /// Nothing that was acknowledged is lost by that.
    pub(crate) fn exit_at_next(mut self) {
        let first = Instant::now();
        tokio::spawn(async move {
            loop {
                let wish = self.next().await;
                if let Wish::Stop(name) = wish
                    && first.elapsed() > ONE_WISH
                {
                    errln!("second {name}: exiting at once");
                    std::process::exit(IMPATIENT);
                }
            }
        });
    }
}

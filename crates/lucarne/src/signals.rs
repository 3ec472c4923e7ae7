//! The signals of a server: SIGTERM and SIGINT stop, SIGHUP reloads, SIGUSR2 upgrades.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code after a second signal, which ends the draining.
const IMPATIENT: i32 = 130;

/// Ends the process when the time `after` has passed since a signal to stop, even if the threads
/// that serve hang. A separate thread waits for the signal.
///
/// # Errors
/// If the system cannot create a thread.
pub(crate) fn exit_in_any_case(after: Duration) -> std::io::Result<()> {
    let wait = move || match crate::runtime::run_here(until_stop()) {
        Ok(()) => {
            std::thread::sleep(after);
            errln!("the shutdown has not ended within `draintimeout`: exiting");
            std::process::exit(1);
        }
        Err(error) => {
            tracing::warn!(%error, "cannot listen for signals: a shutdown has no time limit")
        }
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

/// Signals that are closer to each other than this count as one: a wrapper may forward a signal
/// that the terminal has sent to this process, too.
pub(crate) const ONE_WISH: Duration = Duration::from_millis(300);

/// The meaning of a signal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Drain and exit; has the name of the signal.
    Stop(&'static str),
    /// Read the configuration, roots and TLS files again.
    Reread,
    /// Start the process that takes over.
    Successor,
}

impl Signals {
    /// Listens for the signals, which no longer end the process by themselves.
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

    /// Waits for a signal to stop, and returns its name.
    pub(crate) async fn stop(&mut self) -> &'static str {
        loop {
            if let Wish::Stop(name) = self.next().await {
                return name;
            }
        }
    }

    /// Ends the process at once at the next signal to stop, while the server drains. No
    /// acknowledged entry is lost.
    pub(crate) fn exit_at_next(mut self) {
        let first = Instant::now();
        tokio::spawn(async move {
            loop {
                let wish = self.next().await;
                if let Wish::Stop(name) = wish
                    && first.elapsed() > ONE_WISH
                {
                    warnln!("second {name}: exiting at once");
                    std::process::exit(IMPATIENT);
                }
            }
        });
    }
}

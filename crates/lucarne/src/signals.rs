//! SIGTERM and SIGINT stop, SIGHUP rereads.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code when a second signal cuts the draining short.
const IMPATIENT: i32 = 130;

/// The signals of this process.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What a signal asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Drain and exit; the signal's name.
    Stop(&'static str),
    /// Read roots and TLS files again.
    Reread,
}

impl Signals {
    /// From now on signals no longer end the process by themselves.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.terminate.recv() => Wish::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Wish::Stop("SIGINT"),
            _ = self.hangup.recv() => Wish::Reread,
        }
    }

    /// While the process drains: the next request to stop ends it at once.
    /// Nothing that was acknowledged is lost by that.
    pub(crate) fn exit_at_next(mut self) {
        tokio::spawn(async move {
            loop {
                if let Wish::Stop(name) = self.next().await {
                    eprintln!("second {name}: exiting at once");
                    std::process::exit(IMPATIENT);
                }
            }
        });
    }
}

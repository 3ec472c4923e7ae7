//! The output of a command, which is a key or a password.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// The time that a command may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// More than any key has.
const MOST: u64 = 64 << 10;

/// The reasons why a command has no output, in words that follow it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("is empty")]
    Empty,
    #[error("cannot be run: {0}")]
    Run(#[source] io::Error),
    #[error("prints nothing")]
    Silent,
    #[error("cannot be waited for: {0}")]
    Wait(#[source] io::Error),
    #[error("did not end within {} s", PATIENCE.as_secs())]
    Slow,
    #[error("failed ({0}); what it said is above")]
    Failed(ExitStatus),
    /// What it started goes on after it.
    #[error("leaves its output open")]
    Open(#[source] RecvTimeoutError),
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
}

/// Returns the output of a command, if it succeeds in time.
///
/// # Errors
/// In words that follow the command.
pub(super) fn output(words: &[String]) -> Result<Vec<u8>, CommandError> {
    let (program, arguments) = words.split_first().ok_or(CommandError::Empty)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(CommandError::Run)?;
    let printed = child.stdout.take().ok_or(CommandError::Silent)?;
    // A command that goes on silently must not hold this up: it is killed, and
    // its output ends.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = printed.take(MOST).read_to_end(&mut bytes).map(|_| bytes);
        // Nobody waits any more for a command that took too long.
        let _ = sender.send(read);
    });
    let status = finished(&mut child)?;
    if !status.success() {
        return Err(CommandError::Failed(status));
    }
    // What it started may still hold its output open.
    let bytes = receiver.recv_timeout(PATIENCE);
    bytes
        .map_err(CommandError::Open)?
        .map_err(CommandError::Read)
}

fn finished(child: &mut Child) -> Result<ExitStatus, CommandError> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() < PATIENCE => {
                // Polled: a child cannot be waited for with a deadline.
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(None) => {
                // It may have ended in this very moment.
                let _ = child.kill();
                let _ = child.wait();
                return Err(CommandError::Slow);
            }
            Err(error) => return Err(CommandError::Wait(error)),
        }
    }
}

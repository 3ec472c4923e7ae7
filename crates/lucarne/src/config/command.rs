//! Commands that print a key or a password.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Maximum duration of a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of the output in bytes, more than any key has.
const MAX_OUTPUT: u64 = 64 << 10;

/// Reasons why the output of a command cannot be used. The text follows the command.
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
    #[error("did not end within {} s", COMMAND_TIMEOUT.as_secs())]
    Slow,
    #[error("failed ({0}); its error output is above")]
    Failed(ExitStatus),
    /// A process that the command started keeps the output open.
    #[error(
        "has ended, but a process that it started keeps its output open: start no background \
         processes in the command"
    )]
    Open(#[source] RecvTimeoutError),
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
}

/// Returns the output of a command that succeeds in time.
///
/// # Errors
/// [`CommandError`], whose text follows the command.
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
    // A separate thread reads, so that a silent command does not block. After the command is
    // killed, its output ends.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = printed
            .take(MAX_OUTPUT)
            .read_to_end(&mut bytes)
            .map(|_| bytes);
        // There is no receiver after a timeout.
        let _ = sender.send(read);
    });
    let status = finished(&mut child)?;
    if !status.success() {
        return Err(CommandError::Failed(status));
    }
    // A process that the command started may keep the output open, so the wait has a limit.
    let bytes = receiver.recv_timeout(COMMAND_TIMEOUT);
    bytes
        .map_err(CommandError::Open)?
        .map_err(CommandError::Read)
}

fn finished(child: &mut Child) -> Result<ExitStatus, CommandError> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() < COMMAND_TIMEOUT => {
                // The standard library has no wait with a deadline.
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(None) => {
                // `kill` fails if the command has just ended.
                let _ = child.kill();
                let _ = child.wait();
                return Err(CommandError::Slow);
            }
            Err(error) => return Err(CommandError::Wait(error)),
        }
    }
}

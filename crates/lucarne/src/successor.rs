//! Process that takes over from this one after an upgrade request (SIGUSR2).

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Path of this program at the start. A newer program may replace the file later.
static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Stores the path of this program.
pub(crate) fn remember() {
    PROGRAM.get_or_init(|| std::env::current_exe().ok());
}

/// Starts the program at the stored path with the arguments of this process. The new process takes
/// over by itself. If the new process fails, the new process logs the reason, and this process
/// continues.
pub(crate) fn start() {
    let Some(Some(program)) = PROGRAM.get() else {
        return tracing::error!("SIGUSR2: cannot find the executable of this program");
    };
    let program = program.clone();
    let mut command = Command::new(&program);
    command.args(std::env::args_os().skip(1));
    // Without this variable, the watchdog of the service watches the new process, too.
    command.env_remove("WATCHDOG_PID");
    match command.spawn() {
        Ok(mut child) => {
            tracing::info!(pid = child.id(), program = %program.display(), "SIGUSR2: started");
            tokio::task::spawn_blocking(move || match child.wait() {
                Ok(status) => tracing::error!(
                    pid = child.id(),
                    "the new process has ended without taking over: {status}"
                ),
                Err(error) => tracing::warn!(%error, "cannot wait for the new process"),
            });
        }
        Err(error) => tracing::error!("SIGUSR2: {} cannot be started: {error}", program.display()),
    }
}

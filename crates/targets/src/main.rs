//! `cargo xtask targets up` and `down`: local targets for trying plans.
//! `gcs`: an emulator for trying docs/how-to/deploy/gcs.md without an account.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lucarne_targets::{Fleet, Ports};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Time that `down` waits for the servers to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let outcome = match argument.as_str() {
        "up" => up(),
        "down" => down(),
        "gcs" => gcs(),
        other => Err(anyhow::anyhow!(
            "unknown command `{other}`: use `up`, `down` or `gcs`"
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("targets: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Starts all targets, prints their addresses, and runs until SIGINT or SIGTERM.
fn up() -> Result<()> {
    let file = state_file();
    if let Some(pid) = running(&file) {
        bail!("the targets are already running (process {pid}): run `cargo xtask targets down`");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Signals are handled before any target starts, so that a signal stops all targets.
    let stopped = runtime.block_on(async { signals() })?;
    let fleet = Fleet::start(Ports::USUAL)?;
    std::fs::write(&file, std::process::id().to_string())
        .with_context(|| format!("writing {}", file.display()))?;
    let mut out = std::io::stdout().lock();
    for (name, value) in fleet.environment() {
        writeln!(out, "export {name}={value}")?;
    }
    writeln!(
        out,
        "# F5: {} / {}",
        lucarne_targets::F5::USER.0,
        lucarne_targets::F5::USER.1
    )?;
    out.flush()?;
    eprintln!("The targets are running. Ctrl-C or `cargo xtask targets down` stops them.");
    runtime.block_on(stopped);
    drop(fleet);
    let _ = std::fs::remove_file(&file);
    Ok(())
}

/// Starts an emulator of Google Cloud Storage with the bucket `lucarne`, prints its address, and
/// runs until SIGINT or SIGTERM.
fn gcs() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let stopped = runtime.block_on(async { signals() })?;
    let server = lucarne_testkit::GcsServer::start()?;
    runtime.block_on(server.make_bucket("lucarne"))?;
    println!("GCS_ENDPOINT={}", server.endpoint);
    eprintln!("The emulator is running, in memory, with the bucket `lucarne`. Ctrl-C stops it.");
    runtime.block_on(stopped);
    Ok(())
}

fn signals() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
        }
    })
}

/// Stops only the process that `up` started, by its id.
fn down() -> Result<()> {
    let file = state_file();
    let Some(pid) = running(&file) else {
        println!("The targets are not running.");
        return Ok(());
    };
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = process.context("the state file has an invalid process id")?;
    kill_process(process, Signal::TERM).context("stopping the targets")?;
    let deadline = Instant::now() + STOP_TIMEOUT;
    while test_kill_process(process).is_ok() && running(&file).is_some() {
        ensure!(Instant::now() < deadline, "process {pid} does not end");
        // Polls, because a process can wait only for its own children.
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("The targets have stopped.");
    Ok(())
}

/// Returns the file with the process id of `up`.
fn state_file() -> PathBuf {
    std::env::temp_dir().join("lucarne-targets.pid")
}

/// Returns the id of the running `up`: a process of this program.
fn running(file: &std::path::Path) -> Option<u32> {
    let pid: u32 = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command);
    let mut words = command.split('\0');
    let program = words.next()?.rsplit('/').next()?;
    (program == "lucarne-targets" && words.next() == Some("up")).then_some(pid)
}

//! `lucarne signer`: holds the keys of logs in a separate process.

pub(crate) mod options;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use lucarne_ct::KeyHolder;
use lucarne_net::counted;
use lucarne_signer::{Head, Memory, MemoryDirectory, Server, SigningLog};
use lucarne_tlog::{Checkpoint, SignedNote};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::options::{Signer, SignerTask};
use super::{failed, sound};
use crate::causes::causes;
use crate::config::SignerConfig;
use crate::files::{self, LONGEST};
use crate::notify;

/// Runs the signer, or the task that the command line names.
pub(crate) fn run(options: &Signer) -> ExitCode {
    let file = options.config.clone();
    let (config, report) = match files::in_time(LONGEST, move || SignerConfig::read(&file)) {
        Ok(read) => read,
        Err(why) => return failed(format!("nothing was started: {why}")),
    };
    for line in report.warning_lines() {
        tracing::warn!("{line}");
    }
    let Some(config) = sound(config, &report) else {
        return failed("nothing was started; correct the configuration first");
    };
    let done = match &options.task {
        None => serve(config).map(|never| match never {}),
        Some(SignerTask::FirstUse { origin }) => first_use(&config, origin),
        Some(SignerTask::Adopt { checkpoint }) => adopt(&config, checkpoint),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(causes(&error)),
    }
}

/// Signs until a signal ends the process. Every signed tree head is stored before its signature is
/// sent.
fn serve(config: SignerConfig) -> Result<std::convert::Infallible> {
    let memory = MemoryDirectory::open(&config.memory)?;
    let mut logs = Vec::new();
    for (origin, key) in config.logs {
        let log = SigningLog::open(&origin, key, &memory)?;
        match log.last() {
            Some(head) => tracing::info!(
                log = origin,
                size = head.size,
                root = %head.root,
                timestamp = head.timestamp_ms,
                "last signed tree head"
            ),
            None => tracing::info!(log = origin, "has signed nothing yet"),
        }
        logs.push(log);
    }
    let server = Server::bind(&config.socket, memory, logs, config.users)?;
    tracing::info!(socket = %config.socket.display(), "signing");
    let server = Arc::new(server);
    report(&server)?;
    loop {
        server.run();
    }
}

/// Reports readiness, status and stop to a service manager that expects messages. Without a service
/// manager, a signal ends the process as the system does by default.
fn report(server: &Arc<Server>) -> Result<()> {
    if !notify::is_wanted() {
        return Ok(());
    }
    let reported = Arc::clone(server);
    thread("lucarne-status", move || report_status(&reported))?;
    let mut stop = Stop::listen()?;
    thread("lucarne-stop", move || {
        stop.wait();
        notify::stopping();
        std::process::exit(0);
    })?;
    notify::ready();
    Ok(())
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread
        .map(drop)
        .context("cannot start a thread for status messages and signals")
}

/// Reports the size of the last signed tree of each log, at most every few seconds.
fn report_status(server: &Server) {
    let mut reported = String::new();
    loop {
        let of_log = |(origin, head): (String, Option<Head>)| match head {
            Some(head) => format!("{origin}: signed {}", counted(head.size, "entry")),
            None => format!("{origin}: nothing signed yet"),
        };
        let logs: Vec<_> = server.heads().into_iter().map(of_log).collect();
        let now = logs.join("; ");
        if now != reported {
            notify::status(&now);
            reported = now;
        }
        // The pace of reports: a status on every signature would flood the service manager.
        std::thread::sleep(notify::STATUS_INTERVAL);
    }
}

/// Listener for SIGTERM and SIGINT with its own async runtime, because the threads that sign have
/// none.
struct Stop {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Listens for the signals, which no longer end the process by themselves.
    fn listen() -> Result<Self> {
        let listen = || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let entered = runtime.enter();
            let (terminate, interrupt) = (
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
            );
            drop(entered);
            Ok::<_, std::io::Error>(Stop {
                runtime,
                terminate,
                interrupt,
            })
        };
        listen().context("cannot listen for signals")
    }

    fn wait(&mut self) {
        let (terminate, interrupt) = (&mut self.terminate, &mut self.interrupt);
        self.runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
    }
}

fn first_use(config: &SignerConfig, origin: &str) -> Result<()> {
    let directory = MemoryDirectory::open(&config.memory)?;
    memory(config, &directory, origin)?.first_use()?;
    outln!("the key of {origin} may sign its first checkpoint, which has no entries");
    Ok(())
}

fn adopt(config: &SignerConfig, file: &Path) -> Result<()> {
    let unusable = || format!("cannot use the checkpoint in {}", file.display());
    let note = std::fs::read(file).with_context(unusable)?;
    let text = SignedNote::parse(&note).with_context(unusable)?;
    let origin = Checkpoint::parse(&text.text).with_context(unusable)?;
    let origin = origin.origin;
    let directory = MemoryDirectory::open(&config.memory)?;
    let head = memory(config, &directory, &origin)?.adopt(&note)?;
    outln!(
        "the key of {origin} signs only trees that begin with the {} entries of the root {}",
        head.size,
        head.root
    );
    Ok(())
}

fn memory(config: &SignerConfig, directory: &MemoryDirectory, origin: &str) -> Result<Memory> {
    let named = |(known, _): &&(String, Box<dyn KeyHolder>)| known == origin;
    let Some((origin, key)) = config.logs.iter().find(named) else {
        bail!("the configuration has no log with the origin {origin}");
    };
    Ok(directory.of(origin, &**key))
}

//! `lucarne signer`: holds the keys of logs in a separate process.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use lucarne_ct::KeyHolder;
use lucarne_signer::{Memory, MemoryDirectory, Server, SigningLog};
use lucarne_tlog::{Checkpoint, SignedNote};

use super::failed;
use crate::causes::causes;
use crate::cli::{Signer, SignerTask};
use crate::config::SignerConfig;

/// Runs the signer, or the task that the command line names.
pub(crate) fn run(options: &Signer) -> ExitCode {
    let (config, report) = SignerConfig::read(&options.config);
    for line in report.warning_lines() {
        tracing::warn!("{line}");
    }
    let (Some(config), []) = (config, report.problems()) else {
        for line in report.problem_lines() {
            errln!("problem: {line}");
        }
        return failed("not started");
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

/// Signs until a signal ends the process. Every signature is remembered before it is sent.
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
                "signed last"
            ),
            None => tracing::info!(log = origin, "has signed nothing yet"),
        }
        logs.push(log);
    }
    let server = Server::bind(&config.socket, memory, logs, config.users)?;
    tracing::info!(socket = %config.socket.display(), "signing");
    loop {
        server.run();
    }
}

fn first_use(config: &SignerConfig, origin: &str) -> Result<()> {
    let directory = MemoryDirectory::open(&config.memory)?;
    memory(config, &directory, origin)?.first_use()?;
    outln!("the key of {origin} may sign its first checkpoint, of no entry");
    Ok(())
}

fn adopt(config: &SignerConfig, file: &Path) -> Result<()> {
    let note = std::fs::read(file).with_context(|| file.display().to_string())?;
    let text = SignedNote::parse(&note).with_context(|| file.display().to_string())?;
    let origin = Checkpoint::parse(&text.text).with_context(|| file.display().to_string())?;
    let origin = origin.origin;
    let directory = MemoryDirectory::open(&config.memory)?;
    let head = memory(config, &directory, &origin)?.adopt(&note)?;
    outln!(
        "the key of {origin} signs only what grows from {} entries with the root {}",
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
    Ok(directory.of(origin, key.log_id(), key.public_key_spki()))
}

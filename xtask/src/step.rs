//! One step of a command: announced, run, timed.

use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::root;

/// `cargo` with these arguments, separated by spaces, at the root of the workspace.
pub(crate) fn cargo(arguments: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(arguments.split_whitespace())
        .current_dir(root());
    if in_ci() {
        // Nothing is built twice there, and a first build is quicker without.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Returns true in a run of the continuous integration, where nobody reads along.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// Runs a command. If the command fails, the error has the whole command.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let line = words(command);
    let status = command
        .status()
        .with_context(|| format!("starting `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Steps done so far, and how long each took, or that it was skipped.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Option<Duration>)>,
}

impl Steps {
    /// Announces a step, runs it, and says how long it took.
    pub(crate) fn run(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        println!("\n==> {name}");
        let start = Instant::now();
        let outcome = step();
        let took = start.elapsed();
        self.done.push((name, Some(took)));
        match &outcome {
            Ok(()) => println!("==> {name}: ok, {}", seconds(took)),
            Err(_) => println!("==> {name}: FAILED after {}", seconds(took)),
        }
        outcome.with_context(|| format!("{name} failed"))
    }

    /// Announces that a step is left out, and why.
    pub(crate) fn skip(&mut self, name: &'static str, reason: &anyhow::Error) {
        println!("\n==> {name}: SKIPPED: {reason}");
        self.done.push((name, None));
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, took) in &self.done {
            let took = took.map_or_else(|| "SKIPPED".to_owned(), seconds);
            writeln!(f, "{took:>9}  {name}")?;
        }
        let total = self.done.iter().filter_map(|(_, took)| *took).sum();
        write!(f, "{:>9}  in all", seconds(total))
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// The command as one would type it.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

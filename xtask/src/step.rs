//! Steps of a command: each is announced, run and timed.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::root;

/// Largest number of printed lines of a failed command's output.
const PRINTED: usize = 100;

/// Returns a `cargo` command with these arguments, separated by spaces, at the root of the
/// workspace.
pub(crate) fn cargo(arguments: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(arguments.split_whitespace())
        .current_dir(root());
    if in_ci() {
        // CI builds everything only once, and a first build is faster without incremental
        // compilation.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Returns true in a run of continuous integration, without a person at the terminal.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// Runs a command. The error has the command line.
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

/// Runs a command whose output goes to `target/xtask/NAME.log`. If the command fails, the function
/// prints the errors in this file.
pub(crate) fn quiet(command: &mut Command, name: &str) -> Result<()> {
    let (file, path) = log(name)?;
    let outcome = check(command.stdout(file.try_clone()?).stderr(file));
    outcome.inspect_err(|_| print_errors(&path))
}

/// Creates the file `target/xtask/NAME.log`.
pub(crate) fn log(name: &str) -> Result<(File, PathBuf)> {
    let path = root().join(format!("target/xtask/{name}.log"));
    let created = std::fs::create_dir_all(root().join("target/xtask"));
    let file = created.and_then(|()| File::create(&path));
    Ok((
        file.with_context(|| format!("creating {}", path.display()))?,
        path,
    ))
}

/// Prints a file from its first error on, or its end.
pub(crate) fn print_errors(path: &Path) {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let first = lines.iter().position(|line| line.starts_with("error"));
    let first = first.unwrap_or(lines.len().saturating_sub(PRINTED));
    for line in lines[first..].iter().take(PRINTED) {
        eprintln!("    {line}");
    }
    eprintln!("    all of it: {}", path.display());
}

/// A step that ran: its name, duration and outcome.
pub(crate) struct Finished {
    name: &'static str,
    took: Duration,
    outcome: Result<()>,
}

impl Finished {
    /// Runs a step, and measures its duration.
    pub(crate) fn run(name: &'static str, step: impl FnOnce() -> Result<()>) -> Finished {
        let start = Instant::now();
        let outcome = step();
        let took = start.elapsed();
        Finished {
            name,
            took,
            outcome,
        }
    }
}

/// Finished steps with their durations; a skipped step has none.
pub(crate) struct Steps {
    start: Instant,
    done: Vec<(&'static str, Option<Duration>)>,
}

impl Default for Steps {
    fn default() -> Self {
        let (start, done) = (Instant::now(), Vec::new());
        Self { start, done }
    }
}

impl Steps {
    /// Announces a step, runs it, and prints its duration.
    pub(crate) fn run(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        println!("\n==> {name}");
        self.add(Finished::run(name, step))
    }

    /// Prints the duration of a finished step.
    pub(crate) fn add(&mut self, step: Finished) -> Result<()> {
        let Finished {
            name,
            took,
            outcome,
        } = step;
        self.done.push((name, Some(took)));
        match &outcome {
            Ok(()) => println!("==> {name}: ok, {}", seconds(took)),
            Err(_) => println!("==> {name}: FAILED after {}", seconds(took)),
        }
        outcome.with_context(|| format!("{name} failed"))
    }

    /// Announces that a step is skipped, with the reason.
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
        write!(
            f,
            "some steps ran at the same time; in all {}",
            seconds(self.start.elapsed())
        )
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Formats a command as in a shell.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

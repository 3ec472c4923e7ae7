//! One run of one test.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Test;
use super::limits::limit;
use super::machine::{self, MARK};

/// Time between two checks of a running test.
const POLL: Duration = Duration::from_millis(10);

/// Time in which the processes of an ended test may disappear.
const GRACE: Duration = Duration::from_secs(1);

/// A finished run of a test.
pub(super) struct Attempt {
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
    /// Output of the test and its processes; after a hang also the stacks of its threads.
    pub(super) output: String,
    /// Command lines of processes that the test left behind and that were killed.
    pub(super) left_behind: Vec<String>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// The test printed a line `skipped: reason`.
    Skipped(String),
    Failed,
    /// The test was killed at its limit.
    Hung,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Failed => f.write_str("FAILED"),
            Self::Hung => f.write_str("HUNG"),
        }
    }
}

/// Environment variable with a directory for the shared files and the remains of tests.
const RUN: &str = "LUCARNE_TEST_RUN";

/// Runs the test to its end, or until its limit. With `backtrace`, a panic also prints its stack
/// frames, among which the message is hard to find.
pub(super) fn run(test: &Test, directory: &Path, backtrace: bool) -> Result<Attempt> {
    let mut output = tempfile::tempfile().context("creating a file for the output of tests")?;
    // Two runs on one machine have a directory each, and do not end each other's processes.
    let mark = format!("{test} in {}", directory.display());
    let mut command = test.program.command();
    command
        .args(["--exact", "--nocapture", &test.name])
        // With one thread, the name of the test and the first line of its output share a line.
        .env("RUST_TEST_THREADS", "2")
        .env("RUST_BACKTRACE", if backtrace { "1" } else { "0" })
        .env(MARK, &mark)
        .env(RUN, directory)
        .stdin(Stdio::null())
        .stdout(copy(&output)?)
        .stderr(copy(&output)?);
    let start = Instant::now();
    let mut child = spawn(&mut command)?;
    let ended = wait(&mut child, start + limit(&test.name))?;
    let stacks = match ended {
        Some(_) => String::new(),
        None => kill(&mut child, &mark)?,
    };
    let took = start.elapsed();
    let left_behind = machine::end_marked(&mark, GRACE);
    let mut text = Vec::new();
    output.rewind().context("reading the output of a test")?;
    output
        .read_to_end(&mut text)
        .context("reading the output of a test")?;
    let text = String::from_utf8_lossy(&text);
    Ok(Attempt {
        outcome: outcome(ended, &text),
        took,
        output: without_frame(&text) + &stacks,
        left_behind: if ended.is_some() {
            left_behind
        } else {
            Vec::new()
        },
    })
}

fn copy(file: &File) -> Result<File> {
    file.try_clone()
        .context("duplicating the file for the output of tests")
}

fn spawn(command: &mut Command) -> Result<Child> {
    command
        .spawn()
        .with_context(|| format!("starting {:?}", command.get_program()))
}

/// Waits for the end of the process. Returns whether the process succeeded, or `None` at the
/// deadline.
fn wait(child: &mut Child, deadline: Instant) -> Result<Option<bool>> {
    loop {
        if let Some(status) = child.try_wait().context("waiting for a test")? {
            return Ok(Some(status.success()));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// Kills a hung test. Returns the stacks of its processes.
fn kill(child: &mut Child, mark: &str) -> Result<String> {
    let stacks = machine::stacks(mark);
    child.kill().context("killing a hung test")?;
    child
        .wait()
        .context("waiting for a hung test after killing it")?;
    Ok(stacks)
}

fn outcome(ended: Option<bool>, text: &str) -> Outcome {
    let reason = || text.lines().find_map(|line| line.strip_prefix("skipped: "));
    match ended {
        None => Outcome::Hung,
        Some(false) => Outcome::Failed,
        Some(true) => reason().map_or(Outcome::Passed, |reason| {
            Outcome::Skipped(reason.to_owned())
        }),
    }
}

/// Returns the output of the test without the lines that its harness prints around it.
fn without_frame(text: &str) -> String {
    let of_harness = |line: &str| {
        line.is_empty()
            || line == "running 1 test"
            || line == "failures:"
            || line.starts_with("test result: ")
            || line.starts_with("note: run with `RUST_BACKTRACE")
    };
    let lines = text.lines().filter(|line| !of_harness(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_says_so_is_skipped() {
        let text = "\nrunning 1 test\nskipped: no corpus\ntest a ... ok\n";
        let skipped = Outcome::Skipped("no corpus".into());
        assert_eq!(outcome(Some(true), text), skipped);
        assert_eq!(outcome(Some(false), text), Outcome::Failed);
        assert_eq!(outcome(None, text), Outcome::Hung);
        assert_eq!(outcome(Some(true), "test a ... ok"), Outcome::Passed);
    }

    #[test]
    fn the_output_of_a_test_is_printed_without_its_frame() {
        let text = "\nrunning 1 test\nthread 'a' panicked at a.rs:1:\nthe reason\ntest a ... \
                    FAILED\n\nfailures:\n\ntest result: FAILED. 0 passed; 1 failed\n";
        assert_eq!(
            without_frame(text),
            "thread 'a' panicked at a.rs:1:\nthe reason\ntest a ... FAILED\n"
        );
    }
}

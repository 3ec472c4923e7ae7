//! Runs each test in its own process. Only a hung test is ended, a remaining process is traced to
//! its test, and the tests of all programs share one queue. cargo-nextest works the same way, but
//! takes minutes to build on a clean machine.

mod attempt;
mod limits;
mod machine;
mod report;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result};

use crate::programs::Program;
use attempt::{Attempt, Outcome};
use machine::Machine;
pub(crate) use report::Report;

/// Runs of a failed test, alone, before it counts as failed.
const RETRIES: u32 = 2;

/// Number of concurrent tests for each core. Most tests wait most of their time: for a round, for
/// the end of an outage, or for a killed server.
const TESTS_PER_CORE: usize = 3;

/// One test of a program.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    program: Program,
    name: String,
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.program.name, self.name)
    }
}

/// Runs the tests whose names contain one of `filters`, or all tests. A failed test
/// runs again, alone, after all others.
pub(crate) fn run(mut programs: Vec<Program>, filters: &[String]) -> Result<Report> {
    // The programs with the most tests are the largest: a short program starts last.
    programs.sort_by_key(|program| std::cmp::Reverse(program.size));
    let mut report = Report::default();
    let mut queue = Vec::new();
    for program in programs {
        let (names, ignored) = program.tests(filters)?;
        report.ignored += ignored;
        queue.extend(names.into_iter().map(|name| Test {
            program: program.clone(),
            name,
        }));
    }
    // A long test that starts last would delay the end of the run.
    queue.sort_by_key(|test| std::cmp::Reverse(limits::limit(&test.name)));
    let directory = tempfile::Builder::new().prefix("lucarne-run-").tempdir();
    let directory = directory.context("creating the directory of the run")?;
    let before = Machine::now();
    let failures = all(queue.into(), directory.path(), &mut report)?;
    for (test, first) in failures {
        again(test, &first, directory.path(), &mut report)?;
    }
    report.left_behind.extend(Machine::now().since(&before));
    Ok(report)
}

/// Runs the tests concurrently. Returns the failed tests.
fn all(
    queue: VecDeque<Test>,
    directory: &Path,
    report: &mut Report,
) -> Result<Vec<(Test, Attempt)>> {
    let total = queue.len();
    let (queue, failures) = (Mutex::new(queue), Mutex::new(Vec::new()));
    let shared = Mutex::new(report);
    let worker = || -> Result<()> {
        while let Some(test) = next(&queue) {
            let attempt = attempt::run(&test, directory, false)?;
            let (Ok(mut report), Ok(mut failures)) = (shared.lock(), failures.lock()) else {
                break;
            };
            report.add(&test, &attempt, total);
            if let Outcome::Failed | Outcome::Hung = attempt.outcome {
                println!("\n{test} {}\n{}", attempt.outcome, attempt.output);
                failures.push((test, attempt));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads()?).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
    })?;
    Ok(failures.into_inner().unwrap_or_default())
}

fn next(queue: &Mutex<VecDeque<Test>>) -> Option<Test> {
    queue.lock().ok()?.pop_front()
}

/// Tests at a time: `RUST_TEST_THREADS`, else three for each core.
fn threads() -> Result<usize> {
    match std::env::var("RUST_TEST_THREADS") {
        Ok(number) => number
            .parse()
            .context("RUST_TEST_THREADS must be a whole number"),
        Err(_) => Ok(TESTS_PER_CORE * thread::available_parallelism()?.get()),
    }
}

/// Runs a failed test again, alone, up to twice, and reports it as flaky or failed.
fn again(test: Test, first: &Attempt, directory: &Path, report: &mut Report) -> Result<()> {
    for _ in 0..RETRIES {
        println!("{test}: runs again, alone");
        let attempt = attempt::run(&test, directory, true)?;
        if matches!(attempt.outcome, Outcome::Passed | Outcome::Skipped(_)) {
            return report.flaky(&test, &first.output);
        }
        println!("\n{test} {}\n{}", attempt.outcome, attempt.output);
    }
    report.failed.push(test.to_string());
    Ok(())
}

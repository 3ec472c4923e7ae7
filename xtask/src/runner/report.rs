//! The result of a test run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Test;
use super::attempt::{Attempt, Outcome};
use crate::root;

/// Length of the list of the slowest tests.
const SLOWEST: usize = 10;

/// Number of finished tests between two lines of progress.
const PROGRESS: usize = 200;

/// The result of all tests.
#[derive(Default)]
pub(crate) struct Report {
    passed: usize,
    /// Number of tests marked `#[ignore]`.
    pub(super) ignored: usize,
    /// Numbers of skipped tests by reason.
    skipped: BTreeMap<String, usize>,
    /// Tests that failed first, and passed in a run alone.
    flaky: Vec<String>,
    pub(super) failed: Vec<String>,
    /// Processes, mounts and other traces that the tests left behind.
    pub(super) left_behind: Vec<String>,
    times: Vec<(Duration, String)>,
}

impl Report {
    /// Adds the first run of a test. `total` is the number of tests of the run.
    pub(super) fn add(&mut self, test: &Test, attempt: &Attempt, total: usize) {
        match &attempt.outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped(reason) => *self.skipped.entry(reason.clone()).or_default() += 1,
            Outcome::Failed | Outcome::Hung => {}
        }
        for line in &attempt.left_behind {
            self.left_behind.push(format!("{line}, by {test}"));
        }
        self.times.push((attempt.took, test.to_string()));
        let done = self.times.len();
        if done.is_multiple_of(PROGRESS) || done == total {
            println!("    {done} of {total} tests have run");
        }
    }

    /// Counts the test as flaky, and writes its first output to `target/flaky`.
    pub(super) fn flaky(&mut self, test: &Test, output: &str) -> Result<()> {
        let directory = root().join("target/flaky");
        std::fs::create_dir_all(&directory)?;
        let file = format!("{test}.txt").replace([' ', ':', '/'], "-");
        std::fs::write(directory.join(file), output)?;
        self.passed += 1;
        self.flaky.push(test.to_string());
        Ok(())
    }

    /// Fails if a test failed or none ran, or, with `strict`, if a test is flaky or left traces
    /// behind.
    pub(crate) fn verdict(&self, strict: bool) -> Result<()> {
        if !self.failed.is_empty() {
            bail!("tests failed: {}", self.failed.join(", "));
        }
        if self.times.is_empty() {
            bail!("no test has a matching name");
        }
        if strict && !self.flaky.is_empty() {
            bail!("tests are flaky: {}", self.flaky.join(", "));
        }
        if strict && !self.left_behind.is_empty() {
            bail!("tests left behind: {}", self.left_behind.join(", "));
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_by(|a, b| b.cmp(a));
        writeln!(f, "slowest tests:")?;
        for (took, test) in times.iter().take(SLOWEST) {
            writeln!(f, "{:>7.1} s  {test}", took.as_secs_f64())?;
        }
        for line in &self.left_behind {
            writeln!(f, "left behind: {line}")?;
        }
        for (reason, tests) in &self.skipped {
            writeln!(f, "skipped: {tests} tests: {reason}")?;
        }
        for test in &self.flaky {
            writeln!(f, "flaky: {test} (first output in target/flaky)")?;
        }
        for test in &self.failed {
            writeln!(f, "failed: {test}")?;
        }
        let skipped = self.skipped.values().sum::<usize>() + self.ignored;
        let (failed, flaky) = (self.failed.len(), self.flaky.len());
        let passed = self.passed;
        writeln!(
            f,
            "tests: {passed} passed, {failed} failed, {skipped} skipped"
        )?;
        write!(f, "of the passed tests {flaky} flaky")
    }
}

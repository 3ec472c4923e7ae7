//! The test programs of the workspace, run side by side: most tests wait (for a
//! round, an outage, a server that was killed) rather than compute.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::root;

/// Programs at a time.
const PROGRAMS: usize = 2;
/// Tests at a time in each of them, unless `RUST_TEST_THREADS` says otherwise.
const THREADS: &str = "4";

/// Runs of a failed test, alone, before it counts as failed.
const RETRIES: u32 = 2;

/// A test program that cargo built.
#[derive(Clone)]
pub(crate) struct Program {
    executable: PathBuf,
    /// The directory of its package: tests run there, as under `cargo test`.
    package: PathBuf,
    /// The package and the target, for people.
    name: String,
    /// Of the executable, in bytes.
    size: u64,
}

/// The result of all test programs.
#[derive(Default)]
pub(crate) struct Report {
    passed: u64,
    skipped: u64,
    /// Tests that failed first and passed when run again alone.
    flaky: Vec<String>,
    failed: Vec<String>,
}

impl Report {
    /// Fails if a test failed, or, with `strict`, if a test is flaky.
    pub(crate) fn verdict(&self, strict: bool) -> Result<()> {
        if !self.failed.is_empty() {
            bail!("tests failed: {}", self.failed.join(", "));
        }
        if strict && !self.flaky.is_empty() {
            bail!("tests are flaky: {}", self.flaky.join(", "));
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for test in &self.flaky {
            writeln!(f, "flaky: {test} (first output in target/flaky)")?;
        }
        for test in &self.failed {
            writeln!(f, "failed: {test}")?;
        }
        let Self {
            passed, skipped, ..
        } = self;
        let (failed, flaky) = (self.failed.len(), self.flaky.len());
        writeln!(
            f,
            "tests: {passed} passed, {failed} failed, {skipped} skipped"
        )?;
        write!(f, "of the passed tests {flaky} flaky")
    }
}

/// Runs every test program that `build` makes, a `cargo test --no-run` with what
/// to build. `filters` are parts of the names of tests; none of them means all
/// tests. A failed test runs again, alone, after all others.
pub(crate) fn run(build: &mut Command, filters: &[String]) -> Result<Report> {
    let mut programs = built(build)?;
    // The programs with the most tests take longest: a short one starts last.
    programs.sort_by_key(|program| program.size);
    let (left, report) = (Mutex::new(programs), Mutex::new(Report::default()));
    let failures = Mutex::new(Vec::new());
    let next = || left.lock().ok()?.pop();
    std::thread::scope(|scope| {
        for _ in 0..PROGRAMS {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let outcome = program.run(filters);
                    let (Ok(mut report), Ok(mut failures)) = (report.lock(), failures.lock())
                    else {
                        return;
                    };
                    match outcome {
                        Ok(outcome) => {
                            report.passed += outcome.passed;
                            report.skipped += outcome.skipped;
                            failures.extend(outcome.failures);
                        }
                        Err(error) => {
                            println!("{error:#}");
                            report.failed.push(program.name);
                        }
                    }
                }
            });
        }
    });
    let mut report = report.into_inner().unwrap_or_default();
    for failure in failures.into_inner().unwrap_or_default() {
        let name = format!("{} {}", failure.program.name, failure.test);
        if failure.passes_alone()? {
            report.passed += 1;
            report.flaky.push(name);
        } else {
            report.failed.push(name);
        }
    }
    Ok(report)
}

/// The programs that `build` made or found fresh.
pub(crate) fn built(build: &mut Command) -> Result<Vec<Program>> {
    build.arg("--message-format=json-render-diagnostics");
    let output = build.stderr(Stdio::inherit()).output();
    let output = output.context("starting cargo")?;
    if !output.status.success() {
        bail!("the tests cannot be built ({})", output.status);
    }
    let messages = String::from_utf8(output.stdout).context("cargo's messages")?;
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("a message of cargo's")?;
        if message["profile"]["test"] == true {
            programs.extend(Program::of(&message)?);
        }
    }
    if programs.is_empty() {
        bail!("cargo names no test program");
    }
    Ok(programs)
}

impl Program {
    /// The program of a message `compiler-artifact`, if it made one.
    fn of(artifact: &Value) -> Result<Option<Program>> {
        let path = |field: &str| artifact[field].as_str().map(PathBuf::from);
        let (Some(executable), Some(manifest)) = (path("executable"), path("manifest_path")) else {
            return Ok(None);
        };
        let package = manifest.parent().context("a manifest without directory")?;
        let package_name = package.file_name().unwrap_or_default().to_string_lossy();
        let target = artifact["target"]["name"].as_str().unwrap_or_default();
        let kind = artifact["target"]["kind"][0].as_str().unwrap_or_default();
        let size = executable.metadata().context("a test program")?.len();
        Ok(Some(Program {
            name: format!("{package_name}: {kind} {target}"),
            package: package.to_owned(),
            executable,
            size,
        }))
    }

    /// The program, where and with what `cargo test` runs it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package);
        command
    }

    /// Runs the tests whose names contain one of `filters`. Fails if the program
    /// ends without a list of its failed tests.
    fn run(&self, filters: &[String]) -> Result<Outcome> {
        let start = Instant::now();
        let mut command = self.command();
        command.args(filters);
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", THREADS);
        }
        // Frames of the runtime would hide the message. A retry prints them.
        command.env("RUST_BACKTRACE", "0");
        let (status, text) = output(&mut command)?;
        let result = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("test result: "));
        let failures = failed_tests(&text);
        // A program that a test ended prints no result.
        let Some(result) = result.filter(|_| status.success() || !failures.is_empty()) else {
            bail!("{text}\n{}: FAILED ({status})", self.name);
        };
        let took = start.elapsed().as_secs_f64();
        let (passed, skipped) = (count(result, "passed"), count(result, "ignored"));
        println!("{took:>7.1} s  {}: {passed} passed", self.name);
        let failures = failures.into_iter().map(|test| {
            let message = captured(&text, &test).to_owned();
            println!("{}: {test} FAILED\n{message}", self.name);
            Failure {
                program: self.clone(),
                test,
                output: message,
            }
        });
        Ok(Outcome {
            passed,
            skipped,
            failures: failures.collect(),
        })
    }
}

/// The result of one test program.
struct Outcome {
    passed: u64,
    skipped: u64,
    failures: Vec<Failure>,
}

/// A test that failed beside others.
struct Failure {
    program: Program,
    test: String,
    output: String,
}

impl Failure {
    /// Runs the test again, alone, up to twice. If the test passes, its first output
    /// goes to `target/flaky`.
    fn passes_alone(&self) -> Result<bool> {
        let (name, test) = (&self.program.name, &self.test);
        for _ in 0..RETRIES {
            println!("{name}: {test} failed, and runs again");
            let mut command = self.program.command();
            command
                .args(["--exact", test])
                .env("RUST_TEST_THREADS", "1")
                .env("RUST_BACKTRACE", "1");
            let (status, text) = output(&mut command)?;
            if status.success() {
                let directory = root().join("target/flaky");
                std::fs::create_dir_all(&directory)?;
                let file = format!("{name} {test}.txt").replace([' ', ':', '/'], "-");
                std::fs::write(directory.join(file), &self.output)?;
                return Ok(true);
            }
            println!("{text}");
        }
        Ok(false)
    }
}

/// Runs a program to its end. Returns its status and all of its output.
fn output(command: &mut Command) -> Result<(ExitStatus, String)> {
    let mut output = tempfile::tempfile().context("a file for the output of tests")?;
    let copy = |file: &File| file.try_clone().context("a file for the output of tests");
    command
        .stdin(Stdio::null())
        .stdout(copy(&output)?)
        .stderr(copy(&output)?);
    let status = command.status();
    let status = status.with_context(|| format!("starting {:?}", command.get_program()))?;
    let mut text = Vec::new();
    output.rewind().context("the output of tests")?;
    output
        .read_to_end(&mut text)
        .context("the output of tests")?;
    Ok((status, String::from_utf8_lossy(&text).into_owned()))
}

/// The failed tests, from the list at the end of a test program's output.
fn failed_tests(text: &str) -> Vec<String> {
    let Some((_, list)) = text.rsplit_once("\nfailures:\n") else {
        return Vec::new();
    };
    let names = list.lines().map_while(|line| line.strip_prefix("    "));
    names.map(str::to_owned).collect()
}

/// The output of one test in the output of its program.
fn captured<'a>(text: &'a str, test: &str) -> &'a str {
    let Some((_, text)) = text.rsplit_once(&format!("\n---- {test} stdout ----\n")) else {
        return text;
    };
    let end = text.find("\n---- ").or_else(|| text.rfind("\nfailures:\n"));
    end.map_or(text, |end| &text[..end])
}

/// The number before `what` in the result line of a test program.
fn count(result: &str, what: &str) -> u64 {
    let words: Vec<_> = result.split([' ', ';']).collect();
    let before = words.windows(2).find(|pair| pair[1] == what);
    before.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 3 tests
test a::works ... ok

failures:

---- a::breaks stdout ----
the reason

---- b::breaks stdout ----
another reason


failures:
    a::breaks
    b::breaks

test result: FAILED. 1 passed; 2 failed; 4 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn failed_tests_and_their_output_are_found() {
        assert_eq!(failed_tests(OUTPUT), ["a::breaks", "b::breaks"]);
        assert_eq!(captured(OUTPUT, "a::breaks").trim(), "the reason");
        assert_eq!(captured(OUTPUT, "b::breaks").trim(), "another reason");
        assert_eq!(failed_tests("test result: ok. 1 passed; 0 failed"), [""; 0]);
    }

    #[test]
    fn counts_are_those_of_the_result() {
        let result = "FAILED. 1 passed; 2 failed; 4 ignored; 0 measured";
        assert_eq!(count(result, "passed"), 1);
        assert_eq!(count(result, "failed"), 2);
        assert_eq!(count(result, "ignored"), 4);
    }
}

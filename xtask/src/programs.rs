//! The test programs of the workspace, run side by side: most tests wait (for a
//! round, an outage, a server that was killed) rather than compute.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Programs at a time.
const PROGRAMS: usize = 2;
/// Tests at a time in each of them, unless `RUST_TEST_THREADS` says otherwise.
const THREADS: &str = "4";

/// A test program that cargo built.
pub(crate) struct Program {
    executable: PathBuf,
    /// The directory of its package: tests run there, as under `cargo test`.
    package: PathBuf,
    /// The package and the target, for people.
    name: String,
    /// Of the executable, in bytes.
    size: u64,
}

/// Runs every test program that `build` makes, a `cargo test --no-run` with what
/// to build, and fails with the names of those that failed. What a program
/// printed is shown when it fails.
pub(crate) fn run(build: &mut Command) -> Result<()> {
    let mut programs = built(build)?;
    // Those that have most in them take longest: the last to start is a short one.
    programs.sort_by_key(|program| program.size);
    let (left, failed) = (Mutex::new(programs), Mutex::new(Vec::new()));
    let next = || left.lock().ok()?.pop();
    std::thread::scope(|scope| {
        for _ in 0..PROGRAMS {
            scope.spawn(|| {
                while let Some(program) = next() {
                    if let Err(error) = program.run() {
                        println!("{error:#}");
                        failed.lock().map(|mut all| all.push(program.name)).ok();
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    if !failed.is_empty() {
        bail!("tests failed in {}", failed.join(", "));
    }
    Ok(())
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

    /// Runs it to its end; the error has all it printed.
    fn run(&self) -> Result<()> {
        let start = Instant::now();
        let mut output = tempfile::tempfile().context("a file for what tests print")?;
        let copy = |file: &File| file.try_clone().context("a file for what tests print");
        let mut command = self.command();
        command
            .stdin(Stdio::null())
            .stdout(copy(&output)?)
            .stderr(copy(&output)?);
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", THREADS);
        }
        let status = command.status();
        let status = status.with_context(|| format!("starting {}", self.executable.display()))?;
        let mut text = Vec::new();
        output.rewind().context("what tests printed")?;
        output
            .read_to_end(&mut text)
            .context("what tests printed")?;
        let text = String::from_utf8_lossy(&text);
        // A program that a test ends does not say so.
        let result = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("test result: "));
        let Some(passed) = result.filter(|_| status.success()) else {
            bail!("{text}\n{}: FAILED ({status})", self.name);
        };
        let passed = passed.split(';').next().unwrap_or_default();
        let took = start.elapsed().as_secs_f64();
        println!("{took:>7.1} s  {}: {passed}", self.name);
        Ok(())
    }
}

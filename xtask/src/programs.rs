//! Test programs of the workspace, as cargo builds them, and their tests.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::step;

/// A test program that cargo built.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    executable: PathBuf,
    /// Directory of the package, where tests run, as under `cargo test`.
    package: PathBuf,
    /// Names of the package and the target, for output.
    pub(crate) name: String,
    /// Size of the executable in bytes.
    pub(crate) size: u64,
}

/// Runs `build`, a `cargo test --no-run`, and returns the test programs, whether rebuilt or up to
/// date. The lines of cargo go to `target/xtask/build.log`.
pub(crate) fn built(build: &mut Command) -> Result<Vec<Program>> {
    let (log, path) = step::log("build")?;
    build.arg("--message-format=json-render-diagnostics");
    let output = build.stderr(log).output().context("starting cargo")?;
    if !output.status.success() {
        step::print_errors(&path);
        bail!("the tests cannot be built ({})", output.status);
    }
    let messages = String::from_utf8(output.stdout).context("reading the messages of cargo")?;
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("parsing a message of cargo")?;
        if message["profile"]["test"] == true {
            programs.extend(Program::of(&message)?);
        }
    }
    if programs.is_empty() {
        bail!("cargo built no test program");
    }
    Ok(programs)
}

impl Program {
    /// Returns the program of a message `compiler-artifact`, if the message has one.
    fn of(artifact: &Value) -> Result<Option<Program>> {
        let path = |field: &str| artifact[field].as_str().map(PathBuf::from);
        let (Some(executable), Some(manifest)) = (path("executable"), path("manifest_path")) else {
            return Ok(None);
        };
        let package = manifest.parent().context("the manifest has no directory")?;
        let package_name = package.file_name().unwrap_or_default().to_string_lossy();
        let target = artifact["target"]["name"].as_str().unwrap_or_default();
        let kind = artifact["target"]["kind"][0].as_str().unwrap_or_default();
        let size = executable
            .metadata()
            .context("reading the size of a test program")?
            .len();
        Ok(Some(Program {
            name: format!("{package_name}: {kind} {target}"),
            package: package.to_owned(),
            executable,
            size,
        }))
    }

    /// Returns a command for the program, with the directory and environment of `cargo test`.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package);
        command
    }

    /// Returns true if the program belongs to one of the packages in these directories.
    pub(crate) fn is_of(&self, packages: &BTreeSet<PathBuf>) -> bool {
        packages.contains(&self.package)
    }

    /// Returns the names of the tests that contain one of `filters` (all tests without filters),
    /// and the number of tests that are marked `#[ignore]`.
    pub(crate) fn tests(&self, filters: &[String]) -> Result<(Vec<String>, usize)> {
        let ignored: BTreeSet<_> = self.list(filters, &["--ignored"])?.into_iter().collect();
        let mut tests = self.list(filters, &[])?;
        tests.retain(|test| !ignored.contains(test));
        Ok((tests, ignored.len()))
    }

    fn list(&self, filters: &[String], flags: &[&str]) -> Result<Vec<String>> {
        let mut command = self.command();
        command.args(["--list", "--format", "terse"]).args(flags);
        let output = command.args(filters).stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("starting {}", self.name))?;
        if !output.status.success() {
            bail!(
                "{}: the tests cannot be listed ({})",
                self.name,
                output.status
            );
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }
}

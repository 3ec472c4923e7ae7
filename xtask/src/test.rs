//! Everything that must pass before a change lands. Clippy, the tests, their
//! binaries and the doc tests share one build.

use std::process::Command;
use std::thread;

use anyhow::Result;

use crate::runner::{self, Report};
use crate::step::{Steps, cargo, check, in_ci};
use crate::{changed, conformance, deny, errors, fuzz, links, programs, prose, root};

/// Runs every step. With `strict`, a flaky test fails the run.
pub(crate) fn everything(strict: bool) -> Result<()> {
    let mut steps = Steps::default();
    let mut report = Report::default();
    // Servers are installed while the tests are built, because the installation downloads files.
    thread::scope(|scope| {
        let servers = scope.spawn(install_servers);
        steps.run("format", || {
            check(&mut cargo("fmt --all --check"))?;
            check(&mut cargo("fmt --manifest-path fuzz/Cargo.toml --check"))
        })?;
        steps.run("conformance", conformance::run)?;
        steps.run("links", links::run)?;
        steps.run("errors", errors::run)?;
        steps.run("prose", || prose::run(&[]))?;
        steps.run("clippy, and build of the tests", || {
            check(&mut linted(
                "test --workspace --all-targets --locked --no-run",
            ))
        })?;
        steps.run("servers for the tests", || match servers.join() {
            Ok(installed) => installed,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    steps.run("tests", || {
        report = run_programs(&[])?;
        println!("{report}");
        report.verdict(strict)
    })?;
    steps.run("doc tests", || {
        check(&mut linted("test --workspace --doc --locked"))
    })?;
    steps.run("documentation", || {
        let mut doc = cargo("doc --workspace --no-deps --locked");
        check(doc.env("RUSTDOCFLAGS", "--deny warnings"))
    })?;
    steps.run("the default build, a log alone", builds)?;
    match deny::require() {
        Err(reason) => steps.skip("dependencies", &reason),
        Ok(()) => steps.run("dependencies", deny::run)?,
    }
    match fuzz::require_cpp_compiler() {
        // All else needs a C compiler only, and so does a newcomer.
        Err(reason) if !in_ci() => steps.skip("fuzzing", &reason),
        _ => steps.run("fuzzing", || fuzz::run(None, &[]))?,
    }
    println!("\nEverything passed.\n{steps}\n{report}");
    Ok(())
}

/// Installs the servers of the tests as far as this machine permits. A test without its server
/// fails, and reports how to install the server.
fn install_servers() -> Result<()> {
    check(Command::new("scripts/install-test-tools").current_dir(root()))
}

/// Checks the builds of users, without the additional features of dependencies that tests enable:
/// the default build, and the smallest builds of a log and of the load engine. The checks show
/// that code of a feature is used only with the feature, and that no code is unused without it.
fn builds() -> Result<()> {
    check(&mut linted("check --package lucarne --locked"))?;
    check(&mut linted(
        "check --package lucarne --no-default-features --features sqlite --locked",
    ))?;
    check(&mut linted(
        "check --package lucarne-load --no-default-features --locked",
    ))
}

/// Runs the tests of all crates whose names contain one of `filters`, or all tests.
pub(crate) fn tests(filters: &[String], strict: bool) -> Result<()> {
    let report = run_programs(filters)?;
    println!("{report}");
    report.verdict(strict)
}

/// Runs the tests of the packages that a change since `main` can affect. Clippy runs
/// over all.
pub(crate) fn changed(filters: &[String], strict: bool) -> Result<()> {
    check(&mut cargo("fmt --all --check"))?;
    conformance::run()?;
    links::run()?;
    errors::run()?;
    prose::run(&[])?;
    let packages = changed::packages()?;
    let mut programs = programs::built(&mut all_programs())?;
    programs.retain(|program| program.is_of(&packages));
    let report = runner::run(programs, filters)?;
    println!("{report}");
    report.verdict(strict)
}

fn run_programs(filters: &[String]) -> Result<Report> {
    runner::run(programs::built(&mut all_programs())?, filters)
}

fn all_programs() -> Command {
    linted("test --workspace --tests --locked --no-run")
}

/// Returns a `cargo` command that compiles our crates with clippy and denies warnings.
/// `cargo clippy` before the build would compile all crates twice.
fn linted(arguments: &str) -> Command {
    let mut command = cargo(arguments);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    // How `cargo clippy` tells the driver of flags behind its `--`.
    let deny = ["--deny", "warnings", ""].join("__CLIPPY_HACKERY__");
    command.env("CLIPPY_ARGS", deny);
    command
}

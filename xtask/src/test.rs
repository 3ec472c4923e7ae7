//! All checks that a change must pass. Clippy, the tests, their binaries and the doc tests share
//! one build.

use std::collections::BTreeSet;
use std::process::Command;
use std::thread;

use anyhow::Result;

use crate::programs::{self, Program};
use crate::runner::{self, Report};
use crate::step::{Steps, cargo, check, in_ci};
use crate::{changed, conformance, deny, errors, fuzz, links, prose, root};

/// Runs every step. With `strict`, a flaky test fails the run.
pub(crate) fn everything(strict: bool) -> Result<()> {
    let mut steps = Steps::default();
    let mut report = Report::default();
    // The servers are installed while the tests are built, because the installation waits for
    // downloads.
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
    steps.run("tests of the feature otlp", || {
        let report = runner::run(otlp()?, &[])?;
        println!("{report}");
        report.verdict(strict)
    })?;
    match deny::require() {
        Err(reason) => steps.skip("dependencies", &reason),
        Ok(()) => steps.run("dependencies", deny::run)?,
    }
    match fuzz::require_cpp_compiler() {
        // The other steps need only a C compiler; a new contributor may have no C++ compiler.
        Err(reason) if !in_ci() => steps.skip("fuzzing", &reason),
        _ => steps.run("fuzzing", || fuzz::run(None, &[]))?,
    }
    println!("\nEverything passed.\n{steps}\n{report}");
    Ok(())
}

/// Installs the servers that this machine allows. A test without its server fails with the
/// instructions to install it.
fn install_servers() -> Result<()> {
    check(Command::new("scripts/install-test-tools").current_dir(root()))
}

/// Checks the builds of users, in which no test enables additional features of a dependency: the
/// default build, and the smallest builds of a log and of the load engine. The checks find code
/// that uses a feature without its condition, and code that is unused without the feature.
fn builds() -> Result<()> {
    check(&mut linted("check --package lucarne --locked"))?;
    check(&mut linted(
        "check --package lucarne --no-default-features --features sqlite --locked",
    ))?;
    check(&mut linted(
        "check --package lucarne-load --no-default-features --locked",
    ))
}

/// Builds the tests of `lucarne` with the feature `otlp`, which is not in the default build: the
/// unit tests and the program `otlp`. With `--workspace`, the dependencies have the same features
/// as in the build of the other tests, so that only this package is built again.
fn otlp() -> Result<Vec<Program>> {
    let mut build =
        linted("test --workspace --features lucarne/otlp --lib --test otlp --locked --no-run");
    let mut programs = programs::built(&mut build)?;
    let package = BTreeSet::from([root().join("crates/lucarne")]);
    programs.retain(|program| program.is_of(&package));
    Ok(programs)
}

/// Runs the tests of all crates whose names contain one of `filters`, or all tests.
pub(crate) fn tests(filters: &[String], strict: bool) -> Result<()> {
    let report = run_programs(filters)?;
    println!("{report}");
    report.verdict(strict)
}

/// Runs the tests of the packages that a change since `main` can affect. Clippy checks all
/// packages.
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

/// Returns a `cargo` command that compiles the crates of the workspace with clippy, which denies
/// warnings and otherwise works like rustc. `cargo clippy` does the same for a check. One build
/// replaces a check and a build, which would take twice the time.
fn linted(arguments: &str) -> Command {
    let mut command = cargo(arguments);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    // `cargo clippy` passes the flags after `--` to the driver in this form.
    let deny = ["--deny", "warnings", ""].join("__CLIPPY_HACKERY__");
    command.env("CLIPPY_ARGS", deny);
    command
}

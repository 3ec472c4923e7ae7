//! All checks that a change must pass. Clippy, the tests, their binaries and the doc tests share
//! one build.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::thread::{self, ScopedJoinHandle};

use anyhow::Result;

use crate::programs::{self, Program};
use crate::runner::{self, Report};
use crate::step::{Finished, Steps, cargo, check, quiet};
use crate::{changed, conformance, deny, errors, links, prose, root};

/// Runs every step. With `strict`, a flaky test fails the run.
pub(crate) fn everything(strict: bool) -> Result<()> {
    let mut steps = Steps::default();
    let mut report = Report::default();
    // The servers are installed while the tests are built, because the installation waits for
    // downloads.
    let programs = thread::scope(|scope| {
        let servers = scope.spawn(install_servers);
        steps.run("format", || check(&mut cargo("fmt --all --check")))?;
        steps.run("conformance", conformance::run)?;
        steps.run("links", links::run)?;
        steps.run("errors", errors::run)?;
        steps.run("prose", || prose::run(&[]))?;
        let mut programs = Vec::new();
        steps.run("clippy, and build of the tests", || {
            let mut build = linted("test --workspace --all-targets --locked --no-run");
            quiet(&mut build, "build")?;
            programs = programs::built(&mut all_programs())?;
            Ok(())
        })?;
        steps.run("servers for the tests", || joined(servers))?;
        anyhow::Ok(programs)
    })?;
    // Most tests wait. The other steps use the time, with the lowest priority, and build nothing
    // that a test starts.
    thread::scope(|scope| {
        let beside = scope.spawn(beside_the_tests);
        let tests = steps.run("tests", || {
            report = runner::run(programs, &[])?;
            println!("{report}");
            report.verdict(strict)
        });
        let beside = joined(beside);
        tests?;
        beside.into_iter().try_for_each(|step| steps.add(step))
    })?;
    steps.run("tests of the feature otlp", || {
        let report = runner::run(otlp()?, &[])?;
        println!("{report}");
        report.verdict(strict)
    })?;
    match deny::require() {
        Err(reason) => steps.skip("dependencies", &reason),
        Ok(()) => steps.run("dependencies", deny::run)?,
    }
    println!("\nEverything passed.\n{steps}\n{report}");
    Ok(())
}

/// Returns the result of a thread, which panics if the thread did.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Runs the steps that need no test program.
fn beside_the_tests() -> Vec<Finished> {
    let doc_tests = || {
        // lucarne-fuzz includes files of lucarne-log, whose examples need this crate.
        let mut command = beside("test --workspace --exclude lucarne-fuzz --doc --locked");
        quiet(&mut command, "doc-tests")
    };
    let documentation = || {
        let mut command = beside("doc --workspace --no-deps --locked");
        command.env("RUSTDOCFLAGS", "--deny warnings");
        quiet(&mut command, "documentation")
    };
    vec![
        Finished::run("doc tests", doc_tests),
        Finished::run("documentation", documentation),
        Finished::run("the default build, a log alone", builds),
        Finished::run("build of the feature otlp", || {
            quiet(&mut lowest(otlp_build()), "otlp")
        }),
    ]
}

/// Returns a `cargo` command with clippy and the lowest priority.
fn beside(arguments: &str) -> Command {
    lowest(linted(arguments))
}

/// Gives a command the lowest priority.
fn lowest(cargo: Command) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(cargo.get_program());
    command.args(cargo.get_args()).current_dir(root());
    for (name, value) in cargo.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
}

/// Installs the servers that this machine allows. A test without its server fails with the
/// instructions to install it.
fn install_servers() -> Result<()> {
    let mut install = Command::new("scripts/install-test-tools");
    quiet(install.current_dir(root()), "servers")
}

/// Checks the builds of users, in which no test enables additional features of a dependency: the
/// default build, and the smallest builds of a log and of the load engine. The checks find code
/// that uses a feature without its condition, and code that is unused without the feature.
fn builds() -> Result<()> {
    let checks = [
        "check --package lucarne --locked",
        "check --package lucarne --no-default-features --features sqlite --locked",
        "check --package lucarne-load --no-default-features --locked",
    ];
    checks
        .iter()
        .try_for_each(|arguments| quiet(&mut beside(arguments), "builds"))
}

/// Returns the programs that [`otlp_build`] builds: the unit tests and the program `otlp`.
fn otlp() -> Result<Vec<Program>> {
    let mut programs = programs::built(&mut otlp_build())?;
    let package = BTreeSet::from([root().join("crates/lucarne")]);
    programs.retain(|program| program.is_of(&package));
    Ok(programs)
}

/// Returns the command that builds the tests of `lucarne` with the feature `otlp`, which is not in
/// the default build. With `--workspace`, the dependencies have the same features as in the build
/// of the other tests, so that only this package is built again. The binary goes to another
/// directory, because the other tests start theirs at the same time.
fn otlp_build() -> Command {
    let mut build =
        linted("test --workspace --features lucarne/otlp --lib --test otlp --locked --no-run");
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root().join("target"), PathBuf::from);
    build
        .env("CARGO_TARGET_DIR", target.join("otlp"))
        .env("CARGO_BUILD_BUILD_DIR", target);
    build
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

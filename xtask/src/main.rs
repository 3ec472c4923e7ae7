//! Commands of this project: `cargo xtask help` lists them.
//!
//! This crate has few dependencies, so that it starts before the other crates are built.

mod changed;
mod conformance;
mod deny;
mod errors;
mod files;
mod fuzz;
mod guards;
mod links;
mod programs;
mod prose;
mod runner;
mod scale;
mod step;
mod test;
mod torture;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
Usage: cargo xtask <command>

Commands:
  test                  everything that must pass before a change lands: format,
                        conformance, links, errors, prose, clippy, tests, doc tests,
                        documentation, the default build, a log alone, dependencies. A
                        failed test runs again, alone, up to twice; if it passes, it is
                        flaky. The output of other programs is in target/xtask
  test --tests          the tests alone; RUST_TEST_THREADS is the number of tests at a
                        time [default: three for each core]
  test --changed        the tests of the crates that a change since `main` can affect
  test NAME...          the tests whose names contain one of these
  test --strict ...     the same; a flaky test fails the run, and so does a test that
                        leaves a process, a mount or a namespace behind
  fuzz [--seconds N] [TARGET...]
                        fuzz the targets of fuzz/targets (all, unless named), each for
                        N seconds [default: all of them share a minute]
  guards [NAME...]      apply each patch of xtask/guards (all, unless named) to a copy
                        of the sources, and show that its tests fail and no others do
  torture [--minutes N] [--seed S]
                        faults upon a log at work, one after the other, for N minutes
                        [default: 10]: killed at calls, calls that fail, power cuts,
                        lost writes, steps of the clock, hung disks, stores' answers
  prose                 find phrases that STYLE.md replaces; fails if a file has more
                        than docs/prose-baseline.txt allows
  prose --update        lower the numbers of docs/prose-baseline.txt to the findings
  prose PATH...         list all findings of the files whose paths start with one of these
  conformance           check that each function and test that docs/reference/conformance.md
                        and docs/explanation/incidents.md name exists
  links                 check that relative links, and names of pages in other files, resolve
  errors                check that docs/reference/errors.md has every code of the sources,
                        and only messages of the sources
  scale                 print what logs of three rates come to: the tables of
                        docs/explanation/performance.md
  targets up|down       start what plans of certificate infrastructure are run against
                        (a certificate inventory, nginx, Apache, HAProxy, an F5 stand-in,
                        Pebble) on loopback and print the environment that plans read;
                        it stays in the foreground: Ctrl-C or `down` ends all of it
";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result<()> {
    let Some((command, rest)) = arguments.split_first() else {
        bail!("no command is given\n\n{USAGE}");
    };
    match command.as_str() {
        "test" => test(rest),
        "fuzz" => {
            let (each, targets) = fuzz_arguments(rest)?;
            fuzz::run(each, targets)
        }
        "guards" => guards::run(rest),
        "torture" => {
            let (minutes, seed) = torture_arguments(rest)?;
            torture::run(minutes, seed)
        }
        "scale" if rest.is_empty() => {
            print!("{}", scale::tables());
            Ok(())
        }
        "prose" => prose::run(rest),
        "conformance" if rest.is_empty() => conformance::run(),
        "errors" if rest.is_empty() => errors::run(),
        "links" if rest.is_empty() => links::run(),
        "targets" if matches!(rest, [what] if what == "up" || what == "down") => targets(&rest[0]),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        _ => bail!("unknown command `{}`\n\n{USAGE}", arguments.join(" ")),
    }
}

/// Runs all steps, only the tests, or some of the tests.
fn test(arguments: &[String]) -> Result<()> {
    let (flags, names): (Vec<_>, Vec<_>) = arguments
        .iter()
        .cloned()
        .partition(|argument| argument.starts_with('-'));
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let known = ["--tests", "--changed", "--strict"];
    if let Some(flag) = flags.iter().find(|flag| !known.contains(&flag.as_str())) {
        bail!("unknown flag `{flag}`\n\n{USAGE}");
    }
    let strict = has("--strict");
    if has("--changed") {
        test::changed(&names, strict)
    } else if has("--tests") || !names.is_empty() {
        test::tests(&names, strict)
    } else {
        test::everything(strict)
    }
}

/// Starts or ends the targets, which have their own program.
fn targets(what: &str) -> Result<()> {
    if what == "up" {
        step::check(&mut std::process::Command::new(
            root().join("scripts/install-test-tools"),
        ))?;
    }
    step::check(&mut step::cargo(&format!(
        "run --quiet -p lucarne-targets -- {what}"
    )))
}

/// Parses the seconds for each target, if given, and the named targets.
fn fuzz_arguments(arguments: &[String]) -> Result<(Option<Duration>, &[String])> {
    let (seconds, targets) = match arguments {
        [flag, seconds, targets @ ..] if flag == "--seconds" => (Some(seconds), targets),
        targets => (None, targets),
    };
    if let Some(flag) = targets.iter().find(|target| target.starts_with('-')) {
        bail!("unexpected option `{flag}`\n\n{USAGE}");
    }
    let each = seconds
        .map(|text| text.parse().map(Duration::from_secs))
        .transpose()
        .context("--seconds takes a whole number")?;
    Ok((each, targets))
}

/// Parses the minutes, and the seed if it is given.
fn torture_arguments(arguments: &[String]) -> Result<(u64, Option<u64>)> {
    let (mut minutes, mut seed) = (10, None);
    for pair in arguments.chunks(2) {
        match pair {
            [flag, value] if flag == "--minutes" => {
                minutes = value.parse().context("--minutes takes a whole number")?;
            }
            [flag, value] if flag == "--seed" => {
                seed = Some(value.parse().context("--seed takes a whole number")?);
            }
            _ => bail!("unexpected arguments `{}`\n\n{USAGE}", pair.join(" ")),
        }
    }
    Ok((minutes, seed))
}

/// Returns the root of the workspace.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

//! `cargo xtask guards`: shows that the tests of each guard of the protocol fail without the guard,
//! and that no other tests fail.
//!
//! `crates/storage/src/guards.rs` defines the guards. The guards can be disabled only in a build
//! with `--cfg lucarne_guards`. For this build, cargo calls xtask as the wrapper of the compiler
//! for the crates of the workspace, so their dependencies are not built again. The output goes to
//! `target/guards`, apart from all other builds.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::programs::{self, Program};
use crate::root;
use crate::step::cargo;

/// Each guard, and the tests that fail without it.
const GUARDS: [(&str, &[&str]); 9] = [
    (
        "sync",
        &["lost_writes::a_round_that_the_disk_lost_was_not_acknowledged"],
    ),
    (
        "commit-first",
        &["crash::a_failing_lock_stops_the_log_until_it_heals"],
    ),
    (
        "answer-last",
        &["crash::nobody_is_answered_before_the_checkpoint_is_published"],
    ),
    ("swap", &["crash::a_second_signer_is_noticed"]),
    (
        "index-last",
        &["crash::nothing_is_in_the_index_before_it_is_published"],
    ),
    (
        "verify",
        &[
            "data::verify::tests::an_entry_that_changed_since_it_was_examined_is_noticed",
            "data::verify::tests::a_tree_that_changed_since_it_was_signed_is_noticed",
        ],
    ),
    (
        "condition",
        &[
            "objects::checkpoint::of_two_who_publish_one_goes_on",
            "objects::checkpoint::what_is_read_meanwhile_is_not_taken_for_ours",
            "objects::checkpoint::a_put_that_arrives_late_does_not_turn_the_checkpoint_back",
        ],
    ),
    (
        "vouched-rebuild",
        &[
            "index::catchup::tests::what_the_tree_does_not_vouch_for_is_a_gap",
            "index::catchup::tests::what_was_read_for_a_tile_is_counted",
        ],
    ),
    (
        "unknown-refused",
        &[
            "submit::submission::backlog_tests::what_may_not_be_read_yet_is_refused_and_the_rest_taken",
        ],
    ),
];

/// Environment variable with which this program runs in the compiler's place.
const AS_COMPILER: &str = "LUCARNE_XTASK_AS_COMPILER";

/// Maximum time of the tests of one run.
const TESTS_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs the compiler if cargo has called this program in its place, and returns the exit code.
pub(crate) fn as_compiler() -> Option<ExitCode> {
    std::env::var_os(AS_COMPILER)?;
    let mut arguments = std::env::args_os().skip(1);
    let mut compiler = Command::new(arguments.next()?);
    compiler.args(arguments).args(["--cfg", "lucarne_guards"]);
    let status = compiler.status();
    let succeeded = status.is_ok_and(|status| status.success());
    Some(if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

pub(crate) fn run() -> Result<()> {
    let programs = programs::built(&mut build()?)?;
    let all: BTreeSet<&str> = GUARDS
        .iter()
        .flat_map(|(_, tests)| *tests)
        .copied()
        .collect();
    println!("{} tests, without each guard in turn:\n", all.len());
    println!("| without | fail | pass | |\n|---|---|---|---|");
    let mut wrong = Vec::new();
    let nothing: (&str, &[&str]) = ("", &[]);
    for (guard, expected) in std::iter::once(nothing).chain(GUARDS) {
        let start = Instant::now();
        let failed = failed(&programs, guard, &all)?;
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let name = if guard.is_empty() { "none" } else { guard };
        let (count, took) = (failed.len(), start.elapsed().as_secs_f64());
        let verdict = if failed == expected {
            "as it must be"
        } else {
            "WRONG"
        };
        let passed = all.len() - count;
        println!("| {name} | {count} | {passed} | {verdict}, {took:.0} s |");
        for test in failed.symmetric_difference(&expected) {
            let what = if failed.contains(test) {
                "fails"
            } else {
                "passes"
            };
            wrong.push(format!("without {name}, `{test}` {what}"));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!("{}", wrong.join("\n"))
    }
}

/// Returns the command that builds the programs with these tests.
fn build() -> Result<Command> {
    let mut build =
        cargo("test -p lucarne-storage -p lucarne-log --lib --test it --locked --no-run");
    let here = std::env::current_exe().context("finding the path of this program")?;
    build
        .env("RUSTC_WORKSPACE_WRAPPER", here)
        .env(AS_COMPILER, "1")
        .env("CARGO_BUILD_BUILD_DIR", root().join("target"))
        .env("CARGO_TARGET_DIR", root().join("target/guards"));
    Ok(build)
}

/// Returns the tests that do not pass without this guard.
fn failed<'t>(
    programs: &[Program],
    guard: &str,
    tests: &BTreeSet<&'t str>,
) -> Result<BTreeSet<&'t str>> {
    let mut passed = BTreeSet::new();
    for program in programs {
        let mut command = program.command();
        command.arg("--exact").args(tests).stdin(Stdio::null());
        match guard {
            "" => command.env_remove("LUCARNE_WITHOUT"),
            guard => command.env("LUCARNE_WITHOUT", guard),
        };
        let said = said(&mut command)?;
        let lines = said.lines().filter_map(|line| line.strip_prefix("test "));
        let names = lines.filter_map(|line| line.strip_suffix(" ... ok"));
        passed.extend(names.filter_map(|name| tests.get(name)).copied());
    }
    Ok(tests.difference(&passed).copied().collect())
}

/// Returns the output of the command, which is killed after its maximum time.
fn said(command: &mut Command) -> Result<String> {
    let mut output =
        tempfile::NamedTempFile::new().context("creating a file for the output of tests")?;
    let file = output
        .reopen()
        .context("opening the file for the output of tests")?;
    command.stdout(file).stderr(Stdio::null());
    let line = command.get_program().to_owned();
    let mut child = command.spawn().with_context(|| starting(&line))?;
    let start = Instant::now();
    while child.try_wait().with_context(|| starting(&line))?.is_none() {
        if start.elapsed() > TESTS_TIMEOUT {
            child.kill().with_context(|| starting(&line))?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut text = String::new();
    std::io::Read::read_to_string(output.as_file_mut(), &mut text)
        .context("reading the output of tests")?;
    Ok(text)
}

fn starting(program: &OsStr) -> String {
    format!("running {}", program.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guard_has_tests_that_fail_without_it() {
        let source = include_str!("../../crates/storage/src/guards.rs");
        let names = source.lines().filter_map(|line| line.split_once(" => \""));
        let names: Vec<_> = names
            .filter_map(|(_, name)| name.strip_suffix("\","))
            .collect();
        let listed: Vec<_> = GUARDS.iter().map(|(guard, _)| *guard).collect();
        assert_eq!(names, listed);
        assert!(GUARDS.iter().all(|(_, tests)| !tests.is_empty()));
    }
}

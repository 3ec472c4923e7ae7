//! `cargo xtask guards`: shows that the tests of each guard of the protocol fail without the guard,
//! and that no other tests fail.
//!
//! A patch in `xtask/guards` removes a guard. The command applies the patches one after the other
//! to a copy of the sources in `target/guards`, so that the product has no switch for a guard.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::programs::{self, Program};
use crate::step::{cargo, check};
use crate::{files, root};

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

/// Maximum time of the tests of one run.
const TESTS_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs the tests with all guards, then without each guard in turn, or without each of `names`.
pub(crate) fn run(names: &[String]) -> Result<()> {
    let known = |name: &String| GUARDS.iter().any(|(guard, _)| guard == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        bail!("no guard is called `{name}`: xtask/guards has a patch for each");
    }
    let sources = root().join("target/guards/sources");
    copy_sources(&sources)?;
    let all: BTreeSet<&str> = GUARDS
        .iter()
        .flat_map(|(_, tests)| *tests)
        .copied()
        .collect();
    println!("{} tests, without each guard in turn:\n", all.len());
    println!("| without | fail | pass | |\n|---|---|---|---|");
    let mut wrong = verdict("nothing", &failed(&sources, &all)?, &[], &all);
    let chosen = GUARDS
        .iter()
        .filter(|(guard, _)| names.is_empty() || names.iter().any(|name| name == guard));
    for (guard, expected) in chosen {
        apply(&sources, guard, &[])?;
        let failed = failed(&sources, &all);
        apply(&sources, guard, &["--reverse"])?;
        wrong.extend(verdict(guard, &failed?, expected, &all));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!("{}", wrong.join("\n"))
    }
}

/// Prints a row of the table, and returns the differences from the expected failures.
fn verdict(
    guard: &str,
    failed: &BTreeSet<&str>,
    expected: &[&str],
    all: &BTreeSet<&str>,
) -> Vec<String> {
    let expected: BTreeSet<&str> = expected.iter().copied().collect();
    let verdict = if *failed == expected {
        "as expected"
    } else {
        "WRONG"
    };
    let passed = all.len() - failed.len();
    println!("| {guard} | {} | {passed} | {verdict} |", failed.len());
    let differences = failed.symmetric_difference(&expected);
    let wrong = differences.map(|test| {
        let verb = if failed.contains(test) {
            "fails"
        } else {
            "passes"
        };
        format!("without {guard}, `{test}` {verb}")
    });
    wrong.collect()
}

/// Copies the files of the work tree. Equal files stay, so that cargo does not build them again.
fn copy_sources(to: &Path) -> Result<()> {
    let (names, list) = (files::with(&[])?, to.with_extension("list"));
    let copied = fs::read_to_string(&list).unwrap_or_default();
    for gone in copied
        .lines()
        .filter(|old| !names.iter().any(|name| name == old))
    {
        // The last run may have ended before it copied this file.
        let _ = fs::remove_file(to.join(gone));
    }
    fs::create_dir_all(to)?;
    fs::write(&list, names.join("\n"))?;
    for name in names {
        let (from, to) = (root().join(&name), to.join(&name));
        let bytes = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
        if fs::read(&to).is_ok_and(|old| old == bytes) {
            continue;
        }
        let created = fs::create_dir_all(to.parent().unwrap_or(&to));
        let written = created.and_then(|()| fs::write(&to, bytes));
        written.with_context(|| format!("writing {}", to.display()))?;
    }
    Ok(())
}

/// Applies the patch of a guard to the copy of the sources.
fn apply(sources: &Path, guard: &str, flags: &[&str]) -> Result<()> {
    let mut git = Command::new("git");
    // Without a repository, git changes exactly the files below this directory.
    git.current_dir(sources)
        .env("GIT_CEILING_DIRECTORIES", root().join("target/guards"))
        .arg("apply")
        .args(flags)
        .arg(patch(guard));
    check(&mut git).context("the patch must follow the code that it changes")
}

fn patch(guard: &str) -> PathBuf {
    root().join(format!("xtask/guards/{guard}.patch"))
}

/// Builds the programs with these tests, and returns the tests that do not pass.
fn failed<'t>(sources: &Path, tests: &BTreeSet<&'t str>) -> Result<BTreeSet<&'t str>> {
    let mut build =
        cargo("test -p lucarne-storage -p lucarne-log --lib --test it --locked --no-run");
    build
        .current_dir(sources)
        .env("CARGO_TARGET_DIR", root().join("target/guards"));
    let mut passed = BTreeSet::new();
    for program in programs::built(&mut build)? {
        passed.extend(passing(&program, tests)?);
    }
    Ok(tests.difference(&passed).copied().collect())
}

/// Returns the tests that pass in a program.
fn passing<'t>(program: &Program, tests: &BTreeSet<&'t str>) -> Result<Vec<&'t str>> {
    let mut command = program.command();
    command.arg("--exact").args(tests).stdin(Stdio::null());
    let output = output(&mut command)?;
    let lines = output
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"));
    Ok(lines.filter_map(|name| tests.get(name)).copied().collect())
}

/// Returns the output of the command, which is killed after its maximum time.
fn output(command: &mut Command) -> Result<String> {
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

    /// A patch that no longer applies protects nothing.
    #[test]
    fn every_guard_has_tests_and_a_patch_that_applies() {
        let patches = fs::read_dir(root().join("xtask/guards")).unwrap();
        let patches: BTreeSet<_> = patches
            .map(|file| file.unwrap().path())
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        let listed: BTreeSet<_> = GUARDS
            .iter()
            .map(|(guard, _)| (*guard).to_owned())
            .collect();
        assert_eq!(patches, listed);
        for (guard, tests) in GUARDS {
            assert!(!tests.is_empty());
            apply(root(), guard, &["--check"]).unwrap();
        }
    }
}

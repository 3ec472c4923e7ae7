//! Everything that must pass before a change lands, cheapest first. Tests,
//! their binary and the doc tests share one build.

use std::process::Command;

use anyhow::Result;

use crate::step::{Steps, cargo, check, in_ci};
use crate::{fuzz, root};

pub(crate) fn everything() -> Result<()> {
    let mut steps = Steps::default();
    // It installs what this machine lets us. A test that then misses a server
    // fails and says how to get it.
    steps.run("servers for the tests", || {
        check(Command::new("scripts/install-test-tools").current_dir(root()))
    })?;
    steps.run("format", || {
        check(&mut cargo("fmt --all --check"))?;
        check(&mut cargo("fmt --manifest-path fuzz/Cargo.toml --check"))
    })?;
    steps.run("clippy", || {
        let clippy = "clippy --workspace --all-targets --locked -- --deny warnings";
        check(&mut cargo(clippy))
    })?;
    steps.run("documentation", || {
        let mut doc = cargo("doc --workspace --no-deps --locked");
        check(doc.env("RUSTDOCFLAGS", "--deny warnings"))
    })?;
    steps.run("build of the tests", || {
        check(&mut cargo("test --workspace --tests --locked --no-run"))
    })?;
    steps.run("tests", || {
        check(&mut cargo("test --workspace --tests --locked"))
    })?;
    steps.run("doc tests", || {
        check(&mut cargo("test --workspace --doc --locked"))
    })?;
    match fuzz::require_cpp_compiler() {
        // All else needs a C compiler only, and so does a newcomer.
        Err(reason) if !in_ci() => steps.skip("fuzzing", &reason),
        _ => steps.run("fuzzing", || fuzz::run(None, &[]))?,
    }
    println!("\nEverything passed.\n{steps}");
    Ok(())
}

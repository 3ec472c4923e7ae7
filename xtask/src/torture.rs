//! Faults in a running log for a chosen time: runs the tests below `torture` of the binary, each
//! with more cases than in the test run.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::step::cargo;

/// Number of classes of faults; [`AT_ONCE`] of them run at the same time.
const CLASSES: u64 = 9;
const AT_ONCE: u64 = 2;

/// Runs every class for an equal time, so that all classes together take `minutes`, and prints the
/// numbers of cases. `seed` repeats a run.
pub(crate) fn run(minutes: u64, seed: Option<u64>) -> Result<()> {
    let seconds = (minutes * 60 / CLASSES.div_ceil(AT_ONCE)).max(1);
    let mut torture = cargo("test --locked -p lucarne --test it -- torture:: --nocapture");
    torture.arg(format!("--test-threads={AT_ONCE}"));
    torture.env("LUCARNE_TORTURE", seconds.to_string());
    if let Some(seed) = seed {
        torture.env("LUCARNE_SEED", seed.to_string());
    }
    let mut running = torture
        .stdout(Stdio::piped())
        .spawn()
        .context("starting cargo")?;
    let output = running
        .stdout
        .take()
        .context("taking the output of the tests")?;
    let mut classes = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        // The test runner may print text before `torture:` in the same line.
        classes.extend(
            line.split_once("torture: ")
                .map(|(_, class)| class.to_owned()),
        );
    }
    let status = running.wait()?;
    println!("\n{}", classes.join("\n"));
    if !status.success() {
        bail!(
            "a fault lost data, or could not be injected: run the line with LUCARNE_SEED to \
             repeat the fault"
        );
    }
    if (classes.len() as u64) < CLASSES {
        bail!(
            "only {} of {CLASSES} classes reported their number of cases",
            classes.len()
        );
    }
    Ok(())
}

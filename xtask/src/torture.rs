//! Faults upon a log at work, for as long as one likes to wait: the tests below
//! `torture` of the binary, each with more cases than the test run takes.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::step::cargo;

/// Number of classes of faults, and of classes that run at the same time.
const CLASSES: u64 = 7;
const AT_ONCE: u64 = 2;

/// Runs every class so long that all of them take `minutes`, and prints how many
/// cases that were. `seed` repeats a run.
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
    let output = running.stdout.take().context("its output")?;
    let mut classes = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        // The runner's own words may stand before it in the line.
        classes.extend(
            line.split_once("torture: ")
                .map(|(_, class)| class.to_owned()),
        );
    }
    let status = running.wait()?;
    println!("\n{}", classes.join("\n"));
    if !status.success() {
        bail!(
            "a fault lost something, or could not be tried; its line with LUCARNE_SEED repeats it"
        );
    }
    if (classes.len() as u64) < CLASSES {
        bail!(
            "{} of {CLASSES} classes have said how many cases they had",
            classes.len()
        );
    }
    Ok(())
}

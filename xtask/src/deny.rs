//! Checks of the dependencies against `deny.toml`.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Result, bail};

use crate::step::{cargo, check};

/// Fails with the reason if cargo-deny cannot run without the network.
pub(crate) fn require() -> Result<()> {
    let version = cargo("deny --version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !version.is_ok_and(|status| status.success()) {
        bail!("cargo-deny is not installed: run `cargo install --locked cargo-deny`");
    }
    if !advisories().is_some_and(|directory| directory.exists()) {
        bail!("cargo-deny has no advisories: run `cargo deny fetch`");
    }
    Ok(())
}

/// Checks advisories, licences, duplicates and sources with the rules of `deny.toml`.
pub(crate) fn run() -> Result<()> {
    // cargo-deny also reads the manifests of crates for other systems, which a build does not
    // fetch.
    check(&mut cargo("fetch --locked"))?;
    check(&mut cargo("deny --locked --offline check"))
}

/// Returns the directory where cargo-deny keeps its databases.
fn advisories() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    Some(home.join("advisory-dbs"))
}

//! The packages that a change since `main` can affect.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::root;
use crate::step::cargo;

/// Package whose tests run the examples of documentation, plans and scripts.
const BINARY: &str = "crates/lucarne";

/// Returns the directories of the packages whose tests a change since `main` can affect: packages
/// with changed files, and all packages that depend on them.
pub(crate) fn packages() -> Result<BTreeSet<PathBuf>> {
    let metadata = cargo("metadata --format-version 1 --no-deps --locked").output();
    let metadata = metadata.context("starting cargo metadata")?;
    let metadata: Value =
        serde_json::from_slice(&metadata.stdout).context("reading cargo's metadata")?;
    let dependencies = dependencies(&metadata)?;
    Ok(affected(&changed_files()?, &dependencies))
}

/// Maps each package of the workspace, by directory, to its dependencies in the workspace,
/// including those of its tests and build.
fn dependencies(metadata: &Value) -> Result<BTreeMap<PathBuf, Vec<PathBuf>>> {
    let packages = metadata["packages"].as_array();
    let packages = packages.context("cargo metadata names no packages")?;
    let one = |package: &Value| {
        let manifest = package["manifest_path"].as_str().map(Path::new);
        let directory = manifest.and_then(Path::parent);
        let on = package["dependencies"].as_array().into_iter().flatten();
        let on = on.filter_map(|it| it["path"].as_str().map(PathBuf::from));
        directory.map(|directory| (directory.to_owned(), on.collect()))
    };
    Ok(packages.iter().filter_map(one).collect())
}

/// Lists the files that differ from the commit where this branch left `main`, including uncommitted
/// files.
fn changed_files() -> Result<Vec<PathBuf>> {
    let base = git(&["merge-base", "HEAD", "main"])?;
    let tracked = git(&["diff", "--name-only", base.trim()])?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard"])?;
    let files = tracked.lines().chain(untracked.lines());
    Ok(files.map(|file| root().join(file)).collect())
}

fn git(arguments: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    let output = git.current_dir(root()).args(arguments).output();
    let output = output.context("starting git")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("git {}: {}", arguments.join(" "), error.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn affected(
    files: &[PathBuf],
    dependencies: &BTreeMap<PathBuf, Vec<PathBuf>>,
) -> BTreeSet<PathBuf> {
    let mut affected = BTreeSet::new();
    for file in files {
        let owner = dependencies.keys().filter(|it| file.starts_with(it));
        match owner.max_by_key(|it| it.components().count()) {
            Some(package) => affected.extend([package.clone()]),
            None if is_of_all(file) => affected.extend(dependencies.keys().cloned()),
            None => affected.extend([root().join(BINARY)]),
        }
    }
    loop {
        let more: Vec<_> = dependencies
            .iter()
            .filter(|(package, _)| !affected.contains(*package))
            .filter(|(_, on)| on.iter().any(|it| affected.contains(it)))
            .map(|(package, _)| package.clone())
            .collect();
        if more.is_empty() {
            return affected;
        }
        affected.extend(more);
    }
}

/// Returns true for files of the workspace that affect the build of every package.
fn is_of_all(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default();
    let names = [
        "Cargo.toml",
        "Cargo.lock",
        "clippy.toml",
        "rust-toolchain.toml",
    ];
    names.iter().any(|it| name == *it) || file.starts_with(root().join(".cargo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_affects_what_depends_on_it() {
        let at = |name: &str| root().join(name);
        let dependencies = BTreeMap::from([
            (at("crates/tlog"), vec![]),
            (at("crates/log"), vec![at("crates/tlog")]),
            (at(BINARY), vec![at("crates/log")]),
            (at("crates/x509"), vec![]),
        ]);
        let affected = |file: &str| {
            let packages = affected(&[at(file)], &dependencies);
            let name = |it: &PathBuf| it.file_name().unwrap().to_string_lossy().into_owned();
            packages.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(
            affected("crates/tlog/src/lib.rs"),
            ["log", "lucarne", "tlog"]
        );
        assert_eq!(affected("crates/log/src/lib.rs"), ["log", "lucarne"]);
        assert_eq!(affected("crates/x509/tests/it.rs"), ["x509"]);
        assert_eq!(affected("docs/reference/metrics.md"), ["lucarne"]);
        assert_eq!(affected("Cargo.lock").len(), 4);
    }
}

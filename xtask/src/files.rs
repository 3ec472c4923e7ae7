//! Files of the work tree.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::root;

/// Returns the paths of the files that match these patterns of git, sorted, without ignored files.
pub(crate) fn with(patterns: &[&str]) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .arg("--")
        .args(patterns)
        .current_dir(root());
    let output = git.output().context("running git")?;
    if !output.status.success() {
        bail!(
            "git ls-files failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut files: Vec<String> = names
        .lines()
        .filter(|name| root().join(name).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

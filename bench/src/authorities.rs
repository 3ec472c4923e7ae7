//! The CAs that issue the submissions of `lucarne load`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Returns the directory of the CAs in `store`; `lucarne ca new` creates missing CAs.
pub(crate) fn open(lucarne: &Path, store: &Path) -> Result<PathBuf> {
    let authorities = store.join("authorities");
    if !authorities.join("roots.pem").exists() {
        std::fs::create_dir_all(store)?;
        let mut making = Command::new(lucarne);
        let made = making.args(["ca", "new"]).arg(&authorities).output();
        let made = made.with_context(|| format!("cannot run {}", lucarne.display()))?;
        let said = String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "lucarne ca new failed: {said}");
    }
    Ok(authorities)
}

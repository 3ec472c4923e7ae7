//! Files in the directory of a log that its signed tree does not refer to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use lucarne_ct::Fingerprint;
use lucarne_ctread::Source;
use lucarne_log::{Finding, Problem, superseded};
use lucarne_tlog::Tile;

use super::mending::Mending;
use super::report::Report;

/// Maximum number of unexpected files that are named; others are counted.
const MAX_NAMED: usize = 20;

/// Files below a directory, by kind.
#[derive(Default)]
struct Listed {
    /// Partial tiles that a wider tile replaces.
    superseded: Vec<Tile>,
    issuers: Vec<Fingerprint>,
    /// Number of tiles that were added after the checkpoint was read.
    newer: u64,
    /// Number of names tiles whose partial data tile is replaced by a wider tile.
    superseded_names: usize,
    /// Paths that do not belong to a log.
    others: Vec<String>,
}

/// Checks the files beside the tree of `size` entries, and reports unneeded files.
///
/// # Errors
/// If the directory cannot be listed, or a repaired file cannot be written.
pub(super) async fn look(
    directory: &Path,
    files: &Arc<dyn Source>,
    size: u64,
    mending: Option<&Mending>,
    report: &mut Report,
) -> Result<()> {
    let is_sound = report.wrong == 0 && report.unread == 0;
    let root = directory.to_owned();
    let listed = tokio::task::spawn_blocking(move || Listed::of(&root, size)).await?;
    let listed = listed.with_context(|| format!("cannot list {}", directory.display()))?;
    // A wider tile that may be wrong proves nothing about a partial tile.
    for tile in listed.superseded.iter().filter(|_| is_sound) {
        match (superseded(files, *tile, size).await, mending) {
            (Some(finding), Some(mending)) => {
                let tile = (*tile, size);
                let mended = mending.superseded(&**files, tile, finding, report).await?;
                report.mended(mended);
            }
            (Some(finding), None) => report.finding(&finding),
            (None, _) => {}
        }
    }
    for issuer in &listed.issuers {
        match (issuer_of_another_name(&**files, issuer).await, mending) {
            (Some(finding), Some(mending)) => {
                let mended = mending.issuer(issuer, finding, report).await?;
                report.mended(mended);
            }
            (Some(finding), None) => report.finding(&finding),
            (None, _) => {}
        }
    }
    if !is_sound && !listed.superseded.is_empty() {
        report.note(
            "superseded partial tiles were not compared, because the tree has faults: repair the \
             tree, and run this command again",
        );
    }
    let count = listed.superseded.len() + listed.superseded_names;
    if count > 0 {
        report.note(&format!("{count} partial tiles are no longer needed"));
    }
    if listed.newer > 0 {
        let count = listed.newer;
        report.note(&format!("{count} tiles are newer than the checkpoint"));
    }
    for path in listed.others.iter().take(MAX_NAMED) {
        report.note(&format!("{path} is not a file of a log"));
    }
    if listed.others.len() > MAX_NAMED {
        let more = listed.others.len() - MAX_NAMED;
        report.note(&format!("and {more} more are not files of a log"));
    }
    Ok(())
}

/// Checks an issuer that may have no entry, and returns the finding.
async fn issuer_of_another_name(files: &dyn Source, issuer: &Fingerprint) -> Option<Finding> {
    let path = format!("issuer/{issuer}");
    let problem = match files.read(&path).await {
        Ok(Some(der)) if Fingerprint::of(&der) != *issuer => Problem::Issuer,
        Err(error) => Problem::Unreadable(error),
        Ok(_) => return None,
    };
    Some(Finding {
        path,
        offset: None,
        entry: None,
        problem,
    })
}

impl Listed {
    fn of(root: &Path, size: u64) -> io::Result<Self> {
        let mut listed = Listed::default();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(root.join(&folder))? {
                let file = file?;
                let path = folder.join(file.file_name());
                // `serve` checks the private files of a log at startup.
                if path.starts_with(".lucarne") {
                    continue;
                }
                if file.file_type()?.is_dir() {
                    folders.push(path);
                } else {
                    listed.add(&path.to_string_lossy(), size);
                }
            }
        }
        Ok(listed)
    }

    fn add(&mut self, path: &str, size: u64) {
        if let Some(name) = path.strip_prefix("issuer/") {
            match name.parse() {
                Ok(issuer) => self.issuers.push(issuer),
                Err(_) => self.others.push(path.to_owned()),
            }
            return;
        }
        match Tile::parse(path) {
            Ok(tile) if !tile.covered_by(size) => self.newer += 1,
            Ok(tile) if Tile::widest(tile.level(), tile.index(), size) != Some(tile) => {
                self.superseded.push(tile);
            }
            Ok(_) => {}
            Err(_) if Tile::parse_names(path).is_ok_and(|tile| self.add_names(tile, size)) => {}
            Err(_) if matches!(path, "checkpoint" | "log.v3.json") => {}
            Err(_) => self.others.push(path.to_owned()),
        }
    }

    /// Counts the names tile of a data tile. Always returns `true`.
    fn add_names(&mut self, data: Tile, size: u64) -> bool {
        let needed = Tile::widest(data.level(), data.index(), size) == Some(data);
        if data.covered_by(size) {
            self.superseded_names += usize::from(!needed);
        } else {
            self.newer += 1;
        }
        true
    }
}

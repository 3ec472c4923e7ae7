//! The index of an earlier version, which this version cannot read.
//!
//! Earlier versions had their index in a sibling directory, and parts of it in a database. This
//! version builds its own index from the tiles, and the earlier version can continue with its files
//! if a hand-over fails. `catchup.rs` removes them later.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::anchor::ANCHOR;
use super::failure::fatal;
use super::opening::{LOCK, locked};
use super::sealed::sync;
use crate::data::tree::TreeHead;
use crate::error::Fatal;

/// The directory of an earlier version, beside the directory of the index.
const DIRECTORY: &str = "dedup";

/// Returns the directory in which an earlier version has its index beside the index in `path`.
pub(crate) fn directory(path: &Path) -> PathBuf {
    path.with_file_name(DIRECTORY)
}

/// Returns the directory of the earlier index beside the index in `path`, and its open lock. The
/// lock excludes processes of both versions. Returns `None` if there is no earlier index.
fn open(path: &Path) -> Result<Option<(PathBuf, File)>, Fatal> {
    let earlier = directory(path);
    // An index with an anchor belongs to this version.
    if earlier == path || earlier.join(ANCHOR).exists() {
        return Ok(None);
    }
    let lock = match File::open(earlier.join(LOCK)) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened.map_err(|error| fatal(&earlier, &error))?,
    };
    locked(&earlier, &lock)?;
    Ok(Some((earlier, lock)))
}

/// Returns an empty tree if there is an earlier index: the log exists, but its size is unknown.
///
/// # Errors
/// If another process has the earlier index open, or the index cannot be opened.
pub(super) fn look(path: &Path) -> Result<Option<TreeHead>, Fatal> {
    Ok(open(path)?.map(|_| TreeHead::EMPTY))
}

/// Returns whether a process of an earlier version has its index open.
pub(crate) fn is_in_use(path: &Path) -> Result<bool, Fatal> {
    match open(path) {
        Err(fatal) if fatal.is_index_in_use() => Ok(true),
        opened => opened.map(|_| false),
    }
}

/// Removes the files of an earlier index, and no other files. Returns whether there was an index.
///
/// # Errors
/// If another process has the earlier index open, or a file cannot be removed. The next call
/// continues.
pub(crate) fn remove(path: &Path) -> Result<bool, Fatal> {
    let Some((earlier, _lock)) = open(path)? else {
        return Ok(false);
    };
    let removed = remove_files(&earlier);
    removed.map_err(|error| fatal(&earlier, &error))?;
    Ok(true)
}

fn remove_files(earlier: &Path) -> io::Result<()> {
    for entry in earlier.read_dir()? {
        let path = entry?.path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("tables" | "keyspaces") => fs::remove_dir_all(path)?,
            Some("version" | "failed") => fs::remove_file(path)?,
            Some(name) if name.ends_with(".jnl") => fs::remove_file(path)?,
            _ => {}
        }
    }
    // The lock identifies the index until all other files are removed.
    sync(earlier)?;
    fs::remove_file(earlier.join(LOCK))?;
    match fs::remove_dir(earlier) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

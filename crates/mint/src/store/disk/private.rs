//! Files and directories that only their owner can access.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Creates a private directory, unless it exists.
pub(super) fn private_directory(path: &Path) -> io::Result<()> {
    let create = || match DirBuilder::new().mode(0o700).recursive(true).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        done => done,
    };
    // A sweep of another process may remove an existing directory before `is_dir` reads its type.
    create().or_else(|_| create())
}

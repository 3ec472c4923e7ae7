//! Files and directories that only their owner can access.

use std::fs::{self, DirBuilder, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

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

/// Opens a regular file. Returns an error for everything else, and does not wait for the other end
/// of a FIFO.
pub(super) fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let opened = options
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path);
    // A FIFO without a reader and a socket cannot be opened. The error does not name the reason.
    let found = match &opened {
        Ok(file) => file.metadata(),
        Err(_) => fs::metadata(path),
    };
    match found.map(|found| found.file_type()) {
        Ok(kind) if !kind.is_file() => {
            let name = name(kind);
            let problem = format!("expected a regular file, found a {name}: remove the {name}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
        }
        _ => opened,
    }
}

fn name(kind: FileType) -> &'static str {
    match () {
        () if kind.is_dir() => "directory",
        () if kind.is_fifo() => "FIFO",
        () if kind.is_socket() => "socket",
        () => "device",
    }
}

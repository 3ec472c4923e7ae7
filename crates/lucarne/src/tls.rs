//! Certificate and key of the HTTP server, and their reloading.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result};
use lucarne_http::Tls;

/// Reads both files, and sees that they fit together.
///
/// # Errors
/// If one cannot be read, or the key is not the certificate's.
pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Arc<Tls>> {
    let (certificates, private) = (read(certificate)?, read(key)?);
    Tls::new(&certificates, &private).with_context(|| both(certificate, key))
}

/// Replaces what `tls` serves by what the files hold now.
///
/// # Errors
/// As of [`load`]; then nothing changes.
pub(crate) fn reload(tls: &Tls, certificate: &Path, key: &Path) -> Result<()> {
    let (certificates, private) = (read(certificate)?, read(key)?);
    tls.replace(&certificates, &private)
        .with_context(|| both(certificate, key))
}

/// The bytes of `file`.
///
/// # Errors
/// If it cannot be read; which one.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The names of both files, for errors; of the one, if both are in it.
pub(crate) fn both(certificate: &Path, key: &Path) -> String {
    match certificate == key {
        true => certificate.display().to_string(),
        false => format!("{} and {}", certificate.display(), key.display()),
    }
}

/// Notices when one of some files is another than it was.
pub(crate) struct Watch {
    files: Vec<PathBuf>,
    seen: Vec<Option<(SystemTime, u64)>>,
}

impl Watch {
    pub(crate) fn new(files: Vec<PathBuf>) -> Self {
        let seen = stamps(&files);
        Watch { files, seen }
    }

    /// Returns true if a file changed since the last call.
    pub(crate) fn changed(&mut self) -> bool {
        let now = stamps(&self.files);
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<(SystemTime, u64)>> {
    let stamp = |file: &PathBuf| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(stamp).collect()
}

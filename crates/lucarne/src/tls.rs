//! Certificate and key of the HTTP server, and their reloading.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use lucarne_http::Tls;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::config::check_secret_file;
use crate::files;

/// Reads both files, and checks that the key belongs to the certificate.
///
/// # Errors
/// If a file cannot be read, or the key does not belong to the certificate.
pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Arc<Tls>> {
    let (certificates, private) = (read(certificate)?, read_key(key)?);
    Tls::new(&certificates, &private).with_context(|| both(certificate, key))
}

/// Reads the files again, and replaces the certificate and the key of `tls`.
///
/// # Errors
/// The errors of [`load`]. After an error, the old certificate stays in use.
pub(crate) fn reload(tls: &Tls, certificate: &Path, key: &Path) -> Result<()> {
    let (certificates, private) = (read(certificate)?, read_key(key)?);
    tls.replace(&certificates, &private)
        .with_context(|| both(certificate, key))
}

/// Reads `file`.
///
/// # Errors
/// If the file cannot be read; the error names the file.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>> {
    files::read_regular(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Reads the file of a private key, or of a certificate with its key.
///
/// # Errors
/// If other users can access the file, or the file cannot be read; the error names the file.
pub(crate) fn read_key(file: &Path) -> Result<Vec<u8>> {
    check_secret_file(file)?;
    read(file)
}

/// Returns the names of both files for errors, or one name if both are in the same file.
pub(crate) fn both(certificate: &Path, key: &Path) -> String {
    if certificate == key {
        certificate.display().to_string()
    } else {
        format!("{} and {}", certificate.display(), key.display())
    }
}

/// The end of the validity of the served certificate, as a metric.
#[derive(Debug)]
pub(crate) struct Expiry(pub(crate) Arc<Tls>);

impl Collector for Expiry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(certificate) = self.0.certificate() else {
            return Ok(());
        };
        let gauge = ConstGauge::new(certificate.not_after_ms() / 1000);
        let metric = encoder.encode_descriptor(
            "lucarne_tls_certificate_expiry_timestamp",
            "End of validity (notAfter) of the served certificate, Unix time",
            Some(&Unit::Seconds),
            gauge.metric_type(),
        )?;
        gauge.encode(metric)
    }
}

/// Detects changes of the contents of files. A renewal may keep the modification time and the
/// length of a file, so neither is compared.
pub(crate) struct Watch {
    files: Vec<PathBuf>,
    seen: Vec<Option<u64>>,
}

impl Watch {
    pub(crate) fn new(files: Vec<PathBuf>) -> Self {
        let seen = contents(&files);
        Watch { files, seen }
    }

    /// Watches files that are not read yet. The first comparison reports a change.
    pub(crate) fn unread(files: Vec<PathBuf>) -> Self {
        let seen = Vec::new();
        Watch { files, seen }
    }

    /// Returns true if a file changed since the last call.
    pub(crate) fn changed(&mut self) -> bool {
        let now = contents(&self.files);
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

/// Returns the digest of each file; `None` for a file that cannot be read.
fn contents(files: &[PathBuf]) -> Vec<Option<u64>> {
    files.iter().map(|file| files::digest_of(file)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};

    use super::*;

    #[test]
    fn a_file_of_the_same_time_and_length_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tls.pem");
        std::fs::write(&file, "one").unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        let mut watch = Watch::new(vec![file.clone()]);
        assert!(!watch.changed());
        std::fs::write(&file, "two").unwrap();
        let times = FileTimes::new().set_modified(modified);
        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_times(times)
            .unwrap();
        assert!(watch.changed());
        assert!(!watch.changed());
        std::fs::remove_file(&file).unwrap();
        assert!(watch.changed());
    }
}

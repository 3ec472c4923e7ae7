//! Reports of root certificates from the Common CA Database: downloaded, and cached for starts
//! without a network.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use lucarne_ct::Roots;
use lucarne_mint::pem;
use lucarne_net::{BlockingClient, Client, Validators, without_secrets};
use lucarne_storage::make_private_directory;
use parking_lot::Mutex;

use crate::files;

/// Maximum size of a report in bytes. A usual report has about 2 MB.
const MAX_BYTES: usize = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Downloaded reports by URL. All logs of a process read the same one or two reports regularly, and
/// an unchanged report is not transferred again.
static REPORTS: Mutex<BTreeMap<String, (Bytes, Validators)>> = Mutex::new(BTreeMap::new());

/// Failed downloads by URL, with time and reason.
static FAILED: Mutex<BTreeMap<String, (Instant, String)>> = Mutex::new(BTreeMap::new());
/// Time during which all logs reuse a failure.
const MOMENT: Duration = Duration::from_secs(5);

/// Returns whether the report at `source` comes over the network.
pub(crate) fn is_remote(source: &str) -> bool {
    matches!(source.split_once("://"), Some(("http" | "https", _)))
}

/// Reads the CSV report at `source`: a URL (`http`, `https`, `file`) or a path.
///
/// # Errors
/// If the report cannot be read.
pub(crate) fn fetch(source: &str) -> Result<Bytes> {
    let read = || match source.split_once("://") {
        Some(("file", path)) => Ok(files::read(Path::new(path))?.into()),
        Some(("http" | "https", _)) => download(source),
        Some((scheme, _)) => bail!("the scheme `{scheme}://` is not http, https or file"),
        None => Ok(files::read(Path::new(source))?.into()),
    };
    read().with_context(|| format!("cannot get CCADB's roots from {}", without_secrets(source)))
}

/// Downloads a report. For [`MOMENT`] after a failure, the function returns the same error without
/// a new attempt.
fn download(url: &str) -> Result<Bytes> {
    let failed = FAILED.lock().get(url).cloned();
    if let Some((at, why)) = failed
        && at.elapsed() < MOMENT
    {
        bail!("{why}");
    }
    let downloaded = download_now(url);
    if let Err(error) = &downloaded {
        let failure = (Instant::now(), format!("{error:#}"));
        FAILED.lock().insert(url.to_owned(), failure);
    }
    downloaded
}

/// Downloads a report, unless it is unchanged since the last download.
fn download_now(url: &str) -> Result<Bytes> {
    let known = REPORTS.lock().get(url).cloned();
    let (last, validators) = known.unwrap_or_default();
    let client = BlockingClient::new(Client::of_system(TIMEOUT))?;
    match client.get_if_changed(url, MAX_BYTES, &validators)? {
        None => Ok(last),
        Some((report, validators)) => {
            let fetched = (report.clone(), validators);
            REPORTS.lock().insert(url.to_owned(), fetched);
            Ok(report)
        }
    }
}

/// Stores `roots` in `file`, as PEM.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn remember(file: &Path, roots: &Roots) -> Result<()> {
    let mut text =
        String::from("# All roots that CCADB has ever listed. The log keeps accepting them.\n");
    for root in roots.iter() {
        let certificate = pem::encode("CERTIFICATE", root.der());
        text.push_str(&format!("# {}\n{certificate}", root.subject()));
    }
    if std::fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    write(file, text.as_bytes())
        .with_context(|| format!("cannot store CCADB's roots in {}", file.display()))
}

/// Replaces the file atomically.
fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    make_private_directory(directory).map_err(std::io::Error::other)?;
    let new = file.with_extension("pem.new");
    let mut writing = std::fs::File::create(&new)?;
    writing.write_all(bytes)?;
    writing.sync_all()?;
    std::fs::rename(new, file)
}

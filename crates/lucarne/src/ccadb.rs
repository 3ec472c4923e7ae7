//! The Common CA Database's reports of root certificates: fetched, and kept
//! for starts without a network.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lucarne_ct::Roots;
use lucarne_mint::pem;
use lucarne_net::{BlockingClient, Client};

/// A report has about 2 MB.
const MOST_BYTES: usize = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

/// The CSV report at `source`: a URL (`http`, `https`, `file`) or a path.
///
/// # Errors
/// If it is out of reach.
pub(crate) fn fetch(source: &str) -> Result<Vec<u8>> {
    let read = || match source.split_once("://") {
        Some(("file", path)) => Ok(std::fs::read(path)?),
        Some(("http" | "https", _)) => {
            let client = BlockingClient::new(Client::of_system(TIMEOUT))?;
            Ok(client.get(source, MOST_BYTES)?.into())
        }
        Some((scheme, _)) => bail!("`{scheme}://` is not http, https or file"),
        None => Ok(std::fs::read(source)?),
    };
    read().with_context(|| format!("cannot get CCADB's roots from {source}"))
}

/// Keeps `roots` in `file`, as PEM.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn remember(file: &Path, roots: &Roots) -> Result<()> {
    let mut text =
        String::from("# Roots that CCADB has ever named; this log goes on accepting them.\n");
    for root in roots.iter() {
        let certificate = pem::encode("CERTIFICATE", root.der());
        text.push_str(&format!("# {}\n{certificate}", root.subject()));
    }
    if std::fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    write(file, text.as_bytes())
        .with_context(|| format!("cannot keep CCADB's roots in {}", file.display()))
}

/// All of the new file or all of the old one, whatever happens.
fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    let new = file.with_extension("pem.new");
    let mut writing = std::fs::File::create(&new)?;
    writing.write_all(bytes)?;
    writing.sync_all()?;
    std::fs::rename(new, file)
}

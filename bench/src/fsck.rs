//! The cost of checking a log, compared with the two parts that every check needs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aws_lc_rs::digest;
use flate2::read::GzDecoder;
use lucarne_testkit::{Launch, LogUnderTest};

use crate::table::{Row, print};
use crate::{Common, add_chain::start, chains::Store, read};

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Number of entries in the log
    #[arg(long, default_value_t = 50_000)]
    entries: usize,
    /// Number of measurements of each binary; the fastest counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let store = Store::open(&common.store)?;
    let binary = std::path::absolute(&common.binary)?;
    let log = LogUnderTest::create(&binary, &store.pki.roots_pem(), "period: 50\nscrub: off")?
        .pin(common.server_core);
    let mut server = start(&log)?;
    read::fill(&log, &store, options.entries).with_context(|| {
        format!(
            "cannot fill the log; the server printed:\n{}",
            server.output()
        )
    })?;
    ensure!(
        server.stop(Duration::from_secs(60))?.success(),
        "the server failed at its shutdown:\n{}",
        server.output()
    );

    let tiles = tiles(&log.data().join("tile"))?;
    let stored: u64 = tiles.iter().map(|bytes| bytes.len() as u64).sum();
    let (mut checking, mut unpacking, mut hashing) = (Vec::new(), Vec::new(), Vec::new());
    let (mut plain, mut entries) = (0, 0);
    for _ in 0..options.rounds {
        let (took, checked) = check(&log, &binary, common.server_core)?;
        checking.push(took);
        entries = checked;
        let began = Instant::now();
        let unpacked = unpacked(&tiles)?;
        unpacking.push(began.elapsed());
        plain = unpacked.iter().map(|bytes| bytes.len() as u64).sum();
        let began = Instant::now();
        for tile in &unpacked {
            std::hint::black_box(digest::digest(&digest::SHA256, tile));
        }
        hashing.push(began.elapsed());
    }
    let title = format!(
        "{entries} entries, {:.0} MB stored, {:.0} MB unpacked, one core, the fastest of {}",
        stored as f64 / 1e6,
        plain as f64 / 1e6,
        options.rounds
    );
    let row = |name: &str, times: &[Duration]| -> Result<Row> {
        let fastest = times
            .iter()
            .min()
            .context("--rounds must be at least 1")?
            .as_secs_f64();
        let mut row = Row::new(name.to_owned(), "");
        row.figure = format!(
            "{:.0} MB/s unpacked   {:.0} MB/s stored   {:.2} s",
            plain as f64 / 1e6 / fastest,
            stored as f64 / 1e6 / fastest,
            fastest
        );
        Ok(row)
    };
    print(
        &title,
        &[
            row("lucarne fsck", &checking)?,
            row("unpacking alone", &unpacking)?,
            row("SHA-256 alone", &hashing)?,
        ],
    );
    Ok(())
}

/// Returns the duration of the check without the start of its process, and the number of entries.
fn check(log: &LogUnderTest, binary: &Path, core: Option<usize>) -> Result<(Duration, u64)> {
    let data = log.data();
    let launch = Launch::new(binary)
        .args([
            "fsck".into(),
            "--json".into(),
            "--skip-signatures".into(),
            "--at".into(),
            data.into_os_string(),
        ])
        .pin(core);
    let output = launch.run()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "`lucarne fsck` failed ({}):\n{said}",
        output.status
    );
    let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap_or_default())?;
    let seconds = last["seconds"]
        .as_f64()
        .context("the result has no `seconds`")?;
    let entries = last["entries"]
        .as_u64()
        .context("the result has no `entries`")?;
    Ok((Duration::from_secs_f64(seconds), entries))
}

/// Reads the tiles below a directory.
fn tiles(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(tiles(&path)?);
        } else {
            found.push(std::fs::read(&path)?);
        }
    }
    Ok(found)
}

fn unpacked(tiles: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let unpack = |bytes: &Vec<u8>| {
        // The magic bytes of gzip; hash tiles are stored uncompressed.
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return Ok(bytes.clone());
        }
        let mut plain = Vec::with_capacity(bytes.len() * 4);
        std::io::Read::read_to_end(&mut GzDecoder::new(&bytes[..]), &mut plain)?;
        Ok(plain)
    };
    tiles.iter().map(unpack).collect()
}

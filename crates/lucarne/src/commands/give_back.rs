//! `lucarne give-back`: prepares a directory for Sunlight or TesseraCT.
//!
//! Sunlight needs no changes: Lucarne stores lock, tiles and checkpoint in Sunlight's format.
//! TesseraCT stores data tiles uncompressed, and size and root of the tree in a separate file,
//! which is written last.

pub(crate) mod options;
mod witness;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use lucarne_ctread::gunzip;
use lucarne_log::ForeignLog;
use lucarne_storage::read_file;
use lucarne_tlog::{Level, TILE_WIDTH, Tile};
use serde_json::json;

use self::options::{GiveBack, Software};
use super::adopt::{Checked, Findings};
use super::lock::show;
use super::{fsck, looking, sound};
use crate::causes::causes;
use crate::config::{Config, DataPlace, LockPlace, LogSettings, beside_sunlights};
use crate::{open, runtime};

/// Supported version of `.state`.
const STATE_VERSION: &str = "1";

/// Prepares the log for the other software.
pub(crate) fn run(options: &GiveBack) -> ExitCode {
    let mut findings = Findings::new(options.json);
    let (config, report) = options.flags.read_or(&options.config);
    let Some(config) = sound(config, &report) else {
        findings.refused("configuration", &report.problem_lines().join("; "));
        return findings.fail("nothing was written; correct the configuration first");
    };
    if options.witness {
        return runtime::run(witness::give_back(&config, options.to, &mut findings))
            .unwrap_or_else(|error| Findings::new(options.json).fail(&causes(&error)));
    }
    let given = runtime::run(async {
        let log = looking::the_one(&config, options.name.as_deref())?;
        Ok(give_back(&config, log, options.to, &mut findings).await)
    });
    let refused = |findings: &mut Findings, check: &str, error: &anyhow::Error| {
        findings.refused(check, &causes(error));
        findings.fail("the log was not given back")
    };
    match given {
        Ok(Ok((said, size))) => findings.end("given back", &said, size),
        Ok(Err((check, error))) => refused(&mut findings, check, &error),
        Err(error) => refused(&mut findings, "log", &error),
    }
}

/// Code of the failed step, and its error.
type Refused = (&'static str, anyhow::Error);

/// Attaches the code of the step to an error.
fn of<T, E: Into<anyhow::Error>>(
    check: &'static str,
) -> impl FnOnce(Result<T, E>) -> Result<T, Refused> {
    move |done| done.map_err(|error| (check, error.into()))
}

/// Checks the log, then writes the files that the other software needs. Returns a summary and the
/// number of entries.
async fn give_back(
    config: &Config,
    log: &LogSettings,
    to: Software,
    findings: &mut Findings,
) -> Result<(String, u64), Refused> {
    let DataPlace::Directory(directory) = &log.data.value else {
        let why = "this command does not give back a bucket: see docs/how-to/migrating.md";
        return Err(("bucket", anyhow::anyhow!(why)));
    };
    match to {
        Software::Sunlight => of("lock")(of_sunlight(config))?,
        Software::Tesseract => {
            of(".state")(known_state(directory))?;
            findings.right(".state", "of a known version");
        }
    }
    // The directory stays locked to the end, so that no process signs.
    let assets = of("stopped")(open::assets(&log.data.value, Arc::new(())).await)?;
    findings.right("stopped", "no process has the directory open");
    of("lock")(settled(config, log).await)?;
    findings.right(
        "lock",
        "matches the storage: all signed entries are published",
    );
    let foreign = of("checkpoint")(ForeignLog::open(log.to_log_config(), assets).await)?;
    of("files")(whole(log, &foreign).await)?;
    let (name, size) = (&log.shortname.value, foreign.published().size);
    findings.right(
        "files",
        &format!("all {size} entries lead to the signed root"),
    );
    let said = match to {
        Software::Sunlight => {
            of("lock")(closed(config, log).await)?;
            if let Some(moved) = of("cache")(move_cache(log))? {
                findings.right("cache", &moved);
            }
            format!(
                "log {name} with its {size} entries has Sunlight's format: nothing had to be \
                 written. Remove the unit of `lucarne serve`, let a read server serve the \
                 directory at the monitoring prefix, and start Sunlight"
            )
        }
        Software::Tesseract => {
            let unpacked = of("write")(to_tesseract(directory, &foreign).await)?;
            of("files")(whole(log, &foreign).await)?;
            format!(
                "log {name} with its {size} entries has TesseraCT's format: {unpacked} data tiles \
                 were unpacked, and .state/treeState is up to date. Remove the unit of `lucarne \
                 serve`, and start TesseraCT. Never start Lucarne again with the lock {}, which \
                 has no record of TesseraCT's signatures: move it away",
                config.checkpoints.value
            )
        }
    };
    Ok((said, size))
}

/// Renames Lucarne's cache directory if Sunlight needs this name for a file. Lucarne also uses the
/// new name beside a cache file of Sunlight.
fn move_cache(log: &LogSettings) -> Result<Option<String>> {
    let cache = &log.cache.value;
    let own = log.data.value.directory().map(|data| data.join(".lucarne"));
    let is_beside = cache.extension().is_some_and(|end| end == "lucarne");
    let is_within = own.is_some_and(|own| cache.starts_with(own));
    if is_beside || is_within || !cache.is_dir() {
        return Ok(None);
    }
    let beside = beside_sunlights(cache);
    ensure!(
        !beside.exists(),
        "cannot move Lucarne's directory {}, where Sunlight requires a file: {} exists. Move one \
         of them away",
        cache.display(),
        beside.display()
    );
    std::fs::rename(cache, &beside)
        .with_context(|| format!("cannot move {} to {}", cache.display(), beside.display()))?;
    Ok(Some(format!(
        "Lucarne's cache is now {}: Sunlight creates its own file, {}",
        beside.display(),
        cache.display()
    )))
}

/// Refuses a lock that Sunlight cannot read.
fn of_sunlight(config: &Config) -> Result<()> {
    ensure!(
        matches!(config.checkpoints.value, LockPlace::Sqlite(_)),
        "Sunlight cannot read the lock {}: expected an SQLite database",
        config.checkpoints.value
    );
    Ok(())
}

/// Opens and closes the lock, so that it has no mark of a killed server.
async fn closed(config: &Config, log: &LogSettings) -> Result<()> {
    let lock = open::lock(&config.checkpoints.value, Arc::new(())).await?;
    lock.load(&log.key.log_id().0).await?;
    lock.close().await;
    Ok(())
}

/// Decompresses the data tiles, then writes TesseraCT's tree state. Returns the number of changed
/// tiles.
async fn to_tesseract(directory: &Path, foreign: &ForeignLog) -> Result<u64> {
    let (published, place) = (foreign.published(), directory.to_owned());
    let unpacked = tokio::task::spawn_blocking(move || unpack(&place, published.size)).await??;
    let root = base64_simd::STANDARD.encode_to_string(foreign.published().root.0);
    let state = format!(
        r#"{{"size":{},"root":{}}}"#,
        foreign.published().size,
        json!(root)
    );
    let path = directory.join(".state/treeState");
    replaced(directory, &path, state.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(unpacked)
}

/// Refuses a missing TesseraCT state, or a state of another version.
fn known_state(directory: &Path) -> Result<()> {
    let path = directory.join(".state/version");
    let unread = || {
        format!(
            "cannot read {}: only a log that TesseraCT created has the state that TesseraCT \
             requires",
            path.display()
        )
    };
    let version = read_file(directory, ".state/version").with_context(unread)?;
    let version = version.with_context(unread)?;
    let version = String::from_utf8_lossy(&version);
    ensure!(
        version.trim() == STATE_VERSION,
        "{}: expected the version {STATE_VERSION}, found {}",
        path.display(),
        version.trim()
    );
    let state = path.with_file_name("treeState");
    ensure!(
        state.is_file(),
        "{} is missing: only a log that TesseraCT created has this file",
        state.display()
    );
    Ok(())
}

/// Refuses a log with signed entries that are not published.
async fn settled(config: &Config, log: &LogSettings) -> Result<()> {
    let (_, _, inspection) = show::ask(config, log).await?;
    if let Some(problem) = show::problem(&inspection) {
        bail!("{problem}");
    }
    if let Some(ahead) = show::ahead(&inspection) {
        bail!("{ahead}. Start `lucarne serve` again, and stop it with SIGTERM");
    }
    Ok(())
}

async fn whole(log: &LogSettings, foreign: &ForeignLog) -> Result<()> {
    let (files, _) = fsck::opened(&log.data.value).await?;
    match Checked::all(foreign, files).await.problem() {
        Some(problem) => bail!("{problem}"),
        None => Ok(()),
    }
}

/// Decompresses the compressed data tiles of the tree, each one atomically. After an interruption,
/// both programs can read the log.
fn unpack(directory: &Path, size: u64) -> Result<u64> {
    let mut unpacked = 0;
    for index in 0..size.div_ceil(TILE_WIDTH) {
        let tile = Tile::widest(Level::Data, index, size).context("the tree is too large")?;
        let path = directory.join(tile.path());
        let of_tile = || format!("cannot decompress {}", path.display());
        // A missing tile has been replaced by a wider tile.
        let Some(stored) = read_file(directory, &tile.path()).with_context(of_tile)? else {
            continue;
        };
        let length = stored.len();
        let plain = gunzip(stored).with_context(of_tile)?;
        if plain.len() != length {
            replaced(directory, &path, &plain).with_context(of_tile)?;
            unpacked += 1;
        }
    }
    Ok(unpacked)
}

/// Replaces a file atomically and durably. The temporary file is in `.lucarne`, so that an
/// interruption leaves nothing among the tiles.
fn replaced(directory: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = directory.join(".lucarne/given-back");
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    let directory = path.parent().context("the file has no directory")?;
    File::open(directory)?.sync_all()?;
    Ok(())
}

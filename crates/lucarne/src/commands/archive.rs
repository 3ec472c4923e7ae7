//! `lucarne archive`: writes a whole log to zip files that verify themselves, and checks them.
//!
//! ```text
//! checkpoint → zip files with tiles in DIRECTORY.part → issuers, checkpoint → read back → DIRECTORY
//! ```
//!
//! The format is that of geomys.org/ct-archive, "Archival Format". A zip file gets its checkpoint
//! last, when the issuers of the whole log are known. A run that was interrupted continues with the
//! same checkpoint, and keeps the zip files that were complete.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use lucarne_ct::Fingerprint;
use lucarne_ctread::{
    ARCHIVE_WIDTH, Archive, Client, ReadError, Source, SourceError, VerifiedEntries, issuer,
};
use lucarne_net::counted;
use lucarne_tlog::{Level, MAX_LEVEL, TILE_WIDTH, Tile};
use zip::result::ZipError;
use zip::write::{PreparedZipFile, SimpleFileOptions};
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::causes::causes;
use crate::commands::atomic;
use crate::commands::fsck::options::LogAt;
use crate::commands::fsck::{InvalidConfiguration, Place};
use crate::runtime;

/// Number of zip files after which their names would have four digits.
const MAX_ZIPS: u64 = 1000;
/// The file that a process locks in the directory of its archive.
const LOCK: &str = "lock";
/// The first of the files that every zip file has.
const README_FILE: &str = "README.txt";
/// Number of issuers that are read at the same time.
const ISSUERS_AT_ONCE: usize = 8;
/// Exit code if something could not be read.
const INCOMPLETE: u8 = 2;

/// Options of `lucarne archive`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The log, or the archive.
    #[command(flatten)]
    pub log: LogAt,

    /// Directory for the zip files. It must not exist, and appears when all are complete; until
    /// then, they are in DIRECTORY.part
    #[arg(
        short,
        long,
        value_name = "DIRECTORY",
        required_unless_present = "verify"
    )]
    pub output: Option<PathBuf>,

    /// Check the archive in the directory of `--at`, and write nothing
    #[arg(long, requires = "at", conflicts_with = "output")]
    pub verify: bool,
}

/// Writes an archive, or checks one.
pub(crate) fn run(options: &Options) -> ExitCode {
    let done = match &options.output {
        Some(output) => runtime::run(write(options, output)),
        None => runtime::run(check(options)),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            errln!("lucarne: {}", causes(&error));
            if error.is::<InvalidConfiguration>() {
                ExitCode::FAILURE
            } else {
                ExitCode::from(INCOMPLETE)
            }
        }
    }
}

async fn check(options: &Options) -> Result<ExitCode> {
    let place = Place::of(&options.log).await?;
    let directory = options.log.at.as_deref().unwrap_or_default();
    let archive = Archive::open(Path::new(directory));
    let archive = archive.with_context(|| format!("cannot read {directory}"))?;
    let archive = archive.with_context(|| format!("there is no 000.zip in {directory}"))?;
    let files: Arc<dyn Source> = Arc::new(archive.clone());
    let mut log = Client::new(files, place.verifier).archived(place.is_rfc6962);
    verified(&archive, &mut log).await
}

/// Reads all files of an archive. Prints each one that is wrong or missing, and the verdict.
async fn verified(archive: &Archive, log: &mut Client) -> Result<ExitCode> {
    let (checkpoint, _) = log.advance().await?;
    let size = checkpoint.size;
    let mut problems = 0_usize;
    let mut report = |problem: &str| {
        outln!("{problem}");
        problems += 1;
    };
    let due = size.div_ceil(ARCHIVE_WIDTH);
    if archive.count() != due {
        let found = counted(archive.count(), "zip file");
        report(&format!("{found}, and {size} entries need {due}"));
    }
    let mut issuers = BTreeSet::new();
    let mut tiles = pin!(log.entries(0));
    while let Some(tile) = tiles.next().await {
        match tile {
            Ok(tile) => issuers.extend(tile.content.fingerprints),
            Err(error) => report(&error.to_string()),
        }
    }
    let issuers = Arc::new(issuers);
    for index in 0..archive.count() {
        let (archive, issuers) = (archive.clone(), issuers.clone());
        let compare = move || compare(&archive, index, size, &issuers);
        for problem in tokio::task::spawn_blocking(compare).await? {
            report(&problem);
        }
    }
    let entries = counted(size, "entry");
    let (zips, issuers) = (archive.count(), counted(issuers.len(), "issuer"));
    let zips = counted(zips, "zip file");
    let origin = checkpoint.origin;
    let verdict = match problems {
        0 => "right".to_owned(),
        wrong => format!("wrong: {}", counted(wrong, "problem")),
    };
    outln!("{origin} with {entries} and {issuers} in {zips}: {verdict}");
    Ok(match problems {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Returns the problems of the files that every zip file has: those of the first one are verified.
fn compare(
    archive: &Archive,
    index: u64,
    size: u64,
    issuers: &BTreeSet<Fingerprint>,
) -> Vec<String> {
    let tiles = common_tiles(size).map(|tile| tile.path());
    let same = ["checkpoint", "log.v3.json"].map(str::to_owned);
    let same = same.into_iter().chain(tiles).map(|path| (path, None));
    let certificates = issuers.iter();
    let certificates = certificates.map(|issuer| (format!("issuer/{issuer}"), Some(*issuer)));
    let wrong = |(path, certificate): (String, Option<Fingerprint>)| {
        let read = |index| archive.read_in(index, &path);
        let problem = match (read(index), certificate) {
            (Err(error), _) => return Some(error.to_string()),
            (Ok(None), _) => "is missing",
            (Ok(Some(der)), Some(certificate)) if Fingerprint::of(&der) != certificate => {
                "is another certificate"
            }
            (Ok(Some(bytes)), None)
                if !read(0).is_ok_and(|first| first.as_ref() == Some(&bytes)) =>
            {
                "differs from that of 000.zip"
            }
            _ => return None,
        };
        Some(format!("{}: {path} {problem}", Archive::file(index)))
    };
    same.chain(certificates).filter_map(wrong).collect()
}

/// Returns the hash tiles that every zip file has: the partial ones, and those above the subtrees.
fn common_tiles(size: u64) -> impl Iterator<Item = Tile> {
    let above = (3..=MAX_LEVEL).flat_map(move |level| {
        let level = Level::Hashes(level);
        (0..).map_while(move |index| Tile::widest(level, index, size))
    });
    let partial = (0..3).filter_map(move |level| {
        let level = Level::Hashes(level);
        Tile::rightmost_partial(level, size)
    });
    above.chain(partial)
}

/// Writes the archive, or continues a run that was interrupted.
async fn write(options: &Options, output: &Path) -> Result<ExitCode> {
    let place = Place::of(&options.log).await?;
    let work = Work::begin(output)?;
    let [note, description] = work.pin(&*place.files, &place.location).await?;
    let client = |archive| {
        let (files, note) = (place.files.clone(), note.clone());
        let files = Pinned {
            archive,
            files,
            note,
        };
        Client::new(Arc::new(files), place.verifier.clone()).archived(place.is_rfc6962)
    };
    let mut log = client(None);
    let (checkpoint, _) = log.advance().await?;
    let (size, origin) = (checkpoint.size, checkpoint.origin);
    let zips = size.div_ceil(ARCHIVE_WIDTH);
    ensure!(size > 0, "the log {origin} is empty");
    ensure!(
        zips <= MAX_ZIPS,
        "an archive has at most {MAX_ZIPS} zip files"
    );

    let mut fingerprints = BTreeSet::new();
    for index in 0..zips {
        let of_zip = || format!("cannot write {}", Archive::file(index));
        let mut kept = None;
        if work.has(index) {
            let read = issuers_of_zip(client(Archive::open(&work.directory)?), index).await;
            let again = |error| errln!("{error}: writing {} again", Archive::file(index));
            kept = read.map_err(again).ok();
        }
        let issuers = match kept {
            Some(issuers) => issuers,
            None => {
                let written = work.write(&log, &*place.files, index).await;
                written.with_context(of_zip)?
            }
        };
        fingerprints.extend(issuers);
        let entries = size.min((index + 1) * ARCHIVE_WIDTH);
        errln!("{}: {entries} of {size} entries", Archive::file(index));
    }
    let mut last = issuers(&*place.files, fingerprints).await?;
    last.insert(0, (README_FILE.to_owned(), README.into()));
    last.push(("log.v3.json".to_owned(), description));
    last.push(("checkpoint".to_owned(), note));
    for index in 0..zips {
        let comment = format!("{origin}, {} of {zips}", index + 1);
        let completed = work.complete(index, &comment, &last);
        completed.with_context(|| format!("cannot write {}", Archive::file(index)))?;
    }
    let archive = Archive::open(&work.directory)?.context("the zip files disappeared")?;
    let mut log = Client::new(Arc::new(archive.clone()), place.verifier).archived(place.is_rfc6962);
    let code = verified(&archive, &mut log).await?;
    if code == ExitCode::SUCCESS {
        work.end(output)?;
        outln!("written to {}", output.display());
    }
    Ok(code)
}

/// Reads all issuers of the log.
///
/// # Errors
/// If one cannot be read; all that are missing are named.
async fn issuers(
    files: &dyn Source,
    fingerprints: BTreeSet<Fingerprint>,
) -> Result<Vec<(String, Bytes)>> {
    let reads = fingerprints.into_iter().map(|fingerprint| async move {
        let der = issuer(files, fingerprint).await?;
        Ok::<_, ReadError>((format!("issuer/{fingerprint}"), der))
    });
    let reads: Vec<_> = stream::iter(reads)
        .buffered(ISSUERS_AT_ONCE)
        .collect()
        .await;
    let (read, failed): (Vec<_>, Vec<_>) = reads.into_iter().partition(Result::is_ok);
    let failed: Vec<_> = failed.into_iter().filter_map(Result::err).collect();
    if failed.is_empty() {
        return Ok(read.into_iter().filter_map(Result::ok).collect());
    }
    for error in &failed {
        errln!("{error}");
    }
    let missing = counted(failed.len(), "issuer");
    bail!("{missing} of the log cannot be read: `lucarne repair` explains where they may come from")
}

/// Returns the entries of the subtree of a zip file.
fn entries(log: &Client, index: u64) -> impl Stream<Item = Result<VerifiedEntries, ReadError>> {
    // The next zip file may be damaged, so the result of its first tile is not used.
    let tiles = ARCHIVE_WIDTH / TILE_WIDTH;
    log.entries(index * ARCHIVE_WIDTH).take(tiles as usize)
}

/// Returns the issuers of the entries in a zip file of an earlier run.
async fn issuers_of_zip(mut log: Client, index: u64) -> Result<BTreeSet<Fingerprint>, ReadError> {
    log.advance().await?;
    let mut tiles = pin!(entries(&log, index));
    let mut issuers = BTreeSet::new();
    while let Some(tile) = tiles.try_next().await? {
        issuers.extend(tile.content.fingerprints);
    }
    Ok(issuers)
}

/// The files of a log with the checkpoint of the archive, which stays while the log grows. The zip
/// files of an earlier run come first.
struct Pinned {
    archive: Option<Archive>,
    files: Arc<dyn Source>,
    note: Bytes,
}

#[async_trait]
impl Source for Pinned {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        if path == "checkpoint" {
            return Ok(Some(self.note.clone()));
        }
        if let Some(archive) = &self.archive
            && let Some(bytes) = archive.read(path).await?
        {
            return Ok(Some(bytes));
        }
        self.files.read(path).await
    }
}

/// The directory of an archive that is not complete.
struct Work {
    directory: PathBuf,
    /// Locked, so that no other process writes the archive.
    _lock: File,
}

impl Work {
    /// Creates the directory, or opens that of an earlier run.
    fn begin(output: &Path) -> Result<Self> {
        ensure!(
            !output.try_exists()?,
            "{} exists: check it with --verify, or remove it",
            output.display()
        );
        let mut name = output.file_name().context("-o has no name")?.to_owned();
        name.push(".part");
        let directory = output.with_file_name(name);
        let of_work = || format!("cannot create {}", directory.display());
        fs::create_dir_all(&directory).with_context(of_work)?;
        // NFS locks only files that are open for writing.
        let path = directory.join(LOCK);
        let lock = OpenOptions::new().create(true).append(true).open(&path);
        let lock = lock.with_context(of_work)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another process writes to {}", directory.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        Ok(Work {
            directory,
            _lock: lock,
        })
    }

    /// Returns the checkpoint and the description of the log as the first run has read them.
    async fn pin(&self, files: &dyn Source, location: &str) -> Result<[Bytes; 2]> {
        let mut pinned = [Bytes::new(), Bytes::new()];
        for (bytes, name) in pinned.iter_mut().zip(["checkpoint", "log.v3.json"]) {
            let path = self.directory.join(name);
            if !path.exists() {
                let read = files.read(name).await;
                let read = read.with_context(|| format!("cannot read {name} of {location}"))?;
                let read = read.with_context(|| format!("there is no {name} in {location}"))?;
                atomic::write_bytes(&path, &read)?;
            }
            *bytes = fs::read(&path)?.into();
        }
        Ok(pinned)
    }

    /// Returns whether an earlier run has written the tiles of a zip file.
    fn has(&self, index: u64) -> bool {
        let file = File::open(self.directory.join(Archive::file(index)));
        let zip = file.map_err(ZipError::from).and_then(ZipArchive::new);
        // A run that was interrupted while it completed the zip file leaves a damaged one; a full
        // disk leaves one with some of the last files, and without the comment.
        zip.is_ok_and(|zip| {
            let is_complete = !zip.comment().is_empty();
            is_complete == zip.index_for_name(README_FILE).is_some()
        })
    }

    /// Writes the tiles of a zip file. Returns the issuers of its entries.
    async fn write(
        &self,
        log: &Client,
        files: &dyn Source,
        index: u64,
    ) -> Result<BTreeSet<Fingerprint>> {
        let size = log.tree().edge().size();
        let (first, end) = (index * ARCHIVE_WIDTH, (index + 1) * ARCHIVE_WIDTH);
        let within = |tile: &Tile| tile.is_full() && (first..end).contains(&tile.start_leaf());
        let above = [2, 1].into_iter().flat_map(|level| {
            let level = Level::Hashes(level);
            let tiles = first / level.entry_leaves() / TILE_WIDTH..;
            let tiles = tiles.map_while(move |index| Tile::widest(level, index, size));
            tiles.take_while(within)
        });
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let path = self.directory.join("tiles.tmp");
        let mut zip = ZipWriter::new(BufWriter::new(File::create(&path)?));
        for tile in common_tiles(size).chain(above) {
            let Level::Hashes(level) = tile.level() else {
                continue;
            };
            let hashes = log.tree().hashes(files, level, tile.index()).await?;
            add(
                &mut zip,
                &tile.path(),
                &hashes.iter().flat_map(|hash| hash.0).collect::<Vec<_>>(),
            )?;
        }
        let mut issuers = BTreeSet::new();
        let compressed = entries(log, index).map_err(anyhow::Error::from);
        let compressed = compressed.map_ok(async |read| {
            let data = tokio::task::spawn_blocking(move || {
                let data = PreparedZipFile::from_data(read.tile.path(), deflated(), read.bytes());
                anyhow::Ok((read, data?))
            });
            data.await?
        });
        let mut compressed = pin!(compressed.try_buffered(cores));
        while let Some((read, data)) = compressed.try_next().await? {
            if read.tile.is_full() {
                let leaves = &read.content.leaves;
                let hashes: Vec<u8> = leaves.iter().flat_map(|hash| hash.0).collect();
                let tile = Tile::widest(Level::Hashes(0), read.tile.index(), size);
                add(
                    &mut zip,
                    &tile.context("a tile beyond the tree")?.path(),
                    &hashes,
                )?;
            }
            zip.add_prepared_file(data)?;
            issuers.extend(read.content.fingerprints);
        }
        let file = zip
            .finish()?
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(path, self.directory.join(Archive::file(index)))?;
        Ok(issuers)
    }

    /// Adds the files that every zip file has, the checkpoint last, then the comment.
    fn complete(&self, index: u64, comment: &str, files: &[(String, Bytes)]) -> Result<()> {
        let path = self.directory.join(Archive::file(index));
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if !ZipArchive::new(&file)?.comment().is_empty() {
            return Ok(());
        }
        // After an error, the writer ends the zip file when it is dropped.
        let mut zip = ZipWriter::new_append(file)?;
        for (name, bytes) in files {
            let file = PreparedZipFile::from_data(name, deflated(), bytes)?;
            zip.add_prepared_file(file)?;
        }
        zip.set_comment(comment)?;
        Ok(zip.finish()?.sync_all()?)
    }

    /// Gives the complete archive its name.
    fn end(self, output: &Path) -> Result<()> {
        fs::remove_file(self.directory.join(LOCK))?;
        File::open(&self.directory)?.sync_all()?;
        fs::rename(&self.directory, output)?;
        let parent = output.parent().filter(|parent| *parent != Path::new(""));
        Ok(File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?)
    }
}

/// Adds a file that cannot be compressed.
fn add(zip: &mut ZipWriter<impl Write + Seek>, name: &str, bytes: &[u8]) -> Result<()> {
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    zip.start_file(name, stored)?;
    Ok(zip.write_all(bytes)?)
}

fn deflated() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)
}

/// The description of the format in each zip file.
const README: &str = "\
A Certificate Transparency log in the format of geomys.org/ct-archive (\"Archival Format\"): the
files of the static CT API (c2sp.org/static-ct-api), data tiles without gzip. NNN.zip has the tiles
of the levels data, 0, 1 and 2 for the 16,777,216 entries from 16,777,216 * NNN on. Each zip file
also has:

  checkpoint     the last signed tree head of the log
  log.v3.json    its key, its URLs and the dates of its certificates
  issuer/        the certificates of all chains, by their SHA-256
  tile/          the partial tiles of the right edge, and the tiles above level 2

Written by lucarne archive, which also checks archives (lucarne archive --verify --at DIRECTORY).
";

//! Snapshots of the index beside the data of a log, for instances that have no index.
//!
//! The leading instance writes a snapshot: first the records of its index in chunks, and then a
//! manifest with the tree, the sizes and the SHA-256 of each chunk. There are two sets of chunks,
//! which are replaced in turn. The newest snapshot therefore stays complete while the next snapshot
//! is written, and storage is bounded.
//!
//! An instance with an empty index takes up the snapshot before the instance reads the remaining
//! entries from the tiles, while the log is open. Nothing in a snapshot is trusted before it is
//! checked: lengths before they are read, the tree by its root, chunks by their hashes. Some
//! records are compared with their tiles, and the snapshot must have all entries of some tiles. A
//! snapshot that fails a check is not used, and the tiles are read instead.
//!
//! In any case, the log compares a place from the index with the tree before it returns an SCT for
//! this place. Only a missing record is not noticed later: if its certificate is submitted again,
//! the log gets a second entry with its own valid SCT, which RFC 6962 allows.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lucarne_ct::{Fingerprint, Identity, LogId};
use lucarne_storage::{AssetError, Assets};
use lucarne_tlog::TILE_WIDTH;
use lucarne_x509::text::counted;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::panicked;
use super::source::Source;
use crate::error::{Fatal, ReadError};
use crate::index::dedup::{
    BadStream, CHUNK_RECORDS, Dedup, Sealed, chunk_bytes, first_record, set_aside,
};
use crate::index::log_index::LogIndex;
use crate::index::thread_priority::lower_priority;
use crate::status::state::State;

/// The time between two checks of the growth of the index.
const CHECK_EVERY: Duration = Duration::from_secs(3600);
/// Minimum number of entries that a new snapshot adds to the previous snapshot, and minimum number
/// of entries that an index must lack to take up a snapshot.
const LEAST: u64 = 1 << 16;
/// Minimum growth of the index before the next snapshot, as a divisor of the size of the last
/// snapshot.
const GROWTH: u64 = 8;
/// Maximum number of chunks of a snapshot: two billion records.
const MOST_CHUNKS: u64 = 1 << 14;
/// Maximum length of a manifest in bytes.
const MOST_MANIFEST: u64 = 2 << 20;
/// Maximum number of chunks whose first entry is compared with its tile. The snapshot must also
/// have all entries of up to this number of tiles.
const SAMPLES: usize = 16;

const MANIFEST: &str = "index/manifest.json";
const FORMAT: &str = "lucarne dedup index 1";

/// The description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    format: String,
    log_id: String,
    set: Set,
    /// The snapshot has all entries whose index is below this number.
    indexed: u64,
    /// The size of a signed tree that begins with these entries.
    size: u64,
    /// The root of that tree, in hexadecimal.
    root: String,
    /// The number of records, which is less than `indexed` if the log has an entry twice.
    records: u64,
    /// SHA-256 of each chunk, in hexadecimal.
    chunks: Vec<String>,
}

/// The two sets of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Set {
    A,
    B,
}

impl Set {
    fn chunk(self, n: usize) -> String {
        match self {
            Set::A => format!("index/a-{n:05}"),
            Set::B => format!("index/b-{n:05}"),
        }
    }

    fn other(self) -> Set {
        match self {
            Set::A => Set::B,
            Set::B => Set::A,
        }
    }
}

/// The reasons why a snapshot is not used.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("the manifest is invalid: {0}")]
    Manifest(#[from] serde_json::Error),
    #[error("the format is `{0}`; expected `{FORMAT}`")]
    Format(String),
    #[error("the snapshot belongs to the log with ID {0}")]
    ForeignLog(String),
    #[error("the snapshot has {chunks} chunks; expected at most {MOST_CHUNKS}")]
    TooLarge { chunks: u64 },
    #[error("the sizes in the manifest contradict each other")]
    Sizes,
    #[error("the snapshot has {size}; the tree has only {1}", size = counted(*.0, "entry"))]
    Newer(u64, u64),
    #[error("the root of the {} does not match the tree", counted(*.0, "entry"))]
    Root(u64),
    #[error("the root cannot be compared with the tree: {0}")]
    Tree(#[from] ReadError),
    #[error("chunk {0} is missing")]
    Missing(usize),
    #[error("chunk {chunk} has {}; expected {expected}", counted(*.found, "byte"))]
    Length {
        chunk: usize,
        found: u64,
        expected: u64,
    },
    #[error("entry {0} does not match the tree")]
    Entry(u64),
    #[error(transparent)]
    Records(#[from] BadStream),
    #[error(transparent)]
    Storage(#[from] AssetError),
    /// The index of this process cannot be written, or tiles cannot be read.
    #[error(transparent)]
    Own(#[from] Fatal),
}

/// Takes up the snapshot beside the data, if the index is empty and there is a snapshot.
///
/// # Errors
/// If the index cannot be written.
pub(super) async fn take(
    log: &LogIndex,
    dedup: &Arc<Dedup>,
    source: &Source<'_>,
) -> Result<(), Fatal> {
    let backlog = dedup.backlog();
    let is_cold = backlog.oldest() == Some(0) && backlog.entries() >= LEAST;
    if !is_cold || log.config.instances.is_none() || !log.assets.keeps_private() {
        return Ok(());
    }
    // If an index was set aside, a wrong entry of a snapshot may be the cause, so no snapshot is
    // used.
    let aside = set_aside(&log.config.cache);
    if tokio::fs::try_exists(aside).await.unwrap_or(true) {
        return Ok(());
    }
    let name = &log.config.shortname;
    match taken(log.config.key.log_id(), dedup, source).await {
        Ok(None) => {}
        Ok(Some(entries)) => {
            tracing::info!(log = name, entries, "dedup index: took up the snapshot");
            log.note(dedup);
        }
        Err(Unfit::Own(fatal @ (Fatal::Dedup { .. } | Fatal::Internal(_)))) => return Err(fatal),
        Err(problem) => tracing::warn!(
            log = name,
            %problem,
            "dedup index: the snapshot is not used, and the tiles are read instead"
        ),
    }
    Ok(())
}

/// Takes up the snapshot. Returns the number of its entries, or `None` if there is no snapshot.
async fn taken(
    owner: LogId,
    dedup: &Arc<Dedup>,
    source: &Source<'_>,
) -> Result<Option<u64>, Unfit> {
    let found = source.assets.get_private(MANIFEST, MOST_MANIFEST).await?;
    let Some(bytes) = found else {
        return Ok(None);
    };
    let manifest = Manifest::read(&bytes, owner, source.tree.size())?;
    let root = source.verified.root_at(&source.tree.edge, manifest.size);
    if hex::encode(root.await?.0) != manifest.root {
        return Err(Unfit::Root(manifest.size));
    }
    let (indexed, records) = (manifest.indexed, manifest.records);
    let wanted = wanted(source, indexed).await?;
    let (chunks, mut fetched) = mpsc::channel::<Bytes>(1);
    let (index, sums) = (dedup.clone(), manifest.chunks.clone());
    let writing = spawn_blocking(move || {
        let mut sums = sums.iter().enumerate();
        index.take_up_stream(indexed, records, wanted, || {
            let bytes = fetched.blocking_recv().ok_or(BadStream::Truncated)?;
            let (n, sum) = sums.next().ok_or(BadStream::Truncated)?;
            if sha256(&bytes) == *sum {
                Ok(bytes)
            } else {
                Err(BadStream::Chunk(n))
            }
        })
    });
    let fetched = fetch(source, &manifest, chunks).await;
    let written = writing.await.map_err(panicked)??;
    // If a chunk could not be fetched, the writer only knows that the stream has ended.
    fetched?;
    written?;
    Ok(Some(indexed))
}

/// Returns the identities of the entries of some tiles, if their index is below `indexed`. A
/// complete snapshot has these identities. Entries whose tile cannot be read are left out.
async fn wanted(source: &Source<'_>, indexed: u64) -> Result<Vec<Identity>, Unfit> {
    let tiles = indexed.div_ceil(TILE_WIDTH);
    let step = tiles.div_ceil(SAMPLES as u64).max(1);
    let mut wanted = Vec::new();
    let mut tile = 0;
    while tile < tiles {
        let found = source.read(tile).await?;
        let entries = found.entries.iter();
        let below = entries.filter(|(_, place)| place.index < indexed);
        wanted.extend(below.map(|(identity, _)| *identity));
        tile += step;
    }
    Ok(wanted)
}

/// Fetches all chunks, and compares some entries with the tree.
async fn fetch(
    source: &Source<'_>,
    manifest: &Manifest,
    chunks: mpsc::Sender<Bytes>,
) -> Result<(), Unfit> {
    let step = manifest.chunks.len().div_ceil(SAMPLES).max(1);
    for chunk in 0..manifest.chunks.len() {
        let expected = manifest.length(chunk);
        let name = manifest.set.chunk(chunk);
        let bytes = source.assets.get_private(&name, expected).await?;
        let bytes = bytes.ok_or(Unfit::Missing(chunk))?;
        let found = bytes.len() as u64;
        if found != expected {
            return Err(Unfit::Length {
                chunk,
                found,
                expected,
            });
        }
        // Chunks are compared before the writer gets them, because the writer uses all chunks as
        // soon as it has the last chunk.
        if chunk.is_multiple_of(step) {
            compare(source, &bytes).await?;
        }
        if chunks.send(bytes).await.is_err() {
            // The writer rejected a chunk, and returns the reason.
            break;
        }
    }
    Ok(())
}

/// Compares the first entry of a chunk with the tree. An entry whose tile cannot be read passes.
async fn compare(source: &Source<'_>, chunk: &[u8]) -> Result<(), Unfit> {
    let Some((identity, place)) = first_record(chunk) else {
        return Ok(());
    };
    if place.index >= source.tree.size() {
        return Err(Unfit::Entry(place.index));
    }
    let found = source.read(place.index / TILE_WIDTH).await?;
    let is_same = found.entries.contains(&(identity, place));
    let mut gaps = found.gaps.iter();
    let is_unreadable = gaps.any(|gap| (gap.first..gap.end).contains(&place.index));
    if is_same || is_unreadable {
        Ok(())
    } else {
        Err(Unfit::Entry(place.index))
    }
}

impl Manifest {
    /// Reads and checks the manifest of a snapshot for a log with a tree of `size` entries.
    fn read(bytes: &[u8], owner: LogId, size: u64) -> Result<Self, Unfit> {
        let manifest: Manifest = serde_json::from_slice(bytes)?;
        if manifest.format != FORMAT {
            return Err(Unfit::Format(manifest.format));
        }
        if manifest.log_id != owner.to_string() {
            return Err(Unfit::ForeignLog(manifest.log_id));
        }
        let chunks = manifest.chunks.len() as u64;
        if chunks > MOST_CHUNKS {
            return Err(Unfit::TooLarge { chunks });
        }
        let fits = manifest.records > 0
            && manifest.records <= manifest.indexed
            && manifest.indexed <= manifest.size
            && manifest.records.div_ceil(CHUNK_RECORDS) == chunks;
        if !fits {
            return Err(Unfit::Sizes);
        }
        if manifest.size > size {
            return Err(Unfit::Newer(manifest.size, size));
        }
        Ok(manifest)
    }

    fn length(&self, chunk: usize) -> u64 {
        let before = chunk as u64 * CHUNK_RECORDS;
        chunk_bytes(self.records.saturating_sub(before).min(CHUNK_RECORDS))
    }
}

fn sha256(bytes: &[u8]) -> String {
    Fingerprint::of(bytes).to_string()
}

/// The reasons why a snapshot was not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Storage(#[from] AssetError),
    #[error("the index cannot be read: {0}")]
    Index(#[from] io::Error),
    #[error("the manifest cannot be written: {0}")]
    Manifest(#[from] serde_json::Error),
    #[error("another instance leads now")]
    Overtaken,
}

/// Writes snapshots from time to time, while this instance leads.
pub(super) async fn keep(log: &LogIndex, dedup: &Arc<Dedup>) {
    if log.config.instances.is_none() || !log.assets.keeps_private() {
        return;
    }
    let leads = || log.status.state() == State::Running;
    loop {
        // A fixed pause, because the index grows with every round.
        sleep(CHECK_EVERY).await;
        if !leads() {
            continue;
        }
        let (name, owner) = (&log.config.shortname, log.config.key.log_id());
        match write(&*log.assets, owner, dedup, leads).await {
            Ok(None) => {}
            Ok(Some(entries)) => {
                tracing::info!(log = name, entries, "dedup index: wrote a snapshot")
            }
            Err(error) => tracing::warn!(
                log = name,
                %error,
                retry_in = ?CHECK_EVERY,
                "dedup index: the snapshot was not written"
            ),
        }
    }
}

/// Writes a snapshot, if the index has grown enough. Returns the number of its entries.
async fn write(
    assets: &dyn Assets,
    owner: LogId,
    dedup: &Arc<Dedup>,
    leads: impl Fn() -> bool,
) -> Result<Option<u64>, WriteError> {
    let index = dedup.clone();
    let sealed = spawn_blocking(move || index.sealed()).await;
    let Some(sealed) = sealed.map_err(io::Error::other)? else {
        return Ok(None);
    };
    let last = last(assets, owner).await?;
    let before = last.as_ref().map_or(0, |last| last.indexed);
    let due = before.saturating_add(LEAST.max(before / GROWTH));
    let most = MOST_CHUNKS * CHUNK_RECORDS;
    if sealed.indexed < due || sealed.indexed > most {
        return Ok(None);
    }
    store(assets, owner, sealed, last, leads).await.map(Some)
}

/// Returns the manifest of the last snapshot, if it can be read.
async fn last(assets: &dyn Assets, owner: LogId) -> Result<Option<Manifest>, AssetError> {
    let found = assets.get_private(MANIFEST, MOST_MANIFEST).await?;
    let last = found.and_then(|bytes| serde_json::from_slice::<Manifest>(&bytes).ok());
    Ok(last.filter(|last| last.log_id == owner.to_string()))
}

/// Writes a snapshot in the set of chunks that the last snapshot does not use. Returns the number
/// of its entries.
async fn store(
    assets: &dyn Assets,
    owner: LogId,
    sealed: Sealed,
    last: Option<Manifest>,
    leads: impl Fn() -> bool,
) -> Result<u64, WriteError> {
    let mut manifest = Manifest {
        format: FORMAT.to_owned(),
        log_id: owner.to_string(),
        set: last.map_or(Set::A, |last| last.set.other()),
        indexed: sealed.indexed,
        size: sealed.head.size,
        root: hex::encode(sealed.head.root.0),
        records: 0,
        chunks: Vec::new(),
    };
    let mut chunks = read_chunks(sealed)?;
    loop {
        let ended = || io::Error::other("the thread that reads it has ended");
        let Some(chunk) = chunks.recv().await.ok_or_else(ended)?? else {
            break;
        };
        manifest.records += chunk.bytes.len() as u64 / chunk_bytes(1);
        if !leads() {
            return Err(WriteError::Overtaken);
        }
        let name = manifest.set.chunk(manifest.chunks.len());
        assets.put_private(&name, chunk.bytes).await?;
        manifest.chunks.push(chunk.sum);
    }
    if !leads() {
        return Err(WriteError::Overtaken);
    }
    let bytes = serde_json::to_vec(&manifest)?;
    assets.put_private(MANIFEST, bytes.into()).await?;
    Ok(manifest.indexed)
}

/// A chunk with its SHA-256.
struct Chunk {
    bytes: Bytes,
    sum: String,
}

/// Reads the chunks of an index in a thread of low priority. `None` follows the last chunk.
fn read_chunks(sealed: Sealed) -> io::Result<mpsc::Receiver<io::Result<Option<Chunk>>>> {
    let (sender, receiver) = mpsc::channel(1);
    let read = move || {
        lower_priority();
        let ended = sealed.chunks(|bytes| {
            let sum = sha256(&bytes);
            let bytes = Bytes::from(bytes);
            sender.blocking_send(Ok(Some(Chunk { bytes, sum }))).is_ok()
        });
        // The receiver is dropped when the session ends.
        let _ = sender.blocking_send(ended.map(|()| None));
    };
    let thread = std::thread::Builder::new().name("lucarne-snapshot".into());
    thread.spawn(read)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests;

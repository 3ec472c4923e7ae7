//! The task that updates the index of leaf hashes after each round, from the hash tiles of level 0.
//! Each tile is verified against the tree first.

use std::convert::Infallible;
use std::fs::{File, TryLockError};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{TryStreamExt, pin_mut};
use lucarne_ct::LogId;
use lucarne_tlog::{Hash, Level, RightEdge, Tile, tiles_between};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::leaf_index::{LeafIndex, TABLE};
use super::leaves::Leaves;
use super::state::Rfc6962;
use crate::error::ReadError;
use lucarne_ctread::read_ahead;

/// The pause before a retry after an error.
const AGAIN: Duration = Duration::from_secs(5);

/// The interval between two attempts to lock the files while another process holds the lock.
const LOCKED: Duration = Duration::from_millis(200);

/// The reasons why the index cannot be updated now.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("the disk of the index failed: {0}")]
    Disk(#[from] io::Error),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the index differs from the tree, and is rebuilt")]
    Wrong,
}

/// Keeps the index of a log up to date as long as the log exists.
pub(crate) async fn keep_index(log: Arc<Rfc6962>) {
    let leaves = &log.leaves;
    loop {
        let Err(problem) = keep(&log, leaves).await;
        let (name, path) = (&log.config.shortname, leaves.folder.display());
        tracing::warn!(log = name, %path, %problem, "cannot update the index of leaf hashes: \
                                                     retrying");
        if !matches!(problem, Problem::Wrong) {
            sleep(AGAIN).await;
        }
    }
}

async fn keep(log: &Rfc6962, leaves: &Leaves) -> Result<Infallible, Problem> {
    let mut indexer = Indexer::open(log, leaves.folder.clone()).await?;
    let mut grown = log.reader.grown();
    // An index that is ahead of the published tree cannot be verified yet.
    let seen = indexer.index.indexed();
    let _ = grown.wait_for(|size| *size >= seen && *size > 0).await;
    if !indexer.belongs(log).await? {
        leaves.index.store(None);
        indexer.remove().await?;
        return Err(Problem::Wrong);
    }
    leaves.index.store(Some(indexer.index.clone()));
    loop {
        match indexer.catch_up(log).await {
            Err(Problem::Disk(error)) if is_damage(&error) => {
                tracing::warn!(%error, "the index of leaf hashes is damaged: rebuilding it");
                leaves.index.store(None);
                indexer.remove().await?;
                return Err(Problem::Wrong);
            }
            caught_up => caught_up?,
        }
        tokio::select! {
            changed = grown.changed() => if changed.is_err() {
                std::future::pending::<()>().await;
            },
            () = leaves.distrusted.notified() => {
                indexer.remove().await?;
                return Err(Problem::Wrong);
            }
        }
    }
}

/// The writer of an index.
struct Indexer {
    folder: PathBuf,
    index: Arc<LeafIndex>,
    /// Other processes cannot write the index while a clone of this lock exists.
    writing: Arc<File>,
    merging: Option<JoinHandle<io::Result<()>>>,
}

impl Indexer {
    async fn open(log: &Rfc6962, folder: PathBuf) -> Result<Self, Problem> {
        let (place, owner) = (folder.clone(), log.config.key.log_id());
        let writing = loop {
            let place = place.clone();
            match blocking(move || lock(&place)).await? {
                Some(file) => break Arc::new(file),
                None => sleep(LOCKED).await,
            }
        };
        let index = blocking(move || opened(&place, owner)).await?;
        Ok(Indexer {
            folder,
            index: Arc::new(index),
            writing,
            merging: None,
        })
    }

    /// Returns whether the index belongs to the published tree, judged by one leaf of each table.
    async fn belongs(&self, log: &Rfc6962) -> Result<bool, Problem> {
        let index = self.index.clone();
        let samples = blocking(move || index.samples()).await;
        let samples = match samples {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(false),
            samples => samples?,
        };
        let Some(edge) = log.reader.signed_edge().await? else {
            return Ok(samples.is_empty());
        };
        for (leaf, index) in samples {
            if index >= edge.size() || log.reader.tiles().leaf_hash(&edge, index).await? != leaf {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the leaves of the published tree that the index does not have.
    async fn catch_up(&mut self, log: &Rfc6962) -> Result<(), Problem> {
        let Some(edge) = log.reader.signed_edge().await? else {
            return Ok(());
        };
        let behind = edge.size().saturating_sub(self.index.indexed());
        let is_news = behind > TABLE as u64;
        let name = &log.config.shortname;
        if is_news {
            tracing::info!(log = name, behind, "index of leaf hashes: catching up");
        }
        self.read(log, &edge).await?;
        if is_news {
            tracing::info!(
                log = name,
                entries = edge.size(),
                "index of leaf hashes: caught up"
            );
        }
        Ok(())
    }

    async fn read(&mut self, log: &Rfc6962, edge: &Arc<RightEdge>) -> Result<(), Problem> {
        let tiles = tiles_between(self.index.indexed(), edge.size())
            .take_while(|tile| tile.level() == Level::Hashes(0));
        let reads = tiles.map(|tile| async move {
            let hashes = log.reader.tiles().hashes(edge, tile).await?;
            Ok::<_, ReadError>((tile, hashes))
        });
        let length = |read: &Result<(Tile, Bytes), ReadError>| {
            read.as_ref().map_or(0, |(_, hashes)| hashes.len())
        };
        let reads = read_ahead(reads, length);
        pin_mut!(reads);
        while let Some((tile, hashes)) = reads.try_next().await? {
            let known = self.index.indexed().saturating_sub(tile.start_leaf()) as usize;
            let (hashes, _) = hashes.as_chunks::<{ Hash::LENGTH }>();
            let new = hashes.get(known..).unwrap_or_default();
            self.index.add(new.iter().map(|hash| Hash(*hash)));
            if self.index.is_full() {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Writes a table, and starts a merge in the background if none runs.
    async fn flush(&mut self) -> io::Result<()> {
        let (index, writing) = (self.index.clone(), self.writing.clone());
        blocking(move || {
            let _writing = writing;
            index.flush()
        })
        .await?;
        if let Some(merging) = self.merging.take_if(|merging| merging.is_finished()) {
            merging.await.map_err(io::Error::other)??;
        }
        if self.merging.is_none() {
            let (index, writing) = (self.index.clone(), self.writing.clone());
            self.merging = Some(spawn_blocking(move || {
                let _writing = writing;
                index.merge()
            }));
        }
        Ok(())
    }

    /// Ends the merge, and removes the files of the index.
    async fn remove(mut self) -> io::Result<()> {
        self.index.close();
        if let Some(merging) = self.merging.take() {
            // The result does not matter, because the files are removed.
            let _ = merging.await;
        }
        let (folder, writing) = (self.folder.clone(), self.writing.clone());
        blocking(move || {
            let _writing = writing;
            LeafIndex::remove(&folder)
        })
        .await
    }
}

impl Drop for Indexer {
    fn drop(&mut self) {
        self.index.close();
    }
}

/// Returns the lock of the files; `None` if another process holds it.
fn lock(folder: &std::path::Path) -> io::Result<Option<File>> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join("lock");
    let file = File::options().create(true).append(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Opens the index in this directory; an unusable index is recreated.
fn opened(folder: &std::path::Path, owner: LogId) -> io::Result<LeafIndex> {
    match LeafIndex::open(folder, owner) {
        Err(error) if is_damage(&error) => {
            let path = folder.display();
            tracing::warn!(%path, %error, "rebuilding the index of leaf hashes");
            LeafIndex::remove(folder)?;
            LeafIndex::open(folder, owner)
        }
        opened => opened,
    }
}

/// Returns whether the files differ from the files that were written: a table in the list is
/// missing, too short, or has other bytes.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

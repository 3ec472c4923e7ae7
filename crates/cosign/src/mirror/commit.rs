//! The state of a mirrored log: loading, progress, and the commit of a checkpoint.

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use lucarne_storage::{Asset, AssetKind, LockError};
use lucarne_tlog::{Checkpoint, Hash, NoteSignature, SignedNote, TILE_WIDTH};

use super::ticket::Target;
use super::tree::{Tree, TreeError};
use super::{Mirror, MirroredLog, State, UploadRefusal, superseded, unsigned};
use crate::witness::{Record, Recorded, Refusal, Slot};

/// A checkpoint that is published, with the signatures of the log and of the mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The signed note.
    pub note: Bytes,
    /// Number of entries.
    pub size: u64,
    /// Time of the cosignature, in seconds since 1970.
    pub time: u64,
}

/// Number of entries after which the progress is saved.
const SAVED: u64 = 256 * TILE_WIDTH;

/// The path of the checkpoint.
const CHECKPOINT: &str = "checkpoint";

impl Mirror {
    /// Loads the state of a log, so that its files are served before the next upload.
    ///
    /// # Errors
    /// If the lock or the store fails, or the store lacks files.
    pub async fn open(&self, log: &MirroredLog) -> Result<(), UploadRefusal> {
        let mut state = log.state.lock().await;
        self.loaded(log, &mut state).await.map(drop)
    }

    /// Returns the state of a log, from the lock and the store if it is not in memory.
    pub(super) async fn loaded<'s>(
        &self,
        log: &MirroredLog,
        state: &'s mut Option<State>,
    ) -> Result<&'s mut State, UploadRefusal> {
        // A commit that its client has cut off may have replaced the record.
        if state.as_ref().is_none_or(|state| state.is_committing) {
            *state = Some(self.load(log).await?);
        }
        state.as_mut().ok_or(UploadRefusal::NoPending)
    }

    async fn load(&self, log: &MirroredLog) -> Result<State, UploadRefusal> {
        let (witness, origin) = (&self.witness, &log.origin);
        let mirrored = witness.recorded(Slot::Mirror, origin).await?.record;
        if let Some(pending) = witness.recorded(Slot::Pending, origin).await?.record {
            log.see(&pending.checkpoint);
        }
        let progress = witness.lock().load(&self.progress_key(log)).await?;
        let (size, root) = match (&mirrored, unsigned(progress, origin)) {
            (Some(record), (size, _)) if record.checkpoint.size >= size => {
                (record.checkpoint.size, record.checkpoint.root)
            }
            (_, progress) => progress,
        };
        let load = |size, root| Tree::load(log.assets.clone(), log.format, size, root);
        let mut loaded = load(size, root).await;
        if let Some(Record { checkpoint, .. }) = &mirrored
            && checkpoint.size < size
        {
            let extends = match &loaded {
                Ok(tree) => tree.extends(checkpoint.size, checkpoint.root).await?,
                Err(_) => false,
            };
            if !extends {
                // Another process has saved the progress: of other files, or another history.
                loaded = load(checkpoint.size, checkpoint.root).await;
            }
        }
        let tree = loaded?;
        if let Some(record) = &mirrored {
            // A crash may have prevented the publication.
            self.publish(log, &record.note, record.checkpoint.size, record.time)
                .await?;
        }
        log.was_loaded.store(true, Relaxed);
        Ok(State {
            tree,
            mirrored,
            is_committing: false,
        })
    }

    fn progress_key(&self, log: &MirroredLog) -> [u8; 32] {
        self.witness.lock_key("mirror progress\n", &log.origin)
    }

    /// Appends entries. From time to time they are synced, so that a long upload is not read back
    /// at once.
    pub(super) async fn append(
        &self,
        log: &MirroredLog,
        state: &mut State,
        entries: &[u8],
        leaves: &[Hash],
    ) -> Result<(), UploadRefusal> {
        state.tree.append(entries, leaves).await?;
        if state.tree.size() - state.tree.durable().size() >= SAVED {
            self.save_progress(log, state).await?;
        }
        Ok(())
    }

    /// Syncs the entries, so that an upload continues after a restart.
    pub(super) async fn save_progress(
        &self,
        log: &MirroredLog,
        state: &mut State,
    ) -> Result<(), UploadRefusal> {
        let size = state.tree.size();
        if size == state.tree.durable().size() {
            return Ok(());
        }
        let root = state.tree.flush(size, state.mirrored_size()).await?;
        let origin = log.origin.clone();
        let progress = Checkpoint { origin, size, root }.to_string();
        let (lock, key) = (self.witness.lock(), self.progress_key(log));
        let saved = match lock.load(&key).await? {
            Some(old) => lock.replace(&key, &old, progress.as_bytes()).await,
            None => lock.create(&key, progress.as_bytes()).await,
        };
        match saved {
            // Another process has stored entries of the same log, which are the same.
            Ok(()) | Err(LockError::Conflict { .. } | LockError::Exists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the mirror checkpoint in the lock. Fails if another process has cosigned since the
    /// state was loaded: the tree in memory may be another history of the log.
    pub(super) async fn recorded(
        &self,
        log: &MirroredLog,
        state: &State,
    ) -> Result<Recorded, UploadRefusal> {
        let recorded = self.witness.recorded(Slot::Mirror, &log.origin).await?;
        let [now, loaded] = [&recorded.record, &state.mirrored]
            .map(|record| record.as_ref().map(|record| &record.checkpoint));
        if now != loaded {
            return Err(Refusal::Busy.into());
        }
        Ok(recorded)
    }

    /// Cosigns a checkpoint after all its entries are durable and were read back. The cosignatures
    /// leave the mirror after the checkpoint is in the lock and published.
    pub(super) async fn commit(
        &self,
        log: &MirroredLog,
        state: &mut State,
        target: &Target,
        now: u64,
    ) -> Result<Vec<NoteSignature>, UploadRefusal> {
        let Checkpoint { size, root, .. } = target.checkpoint;
        let recorded = self.recorded(log, state).await?;
        let before = state.mirrored_size();
        if state.tree.flush(size, before).await? != root {
            return Err(TreeError::Root { size, root }.into());
        }
        let own = |line: &&NoteSignature| {
            let mut keys = self.witness.verifiers();
            keys.any(|key| key.name() == line.name && key.id() == line.key_id)
        };
        let (text, lines) = (&target.note.text, target.note.signatures.iter());
        let lines: Vec<_> = lines.filter(|line| !own(line)).cloned().collect();
        state.is_committing = true;
        let replaced = self.witness.replaced(&recorded, text, &lines, now).await?;
        let (cosignatures, note) = replaced.ok_or(Refusal::Busy)?;
        let record = self.witness.parsed(Slot::Mirror, &log.origin, &note)?;
        self.publish(log, &note, size, record.time).await?;
        state.mirrored = Some(record);
        state.is_committing = false;
        let full: Vec<_> = superseded(before, size)
            .map(|tile| log.path(tile))
            .collect();
        if !full.is_empty()
            && let Err(error) = log.assets.remove_partials(&full).await
        {
            tracing::warn!("partial tiles of {} stay: {error}", log.origin);
        }
        Ok(cosignatures)
    }

    async fn publish(
        &self,
        log: &MirroredLog,
        note: &SignedNote,
        size: u64,
        time: u64,
    ) -> Result<(), UploadRefusal> {
        let note = Bytes::from(note.encode());
        let published = Published {
            note: note.clone(),
            size,
            time,
        };
        if log.published().is_some_and(|before| *before == published) {
            return Ok(());
        }
        if log.assets.get(CHECKPOINT).await?.as_ref() != Some(&note) {
            let checkpoint = Asset::new(CHECKPOINT, note, AssetKind::Checkpoint);
            log.assets.publish(vec![checkpoint]).await?;
        }
        log.seen.fetch_max(size, Relaxed);
        *log.published.lock() = Some(published.into());
        Ok(())
    }
}

impl MirroredLog {
    /// Returns the path of a tile in the store.
    fn path(&self, tile: lucarne_tlog::Tile) -> String {
        match tile.level() {
            lucarne_tlog::Level::Data => self.format.path(&tile),
            lucarne_tlog::Level::Hashes(_) => tile.path(),
        }
    }
}

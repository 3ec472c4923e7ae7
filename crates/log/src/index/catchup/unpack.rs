//! Threads that unpack and hash data tiles for the dedup index.
//!
//! These threads do most of the work of reading an index from the tiles. They run at a lower
//! priority than all other threads, so that a log with a lost index, and all other logs, serve as
//! before. Each thread keeps its buffers from one tile to the next.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, available_parallelism};

use bytes::Bytes;
use lucarne_ct::{TileEntries, TileEntry};
use lucarne_tlog::{Hash, TILE_WIDTH, tile_root};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::index::dedup::{LeafPosition, Record};
use crate::index::thread_priority::lower_priority;
use lucarne_ctread::gunzip_into;

/// Maximum number of threads.
const MOST: usize = 4;
/// Maximum number of waiting tiles, equal to the number of concurrent reads.
const WAITING: usize = 64;
/// Maximum size in bytes of the buffer that a thread keeps for the next tile.
const KEPT: usize = 4 << 20;

/// Threads that end when this value is dropped.
pub(super) struct Unpackers {
    tiles: SyncSender<Packed>,
}

/// A data tile as it is stored.
struct Packed {
    bytes: Bytes,
    /// Index of the first entry.
    first: u64,
    unpacked: oneshot::Sender<Unpacked>,
}

/// Entries of a data tile up to the first invalid entry, at most 256, not yet verified against the
/// tree.
#[derive(Default)]
pub(super) struct Unpacked {
    pub(super) records: Vec<Record>,
    /// Leaf hashes of the entries, concatenated.
    pub(super) hashes: Vec<u8>,
    /// Root of the leaf hashes of a full tile.
    pub(super) root: Option<Hash>,
}

impl Unpackers {
    /// Starts a thread for each processor, at most [`MOST`].
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let (tiles, waiting) = sync_channel(WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        let threads = available_parallelism().map_or(1, NonZero::get).min(MOST);
        for _ in 0..threads {
            let waiting = waiting.clone();
            let unpacker = thread::Builder::new().name("lucarne-unpack".into());
            unpacker.spawn(move || unpack_all(&waiting))?;
        }
        Ok(Unpackers { tiles })
    }

    /// Unpacks and hashes the tile whose first entry has the index `first`. Returns `None` if a
    /// thread has panicked, or if more than [`WAITING`] tiles wait.
    pub(super) async fn unpack(&self, bytes: Bytes, first: u64) -> Option<Unpacked> {
        let (unpacked, result) = oneshot::channel();
        let tile = Packed {
            bytes,
            first,
            unpacked,
        };
        match self.tiles.try_send(tile) {
            Ok(()) => result.await.ok(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => None,
        }
    }
}

fn unpack_all(waiting: &Mutex<Receiver<Packed>>) {
    lower_priority();
    let (mut plain, mut leaf) = (Vec::new(), Vec::new());
    loop {
        let next = waiting.lock().recv();
        let Ok(tile) = next else {
            return;
        };
        // If the caller has dropped its future, the tile is skipped.
        if !tile.unpacked.is_closed() {
            let unpacked = match gunzip_into(&tile.bytes, &mut plain) {
                Ok(plain) => Unpacked::read(plain, tile.first, &mut leaf),
                Err(_) => Unpacked::default(),
            };
            let _ = tile.unpacked.send(unpacked);
        }
        plain.clear();
        plain.shrink_to(KEPT);
    }
}

impl Unpacked {
    /// Reads entries, the first of which has the index `first`; `buffer` is for one entry.
    pub(super) fn read(entries: &[u8], first: u64, buffer: &mut Vec<u8>) -> Self {
        let width = TILE_WIDTH as usize;
        let mut records = Vec::with_capacity(width);
        let mut hashes = Vec::with_capacity(width * Hash::LENGTH);
        for TileEntry { index, leaf, .. } in TileEntries::all(entries, first).take(width).flatten()
        {
            hashes.extend_from_slice(&leaf.leaf_hash(buffer).0);
            let timestamp_ms = leaf.timestamp;
            let place = LeafPosition {
                index,
                timestamp_ms,
            };
            records.push((leaf.identity(), place));
        }
        Unpacked {
            root: tile_root(&hashes),
            records,
            hashes,
        }
    }
}

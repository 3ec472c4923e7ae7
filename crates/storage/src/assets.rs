//! The files of a log: [`Asset`], and the trait [`Assets`] of the stores that hold the published
//! files and the journal of rounds.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{AssetError, OpenFile, Stats};

/// A public file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Path in the static CT API, relative to the monitoring prefix: `checkpoint`,
    /// `tile/0/x001/234.p/5`, `issuer/<fingerprint>`.
    pub path: String,
    /// The content, already encoded.
    pub bytes: Bytes,
    /// Kind of file, which decides the HTTP headers.
    pub kind: AssetKind,
}

impl Asset {
    /// Creates an asset of `kind` at `path`.
    pub fn new(path: impl Into<String>, bytes: impl Into<Bytes>, kind: AssetKind) -> Self {
        Self {
            path: path.into(),
            bytes: bytes.into(),
            kind,
        }
    }
}

/// The kinds of public files (static-ct-api, "Monitoring APIs").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AssetKind {
    /// The signed tree head; the only file that changes.
    Checkpoint,
    /// A tile of Merkle tree hashes, full or partial.
    HashTile,
    /// A tile of entries.
    DataTile {
        /// The encoding of the bytes.
        encoding: Encoding,
    },
    /// The names of the entries of a data tile, gzipped JSON lines (the names tiles extension).
    NamesTile,
    /// A DER certificate of a chain, named after its SHA-256.
    Issuer,
    /// `log.v3.json`: the log's metadata.
    LogJson,
}

/// The encodings of stored bytes, named as in `Content-Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// No encoding.
    Identity,
    /// Gzip (RFC 1952).
    Gzip,
}

impl AssetKind {
    /// Returns the `Content-Type` of the file.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Checkpoint => "text/plain; charset=utf-8",
            Self::HashTile | Self::DataTile { .. } => "application/octet-stream",
            Self::NamesTile => "application/jsonl; charset=utf-8",
            Self::Issuer => "application/pkix-cert",
            Self::LogJson => "application/json",
        }
    }

    /// Returns the `Cache-Control` of the file. Tiles (full and partial) and issuers never change;
    /// a checkpoint is replaced in every round.
    pub fn cache_control(self) -> &'static str {
        match self {
            Self::Checkpoint => "public, max-age=2",
            Self::HashTile | Self::DataTile { .. } | Self::NamesTile | Self::Issuer => {
                "public, max-age=31536000, immutable"
            }
            Self::LogJson => "public, max-age=300",
        }
    }

    /// Returns the `Content-Encoding` of the stored bytes, if any.
    pub fn content_encoding(self) -> Option<&'static str> {
        match self {
            Self::DataTile {
                encoding: Encoding::Gzip,
            }
            | Self::NamesTile => Some("gzip"),
            _ => None,
        }
    }
}

/// The public files of one log, and the journal that makes its rounds durable.
///
/// Each round calls these methods in this order:
/// 1. [`stage`](Self::stage), the durability point;
/// 2. the commit in the [`Lock`](crate::Lock);
/// 3. [`publish`](Self::publish) for tiles and issuers;
/// 4. `publish` for the checkpoint.
///
/// From time to time, concurrently with the rounds, [`settle`](Self::settle) truncates the journal.
///
/// # Recovery
///
/// Recovery starts with [`staged`](Self::staged). Its records may contain rounds that never
/// happened: the record was staged, then the commit failed or the process died. A later round may
/// then have staged another record of the same or of a smaller size.
///
/// The committed rounds are found backwards. Sizes only grow from commit to commit, so the *last*
/// record with `new_size` equal to the size in the lock is committed. Its predecessor is the last
/// earlier record whose `new_size` is the size at which this record begins, and so on. Recovery
/// publishes every record on that path again before the next `settle`, even if a file seems to
/// exist already: after a power failure only the journal is known to be complete.
#[async_trait]
pub trait Assets: Repairs + 'static {
    /// Appends a round to the journal. When `stage` returns, the record is on stable storage, and
    /// the published checkpoint [is confirmed](Self::confirm_published). A POSIX back end does one
    /// append and one `fdatasync`; an object store writes one object.
    ///
    /// `new_size` is the size of the tree, in entries, after the round.
    ///
    /// # Errors
    ///
    /// The errors of [`confirm_published`](Self::confirm_published).
    ///
    /// After any error it is unknown whether the record is durable. Further calls return
    /// [`AssetError::Poisoned`] until [`staged`](Self::staged) has been called again, that is,
    /// until the log has been reopened.
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError>;

    /// Returns all complete records that are not settled yet, oldest first, and possibly some
    /// settled records. Reopens the journal: this is the first call of a recovery.
    ///
    /// A torn tail is dropped, because it was never acknowledged.
    ///
    /// # Errors
    ///
    /// [`AssetError::Damaged`] for damage anywhere else, with file and offset.
    async fn staged(&self) -> Result<Vec<Bytes>, AssetError>;

    /// Returns the staged records like [`staged`](Self::staged), but tolerates damage below a
    /// published checkpoint of `size` entries, which the caller has verified. If published files
    /// [are durable](Self::publishes_durably), damaged records that the checkpoint covers are
    /// skipped: no recovery needs them. Otherwise, a back end may skip any damaged record; the
    /// caller then checks that the published files replace it.
    ///
    /// # Errors
    ///
    /// The errors of [`staged`](Self::staged).
    async fn staged_beyond(&self, size: u64) -> Result<Vec<Bytes>, AssetError> {
        let _ = size;
        self.staged().await
    }

    /// Returns the complete records that the journal has now, oldest first. Another process may
    /// append to the journal at the same time. Changes nothing, and omits damaged records.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read.
    async fn staged_now(&self) -> Result<Vec<Bytes>, AssetError> {
        Ok(Vec::new())
    }

    /// Makes each file visible to readers, atomically, but not necessarily durable. Files of one
    /// call may appear in any order. Files of a later call appear after the files of a call that
    /// has returned.
    ///
    /// # Errors
    ///
    /// After an error, some of the files may have been published. Publishing them again is allowed.
    /// [`AssetError::Overtaken`] if the published checkpoint differs from the last checkpoint that
    /// this process published or, since [`staged`](Self::staged), read. The existing checkpoint
    /// then stays. [`AssetError::CheckpointMissing`] if the bucket no longer has a checkpoint.
    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError>;

    /// Replaces the published checkpoint `old` by `new`: the same bytes, and more signatures.
    /// Returns `false` and changes nothing if `old` is not the last checkpoint that this process
    /// published or read, or the back end cannot compare and replace in one step.
    ///
    /// The caller may drop the future at any time. Whether or not the file was replaced,
    /// [`publish`](Self::publish) then replaces both `old` and `new`.
    ///
    /// # Errors
    ///
    /// The errors of [`publish`](Self::publish), except [`AssetError::Overtaken`], which the next
    /// call of `publish` returns. It is unknown whether the file was replaced.
    async fn amend_checkpoint(&self, old: &Bytes, new: Bytes) -> Result<bool, AssetError> {
        let _ = (old, new);
        Ok(false)
    }

    /// Returns the time that the store needs between two replacements of the checkpoint.
    fn replacement_interval(&self) -> Duration {
        Duration::ZERO
    }

    /// Confirms, before a checkpoint is committed without a round, that the published checkpoint is
    /// still the last one that this process published or, since [`staged`](Self::staged), read.
    /// Before a round is committed, [`stage`](Self::stage) confirms this. A back end whose
    /// [`publish`](Self::publish) compares and replaces in one step can leave the check to
    /// `publish`.
    ///
    /// # Errors
    /// [`AssetError::Overtaken`] if the checkpoint differs: another process publishes this log,
    /// too.
    async fn confirm_published(&self) -> Result<(), AssetError> {
        Ok(())
    }

    /// Describes another process of this machine that has files of the log open; `None` if no such
    /// process is known.
    fn others(&self) -> Option<String> {
        None
    }

    /// Makes everything durable that was published before the call, then drops staged records with
    /// `new_size <= size`. Records are dropped in whole segments, so some may stay until the next
    /// call. `size` is the size of a published checkpoint.
    ///
    /// Runs concurrently with [`stage`](Self::stage) and [`publish`](Self::publish) without
    /// blocking them.
    ///
    /// # Errors
    ///
    /// After an error, files published since the last successful call may be lost, although readers
    /// see them now. No later call can succeed until the log has been reopened with
    /// [`staged`](Self::staged) and has published them again. If published files [are
    /// durable](Self::publishes_durably), an error only means that staged records stay.
    async fn settle(&self, size: u64) -> Result<(), AssetError>;

    /// Returns `true` if files are durable when [`publish`](Self::publish) returns. This holds for
    /// object stores, but not for a disk. [`settle`](Self::settle) is then cheap and worth calling
    /// every few rounds, and a recovery need not publish files that a published checkpoint covers.
    fn publishes_durably(&self) -> bool {
        false
    }

    /// Returns the bytes of a file exactly as stored, or `None` if the file does not exist.
    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError>;

    /// Returns a file like [`get`](Self::get), with the open file that the bytes were read from if
    /// the kernel can send it more cheaply.
    async fn get_open(&self, path: &str) -> Result<Option<(Bytes, Option<OpenFile>)>, AssetError> {
        Ok(self.get(path).await?.map(|bytes| (bytes, None)))
    }

    /// Removes every file under `<tile>.p/` for each of these full tile paths (`tile/0/x001/234`).
    /// The full tiles must be settled first. After an error, the caller may retry with the same
    /// tiles.
    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError>;

    /// Returns the widths that exist under `<tile_path>.p/`, ascending.
    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError>;

    /// Returns the names of all files and directories in the directory of this tile, in any order,
    /// or `None` if the back end cannot list them cheaply.
    async fn beside(&self, tile_path: &str) -> Result<Option<Vec<String>>, AssetError> {
        let _ = tile_path;
        Ok(None)
    }

    /// Returns whether the log can keep private files beside the public ones.
    fn keeps_private(&self) -> bool {
        false
    }

    /// Writes or replaces a private file, which readers of the log do not see. `name` is a path
    /// such as `index/manifest.json`. The file may be lost or torn by a power failure: its reader
    /// must verify it.
    ///
    /// # Errors
    /// [`AssetError::BadPath`] if the name is not allowed, or if there are no private files; other
    /// errors if the file cannot be written.
    async fn put_private(&self, name: &str, bytes: Bytes) -> Result<(), AssetError> {
        let _ = bytes;
        Err(AssetError::BadPath { path: name.into() })
    }

    /// Returns a private file of at most `max` bytes, or `None` if the file does not exist.
    ///
    /// # Errors
    /// If the file cannot be read, or has more than `max` bytes. A longer file is not read.
    async fn get_private(&self, name: &str, max: u64) -> Result<Option<Bytes>, AssetError> {
        let _ = (name, max);
        Ok(None)
    }

    /// Returns the number of bytes that can still be written, or `None` if there is no such limit.
    /// An object store reads its checkpoint to verify that the store responds.
    async fn headroom(&self) -> Result<Option<u64>, AssetError>;

    /// Releases the exclusive resources of this process: afterwards another process can open the
    /// directory, and this process can no longer write. Reading still works.
    ///
    /// # Errors
    ///
    /// If an operation has not ended. Nothing is released in this case.
    async fn close(&self) -> Result<(), AssetError> {
        Ok(())
    }

    /// Returns the counters of everything written so far, for metrics.
    fn stats(&self) -> &Stats;

    /// Returns the location of the files, a directory or a bucket, for messages.
    fn location(&self) -> String;
}

/// Directory for damaged files, in the log's private directory.
pub(crate) const KEPT: &str = ".lucarne/damaged";

/// Replaces files that differ from the bytes of the log, while another process serves them. The old
/// files are evidence and are never lost.
#[async_trait]
pub trait Repairs: Send + Sync {
    /// Replaces the file at the path of `asset` atomically and durably. Returns the location of the
    /// kept old file, or `None` if no file existed.
    ///
    /// # Errors
    ///
    /// After an error, the old file is still at its path, or among the kept files.
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError>;

    /// Returns the error with which [`replace`](Self::replace) would fail, as far as this can be
    /// known without a write.
    ///
    /// # Errors
    ///
    /// The errors of [`replace`](Self::replace).
    async fn may_replace(&self, path: &str) -> Result<(), AssetError> {
        let _ = path;
        Ok(())
    }

    /// Returns the damaged rounds that
    /// [`remove_damaged_rounds`](Self::remove_damaged_rounds) would remove.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read.
    async fn damaged_rounds(&self, size: u64) -> Result<Vec<String>, AssetError> {
        let _ = size;
        Ok(Vec::new())
    }

    /// Removes the damaged rounds that a published checkpoint of `size` entries covers. The caller
    /// has verified that all files of its tree are right, and that the lock has the same tree. A
    /// directory that another process has open stays unchanged.
    ///
    /// # Errors
    ///
    /// After an error, some of the rounds may have been removed.
    async fn remove_damaged_rounds(&self, size: u64) -> Result<Vec<Removed>, AssetError> {
        let _ = size;
        Ok(Vec::new())
    }
}

/// A damaged file that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Former location of the file.
    pub file: String,
    /// Location of the kept copy.
    pub kept: String,
}

/// The records of a journal with their positions.
#[derive(Debug, Default)]
pub struct JournalContents {
    /// All complete records, oldest first.
    pub records: Vec<StagedRecord>,
    /// The unfinished ends of segments, which a recovery drops. The last unfinished end may be an
    /// append in progress.
    pub torn: Vec<TornTail>,
    /// Damage that no crash explains ([`AssetError::Damaged`]). Records after the damage in the
    /// same file are missing from `records`.
    pub damage: Vec<AssetError>,
}

impl JournalContents {
    /// Returns the complete records without their positions.
    pub(crate) fn into_records(self) -> Vec<Bytes> {
        self.records
            .into_iter()
            .map(|staged| staged.record)
            .collect()
    }
}

/// A record of the journal, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRecord {
    /// Path of the segment, or name of the object.
    pub file: String,
    /// Offset in the file, at the start of the record's header.
    pub offset: u64,
    /// Length in the file, including the header.
    pub bytes: u64,
    /// Content of the record.
    pub record: Bytes,
}

/// An append that was never finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Path of the segment.
    pub file: String,
    /// Offset at which the unfinished record begins.
    pub offset: u64,
    /// Number of bytes from this offset to the end of the file.
    pub bytes: u64,
}

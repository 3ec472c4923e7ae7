//! The trait [`Assets`]: public files and the journal of rounds.

use async_trait::async_trait;
use bytes::Bytes;

use crate::{AssetError, OpenFile, Repairs, Stats};

/// The public files of one log, and the journal that makes its rounds durable.
///
/// A round calls, in this order: [`stage`](Self::stage) (the durability point),
/// then the commit in the [`Lock`](crate::Lock), then
/// [`publish`](Self::publish) for tiles and issuers, then `publish` for the
/// checkpoint. Now and then, beside the rounds, [`settle`](Self::settle) cuts
/// the journal.
///
/// # Recovery
///
/// Starts with [`staged`](Self::staged). Its records may contain rounds that
/// never happened: staged, then the commit failed or the process died. A later
/// round may then have staged another record of the same or of a smaller size.
/// The one that happened is found backwards: sizes only grow from commit to
/// commit, so the *last* record with `new_size` equal to the size in the lock
/// is the committed one; the one before it is the last record, before that
/// place, whose `new_size` is where this one begins; and so on. Everything on
/// that path is published again before the next `settle`, even where a file
/// seems to be there already: after a power failure only the journal is known
/// to be whole.
#[async_trait]
pub trait Assets: Repairs + 'static {
    /// Appends a round to the journal. When this returns, the record is on
    /// stable storage (POSIX: one append, one `fdatasync`; object stores: one
    /// object).
    ///
    /// `new_size` is the size of the tree, in entries, after the round.
    ///
    /// # Errors
    ///
    /// After any error it is unknown whether the record is durable. Nothing
    /// more can be staged ([`AssetError::Poisoned`]) until [`staged`](Self::staged)
    /// has been called again, that is, until the log has been reopened.
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError>;

    /// All whole records that are not settled yet, oldest first, and possibly
    /// some that are. Opens the journal anew: the first call of a recovery.
    ///
    /// A torn tail is dropped: it was never acknowledged.
    ///
    /// # Errors
    ///
    /// [`AssetError::Damaged`] for damage anywhere else, with file and offset.
    async fn staged(&self) -> Result<Vec<Bytes>, AssetError>;

    /// As [`staged`](Self::staged), if that finds damage and the caller has verified a
    /// published checkpoint of `size` entries. Where all that is published [is
    /// durable](Self::publishes_durably), damaged records that it covers are left out:
    /// no recovery needs them.
    ///
    /// # Errors
    ///
    /// As [`staged`](Self::staged).
    async fn staged_beyond(&self, size: u64) -> Result<Vec<Bytes>, AssetError> {
        let _ = size;
        self.staged().await
    }

    /// Returns the whole records that the journal has now, oldest first, beside the process
    /// that appends to it. Changes nothing, and leaves out damaged records.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read.
    async fn staged_now(&self) -> Result<Vec<Bytes>, AssetError> {
        Ok(Vec::new())
    }

    /// Makes each file visible to readers, atomically, but not necessarily
    /// durable. Files of one call may appear in any order; those of a later
    /// call appear after those of an earlier one that has returned.
    ///
    /// # Errors
    ///
    /// Some of the files may then have been published. Publishing them again
    /// is allowed. [`AssetError::Overtaken`] if the published checkpoint is not the
    /// one that was read, since [`staged`](Self::staged) was called, or
    /// published last: then it stays.
    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError>;

    /// Confirms, before a round is committed, that the published checkpoint is the one that was read, since
    /// [`staged`](Self::staged) was called, or published last. Where a [`publish`](Self::publish) that
    /// replaces another one fails in one step, it is enough to notice it then.
    ///
    /// # Errors
    /// [`AssetError::Overtaken`] if another one is there: another process publishes this log, too.
    async fn confirm_published(&self) -> Result<(), AssetError> {
        Ok(())
    }

    /// Names another process of this machine that has files of the log open, in words, if one is known.
    fn others(&self) -> Option<String> {
        None
    }

    /// Makes everything durable that was published before the call, then drops
    /// staged records with `new_size <= size` (in whole segments, so some may
    /// stay until the next call). `size` is that of a published checkpoint.
    ///
    /// Runs beside [`stage`](Self::stage) and [`publish`](Self::publish)
    /// without blocking them.
    ///
    /// # Errors
    ///
    /// Files published since the last successful call may be lost although
    /// readers see them now. No later call can succeed until the log has been
    /// reopened with [`staged`](Self::staged) and has published them again.
    /// (Where all that is published [is durable](Self::publishes_durably), an
    /// error only means that staged records stay.)
    async fn settle(&self, size: u64) -> Result<(), AssetError>;

    /// Returns whether what [`publish`](Self::publish) has returned for is durable: in
    /// object stores, but not on a disk. Then [`settle`](Self::settle) costs
    /// little and is worth calling every few rounds, and a recovery need not
    /// publish what a published checkpoint covers.
    fn publishes_durably(&self) -> bool {
        false
    }

    /// The bytes of a file exactly as stored, or `None` if there is none.
    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError>;

    /// As [`get`](Self::get), for a reader who asked for what a published
    /// checkpoint covers: what never changes may come from a cache. It is for
    /// the caller to see that it is what the log wrote.
    async fn get_for_reader(&self, path: &str) -> Result<Option<ForReader>, AssetError> {
        Ok(self.get(path).await?.map(ForReader::from))
    }

    /// Tells a cache that this is what [`get_for_reader`](Self::get_for_reader)
    /// returned, and that it is what the log wrote: it may be kept.
    fn keep_for_readers(&self, path: &str, bytes: &Bytes) {
        let _ = (path, bytes);
    }

    /// Tells a cache that what it has is not what the log wrote.
    async fn forget_for_readers(&self, path: &str) {
        let _ = path;
    }

    /// Removes every file under `<tile>.p/` for each of these full tile paths
    /// (`tile/0/x001/234`). Only to be called once the full tiles are settled.
    /// After an error it may be called again for the same tiles.
    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError>;

    /// The widths that are present under `<tile_path>.p/`, ascending.
    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError>;

    /// The names of what is in the directory of this tile, files and directories, in any order;
    /// `None` if there is no cheap way to list them.
    async fn beside(&self, tile_path: &str) -> Result<Option<Vec<String>>, AssetError> {
        let _ = tile_path;
        Ok(None)
    }

    /// Bytes that can still be written; `None` where that has no meaning. An
    /// object store is asked for its checkpoint, to see whether it answers.
    async fn headroom(&self) -> Result<Option<u64>, AssetError>;

    /// Lets go of what no other process may have meanwhile: a directory can be opened
    /// by another one then, and nothing more can be written here. Reading goes on.
    ///
    /// # Errors
    ///
    /// If something that was begun has not ended: then nothing is let go of.
    async fn close(&self) -> Result<(), AssetError> {
        Ok(())
    }

    /// Returns what has been written so far, for metrics.
    fn stats(&self) -> &Stats;

    /// For messages: where the files are (a directory, a bucket).
    fn location(&self) -> String;
}

/// A file as a reader gets it.
#[derive(Debug)]
pub struct ForReader {
    /// The bytes exactly as stored.
    pub bytes: Bytes,
    /// The file that they were read from, where assets are files and it is
    /// worth having the kernel send it.
    pub file: Option<OpenFile>,
}

impl From<Bytes> for ForReader {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, file: None }
    }
}

/// One public file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// As in the static CT API, relative to the monitoring prefix:
    /// `checkpoint`, `tile/0/x001/234.p/5`, `issuer/<fingerprint>`.
    pub path: String,
    /// The content, already encoded.
    pub bytes: Bytes,
    /// Its kind, from which follow the headers it is served with.
    pub kind: AssetKind,
}

impl Asset {
    /// An asset of `kind` at `path`.
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
    /// A DER certificate of some chain, named after its SHA-256.
    Issuer,
    /// `log.v3.json`: the log's metadata.
    LogJson,
}

/// The encodings in which bytes are stored, in the terms of `Content-Encoding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As they are.
    Identity,
    /// RFC 1952.
    Gzip,
}

impl AssetKind {
    /// `Content-Type` of the file.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Checkpoint => "text/plain; charset=utf-8",
            Self::HashTile | Self::DataTile { .. } => "application/octet-stream",
            Self::NamesTile => "application/jsonl; charset=utf-8",
            Self::Issuer => "application/pkix-cert",
            Self::LogJson => "application/json",
        }
    }

    /// `Cache-Control` of the file. A tile, partial ones included, and an
    /// issuer never change; a checkpoint is superseded within a round.
    pub fn cache_control(self) -> &'static str {
        match self {
            Self::Checkpoint => "public, max-age=2",
            Self::HashTile | Self::DataTile { .. } | Self::NamesTile | Self::Issuer => {
                "public, max-age=31536000, immutable"
            }
            Self::LogJson => "public, max-age=300",
        }
    }

    /// `Content-Encoding` of the stored bytes, if any.
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

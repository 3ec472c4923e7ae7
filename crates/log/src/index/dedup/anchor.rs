//! The values that bind an index to its log, and their files.
//!
//! The file `anchor` has the log, the list of tables, the gaps and the [`Anchor`]. It is replaced
//! after each new table, which is durable before. The file `head` has the newest tree: its 48 bytes
//! are overwritten in each round and not synced, because no round waits for the disk of the index.
//! If a power cut damages `head`, the older tree of the anchor counts.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lucarne_ct::LogId;
use lucarne_tlog::Hash;
use serde::{Deserialize, Serialize};

use super::failure::{fatal, unsound};
use super::sealed::{SUM, check, load, replace, seal};
use crate::data::tree::TreeHead;
use crate::error::inconsistency::IndexInconsistency;
use crate::error::{DedupError, Fatal};
use crate::index::backlog::Backlog;
use crate::index::unreadable_entries::Gap;

pub(super) const ANCHOR: &str = "anchor";
const HEAD: &str = "head";
/// The length of an encoded tree head in bytes.
const HEAD_BYTES: usize = 40;

/// The position of an entry in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafPosition {
    pub(crate) index: u64,
    pub(crate) timestamp_ms: u64,
}

/// The binding of an index to its log, which is written and read as one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Anchor {
    /// The tables have all entries whose index is below this number, except for the backlog.
    pub(crate) indexed: u64,
    /// The newest tree that was indexed, in tables or in memory. This tree begins with the entries
    /// of the tables and of the backlog.
    pub(crate) head: TreeHead,
    /// The entries that are still to be read.
    pub(crate) backlog: Backlog,
}

impl Anchor {
    pub(super) const EMPTY: Anchor = Anchor {
        indexed: 0,
        head: TreeHead::EMPTY,
        backlog: Backlog::EMPTY,
    };

    pub(super) fn is_valid(&self) -> bool {
        self.indexed <= self.head.size && self.backlog.is_valid(self.indexed)
    }
}

fn encode_head(head: TreeHead) -> [u8; HEAD_BYTES] {
    let mut bytes = [0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&head.size.to_be_bytes());
    bytes[8..].copy_from_slice(&head.root.0);
    bytes
}

fn decode_head(bytes: &[u8]) -> Option<TreeHead> {
    let (size, root) = bytes.split_first_chunk()?;
    Some(TreeHead {
        size: u64::from_be_bytes(*size),
        root: Hash(root.try_into().ok()?),
    })
}

/// The content of the file `anchor`, in JSON. An index with other fields belongs to another
/// version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Noted {
    /// The ID of the log.
    owner: [u8; 32],
    pub(super) anchor: Anchor,
    /// The numbers of the tables, from the oldest table to the newest.
    pub(super) tables: Vec<u64>,
    pub(super) gaps: Vec<Gap>,
    /// Whether the index has returned a wrong place.
    pub(super) distrusted: bool,
}

/// The files `anchor` and `head` of an open index.
pub(super) struct AnchorFile {
    folder: PathBuf,
    head: File,
    pub(super) noted: Noted,
}

impl AnchorFile {
    /// Opens the files of the index in `folder`. An index without an anchor is new.
    pub(super) fn open(folder: &Path, owner: LogId) -> Result<Self, Fatal> {
        let failed = |error: io::Error| fatal(folder, &error);
        let found = read(folder, owner)?;
        let is_new = found.is_none();
        let mut options = File::options();
        let head = options.create(true).truncate(false).write(true);
        let mut file = AnchorFile {
            folder: folder.to_owned(),
            head: head.open(folder.join(HEAD)).map_err(failed)?,
            noted: found.unwrap_or(Noted {
                owner: owner.0,
                anchor: Anchor::EMPTY,
                tables: Vec::new(),
                gaps: Vec::new(),
                distrusted: false,
            }),
        };
        if is_new {
            file.change(|_| ()).map_err(failed)?;
        }
        Ok(file)
    }

    /// Records a change durably.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Noted)) -> io::Result<()> {
        let mut noted = self.noted.clone();
        change(&mut noted);
        replace(&self.folder.join(ANCHOR), serde_json::to_vec(&noted)?)?;
        self.noted = noted;
        Ok(())
    }

    /// Records a newer tree, for which only the entries in memory have changed.
    pub(super) fn see(&mut self, head: TreeHead) -> io::Result<()> {
        let mut bytes = [0; HEAD_BYTES + SUM];
        bytes[..HEAD_BYTES].copy_from_slice(&encode_head(head));
        seal(&mut bytes, 0, 0);
        self.head.write_all_at(&bytes, 0)?;
        self.noted.anchor.head = head;
        Ok(())
    }
}

/// Reads the anchor of the index in `folder`, with the newest tree; `None` if there is no anchor.
/// If two logs shared an index, each log would find entries of the other log.
pub(super) fn read(folder: &Path, owner: LogId) -> Result<Option<Noted>, Fatal> {
    let found = load(&folder.join(ANCHOR)).map_err(|error| fatal(folder, &error))?;
    let Some(content) = found else {
        return Ok(None);
    };
    let noted = serde_json::from_slice::<Noted>(&content).ok();
    let noted = noted.filter(|noted| noted.anchor.is_valid());
    let mut noted = noted.ok_or_else(|| unsound(folder, DedupError::Anchor))?;
    if noted.owner != owner.0 {
        return Err(Fatal::from(IndexInconsistency::OtherLog {
            path: folder.to_owned(),
            found: LogId(noted.owner),
            owner,
        }));
    }
    let newest = fs::read(folder.join(HEAD)).unwrap_or_default();
    if newest.len() == HEAD_BYTES + SUM && check(&newest, 0, 0).is_ok() {
        let newest = decode_head(&newest[..HEAD_BYTES]);
        let newer = newest.filter(|newest| newest.size > noted.anchor.head.size);
        noted.anchor.head = newer.unwrap_or(noted.anchor.head);
    }
    Ok(Some(noted))
}

//! Staged rounds: one object for each, under a private prefix.
//!
//! ```text
//! <prefix>.lucarne/journal/<opening>-<number>-<new size>-<tag>
//! ```
//!
//! An object exists completely or not at all, so a round cannot be torn. But a put that timed out
//! can arrive late, long after the log has been reopened. Therefore, two puts of different bytes
//! never have the same key (the tag is random), and keys sort in the order of staging. `opening`
//! grows with each [`Assets::staged`], within a process and, because it is a timestamp, from one
//! process to the next. An object that arrives late sorts before everything staged since. A
//! recovery skips this object, and a later settle removes it.
//!
//! [`Assets::staged`]: crate::Assets::staged

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use lucarne_x509::now_ms;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128;

use super::ObjectAssets;
use crate::{AssetError, JournalContents, StagedRecord};

/// The directory of the staged rounds.
pub(super) const JOURNAL: &str = ".lucarne/journal";

const MAGIC: &[u8; 8] = b"LUCOBJR1";

/// Length in bytes of the header: the magic number, and the XXH3-128 of the record.
/// `posix/segment.rs` explains why the sum need not be cryptographic.
const HEADER: usize = 24;

/// The name of a staged round. Names sort in the order of staging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    opening: u64,
    number: u64,
    pub(super) new_size: u64,
    tag: u64,
}

impl Name {
    /// Returns the last component of the key.
    pub(super) fn file(&self) -> String {
        let Self {
            opening,
            number,
            new_size,
            tag,
        } = self;
        format!("{opening:016}-{number:010}-{new_size:020}-{tag:016x}")
    }

    pub(super) fn parse(file: &str) -> Option<Self> {
        let mut parts = file.split('-');
        let mut number = || parts.next()?.parse().ok();
        let (opening, count, new_size) = (number()?, number()?, number()?);
        let name = Self {
            opening,
            number: count,
            new_size,
            tag: u64::from_str_radix(parts.next()?, 16).ok()?,
        };
        (name.file() == file).then_some(name)
    }
}

/// The known content of the journal.
#[derive(Default)]
pub(super) struct Journal {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    condition: Condition,
    /// Timestamp of the last opening; 0 before the first.
    opening: u64,
    number: u64,
    /// All objects that may exist.
    staged: BTreeSet<Name>,
}

#[derive(Default)]
enum Condition {
    /// The journal was not listed yet.
    #[default]
    Closed,
    Open,
    /// A put failed. Whether the put takes effect, now or later, is unknown.
    Poisoned(String),
}

impl Journal {
    /// Starts an opening that sorts after all listed openings, and clears the poison.
    pub(super) fn open(&self, listed: impl IntoIterator<Item = Name>) {
        let mut state = self.state.lock();
        state.staged = listed.into_iter().collect();
        let listed = state.staged.last().map_or(0, |name| name.opening);
        // The time is greater than the time of any earlier process, if the clocks are right. The
        // listed names compensate for a wrong clock.
        state.opening = now_ms().max(listed + 1).max(state.opening + 1);
        state.number = 0;
        state.condition = Condition::Open;
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state.lock().condition, Condition::Closed)
    }

    /// Returns the reason why nothing can be staged; `None` if the journal is usable.
    pub(super) fn poison_found(&self) -> Option<String> {
        match &self.state.lock().condition {
            Condition::Poisoned(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    pub(super) fn poison(&self, reason: String) {
        self.state.lock().condition = Condition::Poisoned(reason);
    }

    /// Returns the name of the next round. The object of the round may exist from now on.
    pub(super) fn begin(&self, new_size: u64) -> Name {
        let mut state = self.state.lock();
        state.number += 1;
        let name = Name {
            opening: state.opening,
            number: state.number,
            new_size,
            tag: RandomState::new().hash_one(state.number),
        };
        state.staged.insert(name);
        name
    }

    /// Returns the names of all rounds that `size` settles.
    pub(super) fn settled(&self, size: u64) -> Vec<Name> {
        let state = self.state.lock();
        let settled = state.staged.iter().filter(|name| name.new_size <= size);
        settled.copied().collect()
    }

    /// Removes the name after its object was deleted.
    pub(super) fn removed(&self, name: &Name) {
        self.state.lock().staged.remove(name);
    }
}

impl ObjectAssets {
    /// Returns the names of the staged rounds, oldest first. The listing is paged: 1,000 names per
    /// request.
    pub(super) async fn list_journal(&self) -> Result<Vec<Name>, AssetError> {
        let mut objects = self.store.list(Some(&self.key(JOURNAL)?));
        let mut names = Vec::new();
        while let Some(object) = objects.next().await {
            let object = object.map_err(|e| self.failed("list", JOURNAL, &e))?;
            match object.location.filename().and_then(Name::parse) {
                Some(name) => names.push(name),
                None => tracing::warn!(
                    key = %object.location,
                    "ignored: not an object of the journal of {}", self.location
                ),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the record, unless it has been removed since it was listed.
    pub(super) async fn read_staged(&self, name: Name) -> Result<Option<Bytes>, AssetError> {
        let path = staged_path(name);
        let Some(object) = self.read(&path).await? else {
            return Ok(None);
        };
        record(object)
            .map(Some)
            .map_err(|(offset, detail)| AssetError::Damaged {
                file: format!("{path} in {}", self.location),
                offset,
                detail,
            })
    }

    /// Returns the staged rounds, oldest first, without damaged rounds of at most `size` entries.
    /// Damaged rounds are evidence, and `settle` never removes them.
    pub(super) async fn read_journal(
        &self,
        size: u64,
    ) -> Result<(Vec<Name>, Vec<Bytes>), AssetError> {
        let mut read = stream::iter(self.list_journal().await?)
            .map(async |name| (name, self.read_staged(name).await))
            .buffered(self.parallel);
        let (mut names, mut records) = (Vec::new(), Vec::new());
        while let Some((name, record)) = read.next().await {
            match record {
                Err(error @ AssetError::Damaged { .. }) if name.new_size <= size => {
                    tracing::warn!(
                        %error,
                        "skipped a damaged round, because it is published: run `lucarne repair` \
                         to remove it"
                    );
                }
                record => {
                    names.push(name);
                    records.extend(record?);
                }
            }
        }
        Ok((names, records))
    }

    /// Returns the content of the journal with the position of each record. Only reads, and
    /// tolerates processes that stage and remove rounds at the same time.
    ///
    /// # Errors
    ///
    /// If the store does not respond or refuses. Damage is part of the result.
    pub async fn journal(&self) -> Result<JournalContents, AssetError> {
        let names = self.list_journal().await?;
        let mut read = stream::iter(names)
            .map(async |name| (staged_path(name), self.read_staged(name).await))
            .buffered(self.parallel);
        let mut contents = JournalContents::default();
        while let Some((file, record)) = read.next().await {
            match record {
                Ok(Some(record)) => contents.records.push(StagedRecord {
                    file,
                    offset: 0,
                    bytes: length(&record),
                    record,
                }),
                // The round was removed after it was listed.
                Ok(None) => {}
                Err(damage @ AssetError::Damaged { .. }) => contents.damage.push(damage),
                Err(error) => return Err(error),
            }
        }
        Ok(contents)
    }
}

pub(super) fn staged_path(name: Name) -> String {
    format!("{JOURNAL}/{}", name.file())
}

pub(super) fn header(record: &[u8]) -> Bytes {
    let mut header = Vec::with_capacity(HEADER);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&xxh3_128(record).to_le_bytes());
    header.into()
}

/// Returns the length in bytes of the object of a record.
fn length(record: &[u8]) -> u64 {
    (HEADER + record.len()) as u64
}

/// Returns the record in an object, or the offset and the description of its damage.
fn record(object: Bytes) -> Result<Bytes, (u64, &'static str)> {
    let sum = match object.first_chunk::<HEADER>() {
        Some(header) if header.starts_with(MAGIC) => &header[8..],
        _ => return Err((0, "not the header of a staged round")),
    };
    let record = object.slice(HEADER..);
    if xxh3_128(&record).to_le_bytes() == sum {
        Ok(record)
    } else {
        Err((HEADER as u64, "the record does not match its checksum"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_sort_as_keys_do() {
        let journal = Journal::default();
        journal.open([]);
        let mut names: Vec<Name> = [300, 20, 100].map(|size| journal.begin(size)).to_vec();
        journal.open(names.clone());
        names.push(journal.begin(1));
        let files: Vec<String> = names.iter().map(Name::file).collect();
        assert!(files.is_sorted(), "{files:?}");
        assert!(names.is_sorted());
        for (file, name) in files.iter().zip(names) {
            assert_eq!(Name::parse(file), Some(name));
        }
        for other in ["", "lock", "1-2-3-4", "0-0-0-0-0"] {
            assert_eq!(Name::parse(other), None);
        }
    }

    #[test]
    fn a_clock_set_back_does_not_turn_the_order() {
        let journal = Journal::default();
        journal.open([]);
        let ahead = Name {
            opening: now_ms() + 1_000_000,
            ..journal.begin(7)
        };
        journal.open([ahead]);
        let next = journal.begin(5);
        assert!(next > ahead);
        // The list is empty because the object was settled, but a late put may still arrive.
        journal.open([]);
        assert!(journal.begin(5) > next);
    }

    #[test]
    fn no_flipped_bit_goes_unnoticed() {
        for bytes in [&b""[..], b"a record"] {
            let mut object = header(bytes).to_vec();
            object.extend_from_slice(bytes);
            assert_eq!(record(object.clone().into()).unwrap(), bytes);
            for bit in 0..object.len() * 8 {
                object[bit / 8] ^= 1 << (bit % 8);
                assert!(record(object.clone().into()).is_err(), "bit {bit}");
                object[bit / 8] ^= 1 << (bit % 8);
            }
            for length in 0..object.len() {
                assert!(record(object[..length].to_vec().into()).is_err());
            }
        }
    }
}

//! Reading of the journal in a bucket.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;

use super::ObjectAssets;
use crate::object::journal::{self, Name};
use crate::{AssetError, JournalContents, StagedRecord};

pub(super) const JOURNAL: &str = ".lucarne/journal";

pub(super) fn staged_path(name: Name) -> String {
    format!("{JOURNAL}/{}", name.file())
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
        journal::record(object)
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
                    bytes: journal::length(&record),
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

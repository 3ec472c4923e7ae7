//! Source of the log list, which is read at startup and then periodically.

use std::fmt;
use std::os::unix::fs::MetadataExt;

use lucarne_ct::{LogList, LogListError};
use lucarne_net::{Client, ClientError, without_secrets};

use super::options::LogListSource;

/// Size limit of a log list in bytes. Chrome's list of all logs has about 300 kB.
const MAX_BYTES: usize = 16 << 20;

impl fmt::Display for LogListSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogListSource::File(path) => path.display().fmt(f),
            LogListSource::Url(url) => f.write_str(&without_secrets(url.as_str())),
        }
    }
}

/// A source, and the state of its last reading.
pub(crate) struct Source {
    from: LogListSource,
    client: Client,
    /// Inode, change time and length of the file when it was last read.
    stamp: Option<(u64, (i64, i64), u64)>,
}

impl Source {
    pub(crate) fn new(from: LogListSource, client: Client) -> Self {
        Source {
            from,
            client,
            stamp: None,
        }
    }

    /// Reads the list. Returns `None` if the file has not changed.
    ///
    /// # Errors
    /// If the source cannot be read, or has no valid log list.
    pub(crate) async fn read(&mut self) -> Result<Option<LogList>, SourceError> {
        let mut stamp = None;
        let json = match &self.from {
            LogListSource::Url(url) => self.client.get(url.as_str(), MAX_BYTES).await?,
            LogListSource::File(path) => {
                let metadata = tokio::fs::metadata(path).await?;
                // A copy may keep the modification time and the length, but not the inode and the
                // change time.
                let changed = (metadata.ctime(), metadata.ctime_nsec());
                stamp = Some((metadata.ino(), changed, metadata.len()));
                if self.stamp == stamp {
                    return Ok(None);
                }
                if metadata.len() > MAX_BYTES as u64 {
                    return Err(SourceError::TooLong);
                }
                tokio::fs::read(path).await?.into()
            }
        };
        let list = LogList::parse(&json)?;
        self.stamp = stamp;
        for log in list.skipped() {
            tracing::warn!("log list {}: {log}", self.from);
        }
        Ok(Some(list))
    }
}

/// Reasons why the log list cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Fetching the list failed.
    #[error(transparent)]
    Fetch(#[from] ClientError),
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The list is too long.
    #[error("the list has more than {MAX_BYTES} bytes")]
    TooLong,
    /// The content is not a valid log list.
    #[error(transparent)]
    Parse(#[from] LogListError),
}

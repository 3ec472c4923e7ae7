//! The log list: read at the start, looked at again now and then.

use std::fmt;
use std::os::unix::fs::MetadataExt;

use lucarne_ct::{LogList, LogListError};
use lucarne_net::{Client, ClientError};

use super::options::LogListSource;

/// Chrome's list of all logs has about 300 kB.
const MOST_BYTES: usize = 16 << 20;

impl fmt::Display for LogListSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogListSource::File(path) => path.display().fmt(f),
            LogListSource::Url(url) => url.fmt(f),
        }
    }
}

/// A source, and what is known of it.
pub(crate) struct Source {
    from: LogListSource,
    client: Client,
    /// A file's time and length when its list was read.
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

    /// The list, `None` where it is still the one that was read before.
    ///
    /// # Errors
    /// [`SourceError`].
    pub(crate) async fn read(&mut self) -> Result<Option<LogList>, SourceError> {
        let mut stamp = None;
        let json = match &self.from {
            LogListSource::Url(url) => self.client.get(url.as_str(), MOST_BYTES).await?,
            LogListSource::File(path) => {
                let metadata = tokio::fs::metadata(path).await?;
                // A copy may keep the time and the length; never all of these.
                let changed = (metadata.ctime(), metadata.ctime_nsec());
                stamp = Some((metadata.ino(), changed, metadata.len()));
                if self.stamp == stamp {
                    return Ok(None);
                }
                if metadata.len() > MOST_BYTES as u64 {
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

/// The reasons why there is no log list.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Its server gave none.
    #[error(transparent)]
    Fetch(#[from] ClientError),
    /// Its file cannot be read.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// It is longer than any.
    #[error("it is longer than {MOST_BYTES} bytes")]
    TooLong,
    /// It is no log list.
    #[error(transparent)]
    Parse(#[from] LogListError),
}

//! The log list: read at the start, looked at again now and then.

use std::fmt;
use std::time::SystemTime;

use lucarne_ct::LogList;
use lucarne_net::Client;

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
    stamp: Option<(SystemTime, u64)>,
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
    /// In words.
    pub(crate) async fn read(&mut self) -> Result<Option<LogList>, String> {
        let mut stamp = None;
        let json = match &self.from {
            LogListSource::Url(url) => self
                .client
                .get(url.as_str(), MOST_BYTES)
                .await
                .map_err(text)?,
            LogListSource::File(path) => {
                let metadata = tokio::fs::metadata(path).await.map_err(text)?;
                stamp = Some((metadata.modified().map_err(text)?, metadata.len()));
                if self.stamp == stamp {
                    return Ok(None);
                }
                if metadata.len() > MOST_BYTES as u64 {
                    return Err(format!("it is longer than {MOST_BYTES} bytes"));
                }
                tokio::fs::read(path).await.map_err(text)?.into()
            }
        };
        let list = LogList::parse(&json).map_err(text)?;
        self.stamp = stamp;
        for log in list.skipped() {
            tracing::warn!("log list {}: {log}", self.from);
        }
        Ok(Some(list))
    }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

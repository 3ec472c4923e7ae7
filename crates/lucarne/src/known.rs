//! The places outside where a log's newest checkpoint may be known.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_log::{Answer, KnownCheckpoints};
use lucarne_net::Client;
use tokio::task::JoinSet;

use crate::config::{LogSettings, checkpoint_url};

/// The time that all places have together: a start waits no longer for them.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any checkpoint has.
const MOST_BYTES: usize = 64 << 10;

/// A place where a checkpoint may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A URL, with `/checkpoint` at its end.
    Url(String),
    File(PathBuf),
}

impl Place {
    /// Reads what an operator wrote: the URL of a checkpoint, or of the prefix that
    /// it is under; or a path.
    ///
    /// # Errors
    /// The reason why it cannot be asked.
    pub(crate) fn parse(text: &str) -> Result<Place, String> {
        match text.contains("://") {
            true => Ok(Place::Url(checkpoint_url(text)?)),
            false => Ok(Place::File(text.into())),
        }
    }

    async fn read(&self, client: &Client) -> Result<Bytes, String> {
        match self {
            Place::Url(url) => {
                let answer = client.get(url, MOST_BYTES).await;
                answer.map_err(|error| error.to_string())
            }
            Place::File(path) => {
                let read = tokio::fs::read(path).await;
                read.map(Bytes::from).map_err(|error| error.to_string())
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Url(url) => f.write_str(url),
            Place::File(path) => path.display().fmt(f),
        }
    }
}

/// The places of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownPlaces(pub(crate) Vec<Place>);

impl KnownPlaces {
    /// Those that the configuration names.
    pub(crate) fn of(log: &LogSettings) -> KnownPlaces {
        let urls = log.known.iter().map(|url| Place::Url(url.value.clone()));
        KnownPlaces(urls.collect())
    }
}

#[async_trait]
impl KnownCheckpoints for KnownPlaces {
    async fn ask(&self) -> Vec<Answer> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let client = Client::of_system(PATIENCE);
        let mut asking = JoinSet::new();
        for place in &self.0 {
            let (place, client) = (place.clone(), client.clone());
            asking.spawn(async move {
                let note = tokio::time::timeout(PATIENCE, place.read(&client)).await;
                let silent = || Err(format!("no answer within {} s", PATIENCE.as_secs()));
                Answer {
                    note: note.unwrap_or_else(|_| silent()),
                    place: place.to_string(),
                }
            });
        }
        asking.join_all().await
    }
}

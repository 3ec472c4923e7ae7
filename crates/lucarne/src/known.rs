//! The places outside where a log's newest checkpoint may be known.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_log::{Answer, KnownCheckpoints};
use lucarne_net::{Client, ClientError};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;

use crate::config::values::{PrefixError, checkpoint_url};

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

/// The reasons why a place does not answer.
#[derive(Debug, thiserror::Error)]
enum SilentPlace {
    #[error(transparent)]
    Url(#[from] ClientError),
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Late(#[from] Elapsed),
}

impl Place {
    /// Reads what an operator wrote: the URL of a checkpoint, or of the prefix that
    /// it is under; or a path.
    ///
    /// # Errors
    /// The reason why it cannot be asked.
    pub(crate) fn parse(text: &str) -> Result<Place, PrefixError> {
        match text.contains("://") {
            true => Ok(Place::Url(checkpoint_url(text)?)),
            false => Ok(Place::File(text.into())),
        }
    }

    async fn read(&self, client: &Client) -> Result<Bytes, SilentPlace> {
        let reading = async {
            Ok(match self {
                Place::Url(url) => client.get(url, MOST_BYTES).await?,
                Place::File(path) => tokio::fs::read(path).await?.into(),
            })
        };
        tokio::time::timeout(PATIENCE, reading).await?
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
                let note = place.read(&client).await;
                Answer {
                    note: note.map_err(Into::into),
                    place: place.to_string(),
                }
            });
        }
        asking.join_all().await
    }
}

//! Places outside of this installation with checkpoints of a log.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_log::{KnownCheckpoints, SourceResponse};
use lucarne_net::{Client, ClientError, without_secrets};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;

use crate::prefix::{PrefixError, checkpoint_url};

/// Timeout for all places together, which limits the delay of a start.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a checkpoint with its cosignatures in bytes.
const MAX_BYTES: usize = 1 << 20;

/// A place with a checkpoint or a log list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// URL of the file. That of a checkpoint ends in `/checkpoint`.
    Url(String),
    File(PathBuf),
}

/// Reasons why a place cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SilentPlace {
    #[error(transparent)]
    Url(#[from] ClientError),
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("no response within {} s", READ_TIMEOUT.as_secs())]
    Late(#[from] Elapsed),
}

impl Place {
    /// Parses the URL of a checkpoint, the URL of the prefix above it, or a path.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub(crate) fn parse(text: &str) -> Result<Place, PrefixError> {
        if text.contains("://") {
            Ok(Place::Url(checkpoint_url(text)?))
        } else {
            Ok(Place::File(text.into()))
        }
    }

    /// Reads a URL or a file. More than `limit` bytes are an error.
    pub(crate) async fn read(&self, client: &Client, limit: usize) -> Result<Bytes, SilentPlace> {
        Ok(match self {
            Place::Url(url) => client.get(url, limit).await?,
            Place::File(path) => {
                let mut bytes = Vec::new();
                let file = tokio::fs::File::open(path).await?;
                file.take(limit as u64 + 1).read_to_end(&mut bytes).await?;
                if bytes.len() > limit {
                    let reason = format!("the file has more than {limit} bytes");
                    return Err(io::Error::other(reason).into());
                }
                bytes.into()
            }
        })
    }

    /// Returns the name of the place for clients, without directories of this machine.
    pub(crate) fn public(&self) -> String {
        match self {
            Place::Url(_) => self.to_string(),
            Place::File(path) => {
                let name = path.file_name().unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
        }
    }

    async fn checkpoint(&self, client: &Client) -> Result<Bytes, SilentPlace> {
        tokio::time::timeout(READ_TIMEOUT, self.read(client, MAX_BYTES)).await?
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Url(url) => f.write_str(&without_secrets(url)),
            Place::File(path) => path.display().fmt(f),
        }
    }
}

/// Places of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownPlaces(pub(crate) Vec<Place>);

#[async_trait]
impl KnownCheckpoints for KnownPlaces {
    async fn ask(&self) -> Vec<SourceResponse> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let client = Client::of_system(READ_TIMEOUT);
        let mut asking = JoinSet::new();
        for place in &self.0 {
            let (place, client) = (place.clone(), client.clone());
            asking.spawn(async move {
                let note = place.checkpoint(&client).await;
                SourceResponse {
                    note: note.map_err(Into::into),
                    place: place.to_string(),
                }
            });
        }
        asking.join_all().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_a_place_is_not_shown() {
        let url = "https://u:hush@witness.example/checkpoint";
        let shown = Place::Url(url.to_owned()).to_string();
        assert_eq!(shown, "https://u:***@witness.example/checkpoint");
    }

    #[tokio::test]
    async fn a_file_is_read_up_to_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list.txt");
        std::fs::write(&path, "ten bytes\n").unwrap();
        let client = Client::of_system(READ_TIMEOUT);
        let read = async |path: &str, limit| Place::File(path.into()).read(&client, limit).await;
        let path = path.to_str().unwrap();
        assert_eq!(read(path, 10).await.unwrap(), "ten bytes\n");
        let error = read(path, 9).await.unwrap_err().to_string();
        assert_eq!(error, "the file has more than 9 bytes");
        assert!(read("/dev/zero", 9).await.is_err());
    }

    #[test]
    fn clients_see_no_directory() {
        let public = |text: &str| Place::parse(text).unwrap().public();
        assert_eq!(public("/etc/secret/list.txt"), "list.txt");
        let url = "https://w.example/log/checkpoint";
        assert_eq!(public(url), url);
    }
}

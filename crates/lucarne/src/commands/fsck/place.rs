//! Location and key of the log to check.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lucarne_ct::{CheckpointVerifier, given_public_key};
use lucarne_ctread::{Archive, Bucket, Directory, Prefix, Source};
use lucarne_net::Client;
use lucarne_storage::{ObjectStoreConfig, Repairs};

use super::copy::Copy;
use super::options::LogAt;
use crate::commands::looking::the_one;
use crate::config::{Config, DataPlace, LogSettings};
use crate::open;

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Problems of the configuration, one per line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidConfiguration(String);

/// A log at its location.
pub(crate) struct Place {
    /// Description of the location, for messages.
    pub(crate) location: String,
    pub(crate) files: Arc<dyn Source>,
    /// The data, if they are writable; `None` for a URL.
    pub(super) data: Option<DataPlace>,
    pub(crate) verifier: CheckpointVerifier,
    /// Configuration of the log, which names its lock and journal, if `--at` is not used.
    pub(super) configured: Option<(Config, LogSettings)>,
    /// Whether the key comes from the log's own description.
    pub(super) by_its_own_key: bool,
    /// Whether the log's own description is that of an RFC 6962 log, which was archived.
    pub(crate) is_rfc6962: bool,
}

impl Place {
    /// Opens the place that the options name.
    ///
    /// # Errors
    /// If the place cannot be opened, or its key is unknown.
    pub(crate) async fn of(options: &LogAt) -> Result<Place> {
        match &options.at {
            Some(at) => Place::anywhere(at, options).await,
            None => Place::configured(options).await,
        }
    }

    /// Returns the directory of the log. Only a directory can list files outside the tree.
    pub(super) fn directory(&self) -> Option<&Path> {
        match &self.data {
            Some(DataPlace::Directory(directory)) => Some(directory),
            _ => None,
        }
    }

    /// Opens the place for repairs.
    ///
    /// # Errors
    /// If the place is missing, or a URL.
    pub(super) async fn repairs(&self) -> Result<Arc<dyn Repairs>> {
        let data = self.data.as_ref();
        let data = data.with_context(|| {
            format!(
                "cannot write to {}: a repair needs a directory or a bucket",
                self.location
            )
        })?;
        Ok(open::repairs(data).await?)
    }

    async fn configured(options: &LogAt) -> Result<Place> {
        let config = config(options)?;
        if let Some(copy) = Copy::named(&config, options.name.as_deref()) {
            return copy.place().await;
        }
        let log = the_one(&config, options.name.as_deref())?.clone();
        let (files, location) = opened(&log.data.value).await?;
        Ok(Place {
            location,
            files,
            data: Some(log.data.value.clone()),
            verifier: CheckpointVerifier::new(&log.origin, log.key.public_key_spki())?,
            configured: Some((config, log)),
            by_its_own_key: false,
            is_rfc6962: false,
        })
    }

    async fn anywhere(at: &str, options: &LogAt) -> Result<Place> {
        let (files, data, location) = files_at(at).await?;
        let key = options.log_public_key.as_deref().map(given_public_key);
        let (key, origin) = (key.transpose()?, options.origin.clone());
        let by_its_own_key = key.is_none();
        let (key, origin, is_rfc6962) = match (key, origin) {
            (Some(key), Some(origin)) => {
                let said = described(&*files, &location).await;
                (key, origin, said.is_ok_and(|said| said.2))
            }
            (key, origin) => {
                let said = described(&*files, &location).await?;
                (key.unwrap_or(said.0), origin.unwrap_or(said.1), said.2)
            }
        };
        Ok(Place {
            location,
            files,
            data,
            verifier: CheckpointVerifier::new(&origin, &key)?,
            configured: None,
            by_its_own_key,
            is_rfc6962,
        })
    }
}

/// Reads the configuration.
///
/// # Errors
/// [`InvalidConfiguration`]
pub(super) fn config(options: &LogAt) -> Result<Config> {
    let (config, report) = Config::read(&options.config);
    match (config, report.problems()) {
        (Some(config), []) => Ok(config),
        _ => bail!(InvalidConfiguration(report.problem_lines().join("\n"))),
    }
}

type Opened = (Arc<dyn Source>, Option<DataPlace>, String);

/// Opens the files of a log for reading. Returns them with the data, unless the place is a URL, and
/// the description for messages.
///
/// # Errors
/// If the place does not exist.
pub(super) async fn files_at(at: &str) -> Result<Opened> {
    if at.starts_with("http://") || at.starts_with("https://") {
        let files = Prefix::new(at, Client::of_system(REQUEST_TIMEOUT));
        let url = files.url().to_owned();
        return Ok((Arc::new(files), None, url));
    }
    if !ObjectStoreConfig::is_url(at)
        && let Some(archive) = Archive::open(Path::new(at))?
    {
        return Ok((Arc::new(archive), None, at.to_owned()));
    }
    let place = if ObjectStoreConfig::is_url(at) {
        DataPlace::Bucket(Box::new(ObjectStoreConfig::from_url(at)?))
    } else {
        DataPlace::Directory(at.into())
    };
    let (files, location) = opened(&place).await?;
    Ok((files, Some(place), location))
}

/// Opens data for reading. A directory is read even while other processes use it.
pub(crate) async fn opened(place: &DataPlace) -> Result<(Arc<dyn Source>, String)> {
    Ok(match place {
        DataPlace::Directory(path) => {
            let directory = existing(path)?;
            let location = directory.display().to_string();
            (Arc::new(Directory(directory)), location)
        }
        DataPlace::Bucket(_) => {
            let assets = open::watched_assets(place).await?;
            let location = assets.location();
            (Arc::new(Bucket(assets)), location)
        }
    })
}

fn existing(path: &Path) -> Result<PathBuf> {
    let metadata = std::fs::metadata(path);
    let metadata = metadata.with_context(|| format!("cannot read {}", path.display()))?;
    if metadata.is_dir() {
        Ok(path.to_owned())
    } else {
        bail!("{} is not a directory", path.display())
    }
}

/// Reads the key and the origin from the log's own description, and whether it is that of an
/// RFC 6962 log.
async fn described(files: &dyn Source, location: &str) -> Result<(Vec<u8>, String, bool)> {
    const LACKING: &str = "give --origin and --log-public-key";
    let read = files.read("log.v3.json").await;
    let json = read.with_context(|| format!("cannot read log.v3.json of {location}; {LACKING}"))?;
    let json = json.with_context(|| format!("there is no log.v3.json in {location}; {LACKING}"))?;
    let said: serde_json::Value = serde_json::from_slice(&json)
        .with_context(|| format!("log.v3.json of {location} is not JSON; {LACKING}"))?;
    let text = |name: &str| said.get(name).and_then(serde_json::Value::as_str);
    let key = text("key").and_then(|key| base64_simd::STANDARD.decode_to_vec(key).ok());
    let url = text("submission_url").map(|url| (url, false));
    let url = url.or_else(|| text("url").map(|url| (url, true)));
    match (
        key,
        url.and_then(|(url, old)| Some((url.split_once("://")?.1, old))),
    ) {
        (Some(key), Some((origin, is_rfc6962))) => {
            Ok((key, origin.trim_end_matches('/').to_owned(), is_rfc6962))
        }
        _ => bail!("log.v3.json of {location} has no `key` or no `submission_url`; {LACKING}"),
    }
}

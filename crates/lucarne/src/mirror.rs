//! The mirror, and the logs that it copies by itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use lucarne_cosign::mirror::{EntryFormat, Puller};
use lucarne_cosign::{Mirror, TrustedKey, Witness};
use lucarne_ct::{CheckpointVerifier, sha256};
use lucarne_ctread::Prefix;
use lucarne_http::MirrorService;
use lucarne_log::Turn;
use lucarne_net::Client;
use lucarne_storage::{AssetError, Lock, PosixAssets};

use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::config::{DataPlace, MirrorSettings};
use crate::metering::Metering;
use crate::open::{self, LateAssets, ReadCache};

/// Time between two reads of the checkpoint of a log.
const POLL: Duration = Duration::from_secs(5);

/// Time between two passes of the scrubber.
const PASS: Duration = Duration::from_secs(60);

/// Time limit of one request.
const SILENT: Duration = Duration::from_secs(60);

/// A mirror with the tasks that copy logs. Dropping the value ends them.
pub(crate) struct Mirroring {
    pub(crate) service: Arc<MirrorService>,
    tasks: JoinSet<()>,
}

impl Mirroring {
    /// Ends the copying, and releases the copies for another process.
    ///
    /// # Errors
    /// If an operation of a store has not ended.
    pub(crate) async fn let_go(&mut self) -> Result<(), AssetError> {
        self.tasks.shutdown().await;
        for log in self.service.mirror().logs().values() {
            log.assets().close().await?;
        }
        Ok(())
    }
}

/// Opens the mirror of these settings. Its logs open in the background.
///
/// # Errors
/// If its keys and logs do not fit together, or a directory cannot be created.
pub(crate) async fn open(
    settings: &MirrorSettings,
    (lock, metering): (&Arc<dyn Lock>, &Metering),
    turn: &Turn,
    registry: &mut Registry,
) -> Result<Mirroring> {
    let cosigners = Arc::clone(&settings.cosigners);
    let witness = Witness::new(cosigners, settings.keys.clone(), Arc::clone(lock))
        .context("cannot start the mirror")?;
    let mut logs = Vec::new();
    for (origin, from) in &settings.logs {
        let hash = hex::encode(sha256(&[origin.as_bytes()]));
        let place = settings.data.value.below(&hash);
        create(&place)
            .await
            .with_context(|| format!("cannot create the copy of {origin}"))?;
        let cache = ReadCache {
            directory: PathBuf::new(),
            bytes: 0,
        };
        let assets = LateAssets::for_readers(&place, cache, metering.of(origin), turn.clone());
        let format = match from {
            Some(_) => EntryFormat::StaticCt,
            None => EntryFormat::Bundles,
        };
        logs.push((origin.clone(), format, Arc::clone(assets.store())));
    }
    let mirror = Mirror::new(witness, &settings.tickets.0, logs);
    let service = MirrorService::new(
        Arc::new(mirror),
        settings.submission.value.url.clone(),
        settings.monitoring.value.url.clone(),
        registry,
    );
    let mut tasks = JoinSet::new();
    for (origin, from) in &settings.logs {
        let puller = match from {
            Some(from) => {
                let source = Prefix::new(&from.url, Client::of_system(SILENT));
                Some(Puller::new(Arc::new(source), verifier(settings, origin)?))
            }
            None => None,
        };
        let scrubbed = (Arc::clone(&service), origin.clone());
        tasks.spawn(scrub(scrubbed, turn.clone(), pace(&settings.data.value)));
        let service = Arc::clone(&service);
        tasks.spawn(follow(service, origin.clone(), turn.clone(), puller));
    }
    Ok(Mirroring { service, tasks })
}

/// Creates the directory of a copy.
async fn create(place: &DataPlace) -> Result<()> {
    if let Some(directory) = place.directory()
        && !tokio::fs::try_exists(directory).await?
    {
        let (base, directory) = (directory.parent(), directory.to_owned());
        let base = base.context("the directory of the copies has no name")?;
        anyhow::ensure!(base.is_dir(), "{} is not a directory", base.display());
        open::blocking(move || PosixAssets::create(directory)).await?;
    }
    Ok(())
}

/// Returns the verifier of a static CT log.
///
/// # Errors
/// If the settings have no public key of this kind.
pub(crate) fn verifier(settings: &MirrorSettings, origin: &str) -> Result<CheckpointVerifier> {
    let mut keys = settings.keys.of(origin).into_iter().flatten();
    let spki = keys.find_map(|key| match &**key {
        TrustedKey::Ct(key) => Some(key.spki()),
        TrustedKey::Note(_) => None,
    });
    let spki = spki.context("the log has no public key of a static CT log")?;
    Ok(CheckpointVerifier::new(origin, spki)?)
}

/// Returns the pause after a data tile of this size: the rate of the scrubber of a log. Requests to
/// a bucket cost money.
fn pace(place: &DataPlace) -> fn(usize) -> Duration {
    match place {
        DataPlace::Directory(_) => |bytes| Duration::from_micros(bytes as u64 / 5),
        DataPlace::Bucket(_) => |_| Duration::from_secs(20),
    }
}

/// Verifies all files of a copy again and again.
async fn scrub(
    (service, origin): (Arc<MirrorService>, String),
    turn: Turn,
    pace: fn(usize) -> Duration,
) {
    turn.comes().await;
    while let Some(log) = service.mirror().logs().get(&sha256(&[origin.as_bytes()])) {
        service.scrub(log, pace).await;
        sleep(PASS).await;
    }
}

/// Loads a log, so that its files are served before the first upload. Copies a log that has a
/// puller again and again.
async fn follow(
    service: Arc<MirrorService>,
    origin: String,
    turn: Turn,
    mut puller: Option<Puller>,
) {
    let Some(log) = service.mirror().logs().get(&sha256(&[origin.as_bytes()])) else {
        return;
    };
    // Until then, another process has the lock and the copies.
    turn.comes().await;
    loop {
        if let Some(puller) = &mut puller {
            service.pull(log, puller).await;
        } else if service.load(log).await {
            return;
        }
        sleep(POLL).await;
    }
}

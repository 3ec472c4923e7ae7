//! The checkpoint, the only object of a log that is replaced.
//!
//! Each put has the condition that the bucket still has the checkpoint that was read or put before
//! (compared by e-tag; on GCS by generation). A put that timed out and arrives late therefore
//! changes nothing. If a second process publishes the same log, even with a different lock, this
//! process detects the second process at its next put. A put whose response was lost is repeated
//! with the same condition. If the bucket then has the new checkpoint, the first put succeeded.
//!
//! A probe tests whether the store supports conditions: a put that must fail, and one that must
//! succeed. Without conditions, the checkpoint is read before each put and compared with the last
//! checkpoint of this process. Other processes are then detected a round later, and until then a
//! late put may restore an old checkpoint.

use bytes::Bytes;
use object_store::{GetOptions, PutMode, PutOptions, PutPayload, UpdateVersion};
use tokio::sync::Mutex;

use super::{ObjectAssets, failure, headers};
use crate::object::http::{Conditional, Tries};
use crate::objectlock::mark;
use crate::{AssetError, AssetKind};

pub(super) const PATH: &str = "checkpoint";

/// Key of the put that must fail. The object never exists, unless the store ignores conditions.
const PROBE: &str = ".lucarne/conditions";

/// Number of puts of one checkpoint that the store refuses although the checkpoint in the bucket
/// has not changed. Stores refuse a put during another write of the key (409).
const REFUSALS: u32 = 3;

/// The published checkpoint, as far as it is known. Locked during a replacement.
#[derive(Default)]
pub(super) struct Published(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whether the store supports conditional puts; `None` before the probe.
    conditional: Option<bool>,
    /// The version that was read or put last; `None` if it must be read.
    last: Option<Version>,
}

/// A checkpoint, or its absence, with the store's identifier of the version.
struct Version {
    bytes: Option<Bytes>,
    version: UpdateVersion,
}

impl Version {
    fn mode(&self) -> PutMode {
        match self.bytes {
            None => PutMode::Create,
            Some(_) => PutMode::Update(self.version.clone()),
        }
    }

    /// Returns whether this is the same checkpoint, possibly with more signatures.
    fn extends(&self, last: &Version) -> bool {
        match (&self.bytes, &last.bytes) {
            (Some(found), Some(last)) => found.starts_with(last),
            (found, last) => found == last,
        }
    }
}

impl State {
    /// Records the version that this process put.
    fn replaced(&mut self, new: Bytes, version: UpdateVersion) {
        // Without an e-tag or version the next put cannot have a condition.
        let named = version.e_tag.is_some() || version.version.is_some();
        self.conditional = self.conditional.map(|conditional| conditional && named);
        let bytes = Some(new);
        self.last = Some(Version { bytes, version });
    }
}

impl Published {
    /// Starts a recovery: the next version that is read becomes the current version.
    pub(super) async fn forget(&self) {
        self.0.lock().await.last = None;
    }
}

impl ObjectAssets {
    /// Reads the checkpoint. The first call after [`Published::forget`] decides which version the
    /// next put replaces; later calls do not change it.
    pub(super) async fn checkpoint(&self) -> Result<Option<Bytes>, AssetError> {
        let found = self.read_checkpoint().await?;
        let bytes = found.bytes.clone();
        self.published.0.lock().await.last.get_or_insert(found);
        Ok(bytes)
    }

    /// Replaces the checkpoint that was read or put last.
    ///
    /// # Errors
    /// [`AssetError::Overtaken`] if the bucket has another checkpoint,
    /// [`AssetError::CheckpointMissing`] if it has none, [`AssetError::Unsuitable`] if the store
    /// refuses the put of the right version. After any error, the next call first reads the bucket.
    pub(super) async fn replace_checkpoint(&self, new: Bytes) -> Result<(), AssetError> {
        let mut state = self.published.0.lock().await;
        let conditional = match state.conditional {
            Some(conditional) => conditional,
            None => *state.conditional.insert(self.has_conditions().await?),
        };
        let last = match state.last.take() {
            Some(last) if conditional => last,
            Some(last) => self.still(last, &new).await?,
            None => self.read_checkpoint().await?,
        };
        let version = self.put_after(last, &new, conditional).await?;
        state.replaced(new, version);
        Ok(())
    }

    /// Replaces the checkpoint `old` if it was read or put last, and returns whether it was
    /// replaced. A store without conditions keeps `old`, because a late put could replace a newer
    /// checkpoint.
    pub(super) async fn amend(&self, old: &Bytes, new: Bytes) -> Result<bool, AssetError> {
        let mut state = self.published.0.lock().await;
        let last = state
            .last
            .as_ref()
            .filter(|last| last.bytes.as_ref() == Some(old));
        let Some(last) = last.filter(|_| state.conditional == Some(true)) else {
            return Ok(false);
        };
        let mode = last.mode();
        match self.try_put(mode, &new).await? {
            Ok(version) => state.replaced(new, version),
            Err(error) if failure::is_lost(&error) => {
                // The response of an earlier attempt may have been lost.
                let found = self.read_checkpoint().await?;
                if found.bytes.as_ref() != Some(&new) {
                    return Ok(false);
                }
                state.replaced(new, found.version);
            }
            Err(error) => return Err(self.failed("write", PATH, &error)),
        }
        Ok(true)
    }

    /// Puts the checkpoint under this condition, and returns its version.
    async fn try_put(
        &self,
        mode: PutMode,
        new: &Bytes,
    ) -> Result<object_store::Result<UpdateVersion>, AssetError> {
        let mut options = PutOptions::from(headers(AssetKind::Checkpoint));
        if !matches!(mode, PutMode::Overwrite) {
            options.extensions.insert(Conditional);
        }
        options.mode = mode;
        let put = self.try_write(PATH, PutPayload::from(new.clone()), options);
        Ok(put.await?.map(Into::into))
    }

    /// Puts the checkpoint after the `last` version, and returns the new version. Signatures may
    /// have been added to the last version since: by this process, whose put was then lost or
    /// dropped, or by the former leader.
    async fn put_after(
        &self,
        mut last: Version,
        new: &Bytes,
        conditional: bool,
    ) -> Result<UpdateVersion, AssetError> {
        let mut refusals = 0;
        loop {
            let mode = if conditional {
                last.mode()
            } else {
                PutMode::Overwrite
            };
            let error = match self.try_put(mode, new).await? {
                Ok(version) => return Ok(version),
                Err(error) if failure::is_lost(&error) => error,
                Err(error) => return Err(self.failed("write", PATH, &error)),
            };
            // The response of an earlier attempt may have been lost: the content of the bucket
            // decides.
            let found = self.read_checkpoint().await?;
            if found.bytes.as_ref() == Some(new) {
                return Ok(found.version);
            }
            if !found.extends(&last) {
                return Err(self.replaced(&found));
            }
            refusals += 1;
            if refusals == REFUSALS {
                return Err(AssetError::Unsuitable {
                    action: "write",
                    place: format!("{PATH} in {}", self.location),
                    detail: format!(
                        "the put of the present version is refused: {}",
                        failure::detail(&error)
                    ),
                });
            }
            last = found;
        }
    }

    /// Returns the last version if it is still current. Used for stores without conditions.
    async fn still(&self, last: Version, new: &Bytes) -> Result<Version, AssetError> {
        let found = self.read_checkpoint().await?;
        let ours = found.bytes == last.bytes || found.bytes.as_ref() == Some(new);
        if ours {
            Ok(found)
        } else {
            Err(self.replaced(&found))
        }
    }

    async fn read_checkpoint(&self) -> Result<Version, AssetError> {
        let key = self.key(PATH)?;
        let mut options = GetOptions::default();
        options.extensions.insert(Tries::default());
        let read = async {
            let got = self.store.get_opts(&key, options).await?;
            let version = UpdateVersion {
                e_tag: got.meta.e_tag.clone(),
                version: got.meta.version.clone(),
            };
            let bytes = Some(got.bytes().await?);
            Ok(Version { bytes, version })
        };
        match read.await {
            Ok(found) => Ok(found),
            Err(error) if failure::is_absent(&error) => Ok(Version {
                bytes: None,
                version: UpdateVersion {
                    e_tag: None,
                    version: None,
                },
            }),
            Err(error) => Err(self.failed("read", PATH, &error)),
        }
    }

    /// Returns whether the store supports conditional puts: it must refuse to replace an object
    /// that does not exist, and must replace an object with its own version.
    pub(in crate::object) async fn has_conditions(&self) -> Result<bool, AssetError> {
        let absent = UpdateVersion {
            e_tag: Some("\"d41d8cd98f00b204e9800998ecf8427e\"".into()),
            version: Some("1".into()),
        };
        let mut options = PutOptions::from(PutMode::Update(absent));
        options.extensions.insert(Conditional);
        let put = self.try_write(PROBE, PutPayload::default(), options);
        let problem = match put.await? {
            Err(error) if failure::is_lost(&error) => match self.refusal_of_right().await? {
                None => return Ok(true),
                Some(refusal) => refusal,
            },
            Err(error) if failure::is_unknown(&error) => failure::detail(&error),
            Err(error) => return Err(self.failed("write", PROBE, &error)),
            Ok(_) => {
                self.delete_probe(PROBE).await?;
                "a put replaced an object that does not exist".to_owned()
            }
        };
        tracing::warn!(
            problem,
            "{}: the store does not support the conditions of puts. The checkpoint is read before each \
             put instead, which detects a second process one round later",
            self.location
        );
        Ok(false)
    }

    /// Replaces a probe object, and returns the reason if the store refuses its right version. Each
    /// call has its own key, because several instances may test a bucket at the same time.
    async fn refusal_of_right(&self) -> Result<Option<String>, AssetError> {
        let path = format!("{PROBE}-{}", mark());
        let put = |mode: PutMode| {
            let mut options = PutOptions::from(mode);
            options.extensions.insert(Conditional);
            self.try_write(&path, PutPayload::default(), options)
        };
        let failed = |error| self.failed("write", &path, &error);
        let created = put(PutMode::Create).await?.map_err(failed)?;
        let replaced = put(PutMode::Update(created.into())).await?;
        self.delete_probe(&path).await?;
        match replaced {
            Ok(_) => Ok(None),
            Err(error) if failure::is_lost(&error) || failure::is_unknown(&error) => {
                let detail = failure::detail(&error);
                Ok(Some(format!(
                    "a put with the e-tag of the object is refused: {detail}"
                )))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Deletes a probe object. A failure is harmless.
    async fn delete_probe(&self, path: &str) -> Result<(), AssetError> {
        if let Err(error) = self.delete(vec![self.key(path)?], |_| {}).await {
            tracing::warn!(%error, "cannot delete the probe object of the test for conditional \
                                    puts");
        }
        Ok(())
    }

    /// Returns the error for a version that this process neither read nor put.
    fn replaced(&self, found: &Version) -> AssetError {
        match found.bytes {
            Some(_) => AssetError::Overtaken {
                place: format!("{PATH} in {}", self.location),
                by: None,
            },
            None => AssetError::CheckpointMissing {
                place: self.location.clone(),
            },
        }
    }
}

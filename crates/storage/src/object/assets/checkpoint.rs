//! The one object of the log itself that is replaced: its checkpoint.
//!
//! It is put on the condition that the bucket still has the one that was read
//! or put before (by its e-tag; on GCS by its generation). So a put that was
//! given up and arrives late changes nothing, and a second process that
//! publishes the same log, with whatever lock, is noticed by the first put
//! after that of the other. A put whose answer was lost is repeated with the
//! same condition, and recognised by what is there.
//!
//! Whether the store holds puts to their conditions is tried once, with one
//! that must fail. Where it does not, the checkpoint is read before each put
//! and compared with the last one: others are noticed a round later, and a late
//! put may turn the checkpoint back until then.

use bytes::Bytes;
use object_store::{GetOptions, PutMode, PutOptions, PutPayload, UpdateVersion};
use tokio::sync::Mutex;

use super::{ObjectAssets, failure, headers};
use crate::guards::Guard;
use crate::object::http::{Conditional, Tries};
use crate::{AssetError, AssetKind};

/// The path of the checkpoint.
pub(super) const PATH: &str = "checkpoint";

/// There is no object of this name, except where conditions are ignored.
const PROBE: &str = ".lucarne/conditions";

/// The published checkpoint, as far as it is known. Locked for as long as it is being
/// replaced.
#[derive(Default)]
pub(super) struct Published(Mutex<State>);

#[derive(Default)]
struct State {
    /// True if the store holds puts to their conditions. `None`: not tried yet.
    conditional: Option<bool>,
    /// Holds what was read or put last. `None`: to be read.
    last: Option<Version>,
}

/// A checkpoint, or none, and what the store calls it.
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
}

impl Published {
    /// A recovery begins: what it reads next is what it goes on from.
    pub(super) async fn forget(&self) {
        self.0.lock().await.last = None;
    }
}

impl ObjectAssets {
    /// Reads the checkpoint. The first time after [`Published::forget`], this is
    /// what the next one will replace; whoever looks later changes nothing.
    pub(super) async fn checkpoint(&self) -> Result<Option<Bytes>, AssetError> {
        let found = self.read_checkpoint().await?;
        let bytes = found.bytes.clone();
        self.published.0.lock().await.last.get_or_insert(found);
        Ok(bytes)
    }

    /// Replaces the checkpoint that was read or put last.
    ///
    /// # Errors
    /// [`AssetError::Overtaken`] if another one is there. After any error the next
    /// call reads what is there first.
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
        let mut options = PutOptions::from(headers(AssetKind::Checkpoint));
        if conditional && Guard::Condition.stands() {
            options.mode = last.mode();
            options.extensions.insert(Conditional);
        }
        let put = self.try_write(PATH, PutPayload::from(new.clone()), options);
        let version = match put.await? {
            Ok(done) => done.into(),
            // An answer may have been lost on its way: what is there tells.
            Err(error) if failure::is_lost(&error) => {
                let found = self.read_checkpoint().await?;
                if found.bytes.as_ref() != Some(&new) {
                    return Err(self.overtaken());
                }
                found.version
            }
            Err(error) => return Err(self.failed("write", PATH, &error)),
        };
        // Who does not say what it has stored cannot be held to it.
        let named = version.e_tag.is_some() || version.version.is_some();
        state.conditional = Some(conditional && named);
        state.last = Some(Version {
            bytes: Some(new),
            version,
        });
        Ok(())
    }

    /// For stores without conditions: what was put last, if it is still there.
    async fn still(&self, last: Version, new: &Bytes) -> Result<Version, AssetError> {
        let found = self.read_checkpoint().await?;
        let ours = found.bytes == last.bytes || found.bytes.as_ref() == Some(new);
        match ours {
            true => Ok(found),
            false => Err(self.overtaken()),
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

    /// Tries to replace an object that is not there.
    pub(in crate::object) async fn has_conditions(&self) -> Result<bool, AssetError> {
        let absent = UpdateVersion {
            e_tag: Some("\"d41d8cd98f00b204e9800998ecf8427e\"".into()),
            version: Some("1".into()),
        };
        let mut options = PutOptions::from(PutMode::Update(absent));
        options.extensions.insert(Conditional);
        let put = self.try_write(PROBE, PutPayload::default(), options);
        let problem = match put.await? {
            Err(error) if failure::is_lost(&error) => return Ok(true),
            Err(error) if failure::is_unknown(&error) => failure::detail(&error),
            Err(error) => return Err(self.failed("write", PROBE, &error)),
            Ok(_) => {
                let deleted = self.delete(vec![self.key(PROBE)?], |_| {}).await;
                if let Err(error) = deleted {
                    tracing::warn!(%error, "a probe stays behind");
                }
                "it replaced an object that is not there".to_owned()
            }
        };
        tracing::warn!(
            problem,
            "{}: the store does not hold puts to conditions. The checkpoint is read before each \
             put instead, which notices a second process a round later",
            self.location
        );
        Ok(false)
    }

    fn overtaken(&self) -> AssetError {
        AssetError::Overtaken {
            place: format!("{PATH} in {}", self.location),
            by: None,
        }
    }
}

//! The entries of a data tile, each from the log itself unless it is wrong there.
//!
//! The tree decides between two signed parts of an entry. For the other parts, a right entry of
//! the log stays as it is. What replaces a wrong one must lead to an accepted root.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::{Roots, TileLeafError, TileLeafRef};
use lucarne_tlog::Tile;
use tokio::task::spawn_blocking;

use crate::Files;
use crate::unsigned::{Accepted, Chains, Issuers, PartsError, is_near, issuer, named};

/// The reason why offered entries are not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntriesError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] TileLeafError),
    #[error("entry {0}: nothing vouches for its precertificate and chain: {1}")]
    Parts(u64, #[source] PartsError),
    #[error("verifying it failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Decides which entries are taken.
#[derive(Clone)]
pub(super) struct Judge {
    accepted: Arc<Accepted>,
    own: Arc<Chains>,
}

/// Two versions of a data tile.
struct Versions {
    tile: Tile,
    own: Option<Bytes>,
    offered: Bytes,
    issuers: Issuers,
}

impl Judge {
    /// Decides for the log with these files, below the roots that it accepts.
    pub(super) fn new(files: Arc<dyn Files>, accepted: Arc<Roots>) -> Self {
        Judge {
            accepted: Arc::new(Accepted::new(accepted)),
            own: Arc::new(Chains::of(files)),
        }
    }

    /// The entries of a data tile: those of the log that are right, and for the others those that
    /// another place offers.
    ///
    /// # Errors
    /// If an entry is right nowhere.
    pub(super) async fn merge(
        &self,
        (tile, own): (Tile, Option<Bytes>),
        offered: Bytes,
        offering: &dyn Files,
    ) -> Result<Bytes, EntriesError> {
        let mut fingerprints = named(&offered);
        fingerprints.extend(own.iter().flat_map(|own| named(own)));
        let mut issuers = self.own.issuers(fingerprints.iter().copied()).await;
        for fingerprint in fingerprints {
            if !issuers.contains_key(&fingerprint)
                && let Some(der) = issuer(offering, &fingerprint).await
            {
                issuers.insert(fingerprint, der);
            }
        }
        let versions = Versions {
            tile,
            own,
            offered,
            issuers,
        };
        let judge = self.clone();
        spawn_blocking(move || judge.choose(&versions)).await?
    }

    fn choose(&self, versions: &Versions) -> Result<Bytes, EntriesError> {
        let (mut rest, mut own) = (&versions.offered[..], versions.own.as_deref());
        let mut chosen = Vec::with_capacity(rest.len());
        for index in (versions.tile.start_leaf()..).take(versions.tile.width().into()) {
            let offered = TileLeafRef::read(&mut rest)?;
            // After an entry that cannot be read, no other can.
            let logged = own.as_mut().and_then(|own| TileLeafRef::read(own).ok());
            if logged.is_none() {
                own = None;
            }
            let taken = self.take(logged, offered, &versions.issuers);
            let taken = taken.map_err(|error| EntriesError::Parts(index, error))?;
            taken.encode(&mut chosen);
        }
        Ok(chosen.into())
    }

    /// The right one of two versions of an entry.
    fn take<'e>(
        &self,
        logged: Option<TileLeafRef<'e>>,
        offered: TileLeafRef<'e>,
        issuers: &Issuers,
    ) -> Result<TileLeafRef<'e>, PartsError> {
        if let Some(logged) = logged {
            if logged == offered {
                return Ok(logged);
            }
            let is_same_leaf = (logged.timestamp, logged.signed, logged.extensions)
                == (offered.timestamp, offered.signed, offered.extensions);
            if is_same_leaf && self.is_right(&logged, &offered, issuers) {
                return Ok(logged);
            }
            // Only the signed part differs, and the tree vouches for that.
            if (logged.precertificate, logged.fingerprints)
                == (offered.precertificate, offered.fingerprints)
            {
                return Ok(offered);
            }
        }
        self.accepted.verify(&offered, issuers)?;
        Ok(offered)
    }

    /// Returns whether the unsigned parts of an entry may be right, however they differ from
    /// those that are offered.
    fn is_right(
        &self,
        logged: &TileLeafRef<'_>,
        offered: &TileLeafRef<'_>,
        issuers: &Issuers,
    ) -> bool {
        let mut pairs = logged.fingerprints.zip(offered.fingerprints);
        let is_flipped = pairs
            .any(|(logged, offered)| !issuers.contains_key(&logged) && is_near(&logged, &offered));
        !is_flipped && self.own.check(logged, issuers).is_ok()
    }
}

//! The entries of a data tile: each comes from the log itself, unless the log's copy is wrong.
//!
//! The tree decides between two versions of the signed part of an entry. For the other parts, a
//! correct entry of the log stays as it is. The chain of an entry that replaces a wrong entry must
//! lead to an accepted root.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::{Roots, TileEntries, TileEntry, TileLeafError, TileLeafRef};
use lucarne_ctread::Source;
use lucarne_tlog::Tile;
use tokio::task::spawn_blocking;

use crate::check::unsigned::{Accepted, Chains, Issuers, PartsError, is_near, issuer, named};

/// The reasons why offered entries are rejected.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntriesError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] TileLeafError),
    #[error("entry {0}: cannot verify its precertificate and chain: {1}")]
    Parts(u64, #[source] PartsError),
    #[error("the verification task failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Decides which entries are accepted.
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
    /// Creates the judge of a log with these files and these accepted roots.
    pub(super) fn new(files: Arc<dyn Source>, accepted: Arc<Roots>) -> Self {
        Judge {
            accepted: Arc::new(Accepted::new(accepted)),
            own: Arc::new(Chains::of(files)),
        }
    }

    /// Merges two versions of a data tile: the correct entries of the log, and the offered versions
    /// of all other entries.
    ///
    /// # Errors
    /// If neither version of an entry is correct.
    pub(super) async fn merge(
        &self,
        (tile, own): (Tile, Option<Bytes>),
        offered: Bytes,
        offering: &dyn Source,
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
        let (first, count) = (versions.tile.start_leaf(), versions.tile.width());
        let mut chosen = Vec::with_capacity(versions.offered.len());
        let own = versions.own.as_deref().unwrap_or_default();
        let mut own = TileEntries::all(own, first).map_while(Result::ok);
        for entry in TileEntries::first(&versions.offered, first, count.into()) {
            let TileEntry { index, leaf, .. } = entry?;
            let logged = own.next().map(|entry| entry.leaf);
            let taken = self.take(logged, leaf, &versions.issuers);
            let taken = taken.map_err(|error| EntriesError::Parts(index, error))?;
            taken.encode(&mut chosen);
        }
        Ok(chosen.into())
    }

    /// Returns the correct version of an entry: the log's own version if it is correct.
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
            // Only the signed part differs, and the tree verifies that part.
            if (logged.precertificate, logged.fingerprints)
                == (offered.precertificate, offered.fingerprints)
            {
                return Ok(offered);
            }
        }
        self.accepted.verify(&offered, issuers)?;
        Ok(offered)
    }

    /// Returns whether the unsigned parts of the log's entry may be correct, although they differ
    /// from the offered parts.
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

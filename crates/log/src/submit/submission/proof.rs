//! The comparison of places with the tree, before an SCT is signed.

use std::sync::Arc;

use lucarne_ct::{Identity, SignedEntry, merkle_tree_leaf};
use lucarne_tlog::leaf_hash;
use tokio::task::spawn_blocking;

use super::At;
use crate::error::{SubmitError, Unavailable};
use crate::index::dedup::{Dedup, LeafPosition};
use crate::submit::duplicate_limit::DuplicateTurn;
use crate::submit::submissions::Submissions;

/// The component that returned the place of an entry. The tree decides whether the place is right.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// The dedup index of this instance.
    Index,
    /// The leading instance.
    Leader,
}

impl Submissions {
    /// Verifies the place of a duplicate. The caller holds the returned turn until the SCT is
    /// ready, because both steps read from storage and a signer.
    pub(super) async fn prove_duplicate(
        &self,
        identity: &Identity,
        signed: &SignedEntry,
        place: LeafPosition,
    ) -> Result<Option<DuplicateTurn<'_>>, SubmitError> {
        let turn = match self.scts.find(identity, place) {
            Some(_) => None,
            None => Some(self.duplicates.turn().await?),
        };
        self.prove(identity, signed, place, Source::Index).await?;
        Ok(turn)
    }

    /// Verifies the place of a forwarded entry, if it is from the index of this instance. The
    /// follower cannot know that this index is wrong.
    pub(crate) async fn prove_indexed(
        &self,
        identity: &Identity,
        signed: &SignedEntry,
        at: &At,
    ) -> Result<(), SubmitError> {
        match at {
            At::Index(place) => self.prove(identity, signed, *place, Source::Index).await,
            At::Round(_) | At::Sent(..) => Ok(()),
        }
    }

    /// Verifies that the tree has the entry at this place, because the index or the leader may be
    /// wrong. An SCT is signed only after this verification.
    pub(super) async fn prove(
        &self,
        identity: &Identity,
        signed: &SignedEntry,
        place: LeafPosition,
        source: Source,
    ) -> Result<(), SubmitError> {
        if self.scts.find(identity, place).is_some() {
            return Ok(());
        }
        let tree = self.reader.tree().ok_or_else(|| self.unavailable())?;
        if place.index < tree.size() {
            let in_tree = self.reader.tiles().leaf_hash(&tree.edge, place.index);
            let in_tree = in_tree.await.map_err(|error| self.unproven(&error))?;
            let mut leaf = Vec::new();
            merkle_tree_leaf(place.timestamp_ms, signed, place.index, &mut leaf);
            if leaf_hash(&leaf) == in_tree {
                return Ok(());
            }
        }
        Err(self.refuted(place, source))
    }

    /// Counts and reports a wrong place. A wrong place of the leader does not show that the index
    /// of this instance is wrong.
    fn refuted(&self, place: LeafPosition, source: Source) -> SubmitError {
        self.metrics.dedup_wrong.inc();
        let source = match source {
            Source::Index => {
                if let Some(session) = self.session.load().as_ref() {
                    self.distrust(&session.dedup);
                }
                format!("the dedup index in {}", self.config.cache.display())
            }
            Source::Leader => "the leading instance".to_owned(),
        };
        self.unproven(&format_args!(
            "{source} returned entry {} for a submission, but the tree has another entry there: no \
             SCT was signed",
            place.index
        ))
    }

    /// Marks the index as wrong. The mark is written only once, so at most one thread waits for a
    /// hung disk.
    fn distrust(&self, dedup: &Arc<Dedup>) {
        if !dedup.distrust() {
            return;
        }
        let (dedup, log) = (dedup.clone(), self.config.shortname.clone());
        drop(spawn_blocking(move || {
            if let Err(error) = dedup.note_distrust() {
                // This process has the mark in memory.
                tracing::error!(log, %error, "cannot record a wrong place of the dedup index");
            }
        }));
    }

    fn unproven(&self, problem: &dyn std::fmt::Display) -> SubmitError {
        if let Some(left_out) = self.duplicates.unproven.due() {
            let log = &self.config.shortname;
            tracing::error!(log, %problem, left_out, "no SCT for a submission, because its place \
                                                      in the tree is not proven");
        }
        SubmitError::Unavailable(Unavailable::Unproven)
    }
}

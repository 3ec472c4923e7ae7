//! Replacements for wrong files, from lower tiles of the log and from other copies.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lucarne_ctread::{Source, SourceError, prefix};
use lucarne_tlog::{Checkpoint, Level, SignedNote, Tile};

use super::Refusal;
use super::entries::{EntriesError, Judge};
use crate::check::fsck::Problem;
use crate::check::fsck::beneath::{Depth, beneath};
use crate::check::fsck::tiles::tile;
use crate::data::gzip::gzip;
use crate::data::names_tile::names_tile;

/// A place that may have a copy of the log: a mirror, a directory, a monitoring prefix.
#[derive(Clone)]
pub struct OtherCopy {
    /// Name of the place in messages.
    pub place: String,
    /// The files of the place. Each file is verified before it is taken.
    pub files: Arc<dyn Source>,
}

/// The reason why an offered tile is not taken.
#[derive(Debug, thiserror::Error)]
enum OfferError {
    #[error("cannot be read: {0}")]
    Unreadable(#[source] SourceError),
    #[error(transparent)]
    Entries(#[from] EntriesError),
}

pub(super) enum Origin<'s> {
    /// The files of the next lower level, in the log itself.
    Beneath,
    /// Another copy. For files that the copy lacks: the files of the next lower level.
    Source(&'s OtherCopy),
    /// The entries below the tile, possibly a large number.
    Entries,
}

impl<'s> Origin<'s> {
    /// Returns all origins, the cheapest first.
    pub(super) fn all(sources: &'s [OtherCopy]) -> impl Iterator<Item = Origin<'s>> {
        let sources = sources.iter().map(Origin::Source);
        [Origin::Beneath]
            .into_iter()
            .chain(sources)
            .chain([Origin::Entries])
    }

    /// Returns replacements for these files in their stored form. Adds the offers that are not
    /// taken to `refusals`.
    pub(super) async fn offers(
        &self,
        (own, judge): (&Arc<dyn Source>, &Judge),
        wrong: &[String],
        refusals: &mut Vec<Refusal>,
    ) -> Vec<(String, Bytes)> {
        let mut offers = Vec::new();
        for path in wrong {
            let offer = match (Tile::parse(path), self) {
                (Ok(tile), _) => match self.tile((&**own, judge), tile).await {
                    Ok(offer) => offer,
                    Err(error) => {
                        refusals.push(Refusal {
                            path: path.clone(),
                            from: self.to_string(),
                            problem: error.to_string(),
                        });
                        None
                    }
                },
                // Names tiles are computed from the entries of the log, not read from other places.
                (Err(_), Origin::Beneath) => names(&**own, path).await,
                (Err(_), Origin::Source(source)) if path.starts_with("issuer/") => {
                    source.files.read(path).await.ok().flatten()
                }
                (Err(_), _) => None,
            };
            offers.extend(offer.map(|bytes| (path.clone(), bytes)));
        }
        offers
    }

    /// Returns a replacement for a tile. `None` if there is no replacement, or if the replacement
    /// equals the tile, so that another file must be wrong.
    ///
    /// # Errors
    /// If an offer is not taken.
    async fn tile(
        &self,
        (own, judge): (&dyn Source, &Judge),
        wanted: Tile,
    ) -> Result<Option<Bytes>, OfferError> {
        let there = tile(own, wanted).await.ok();
        let offered = match self {
            Origin::Beneath => None,
            Origin::Entries => beneath(own, wanted, Depth::Entries).await,
            Origin::Source(source) => {
                let versions = (wanted, there.clone());
                source.tile(judge, versions).await?
            }
        };
        let plain = match (offered, self) {
            (None, Origin::Beneath | Origin::Source(_)) => beneath(own, wanted, Depth::Next).await,
            (offered, _) => offered,
        };
        let plain = plain.filter(|plain| there.as_ref() != Some(plain));
        Ok(plain.and_then(|plain| stored(wanted, plain)))
    }
}

impl OtherCopy {
    /// Reads a tile, and returns its uncompressed bytes. Correct entries of the log's own tile
    /// `there` are kept.
    ///
    /// # Errors
    /// If the tile cannot be read, or if an entry of it cannot be verified.
    async fn tile(
        &self,
        judge: &Judge,
        (wanted, there): (Tile, Option<Bytes>),
    ) -> Result<Option<Bytes>, OfferError> {
        let bytes = match tile(&*self.files, wanted).await {
            Ok(bytes) => Some(bytes),
            Err(Problem::Unreadable(error)) => return Err(OfferError::Unreadable(error)),
            Err(_) => self.cut_from_wider(wanted).await,
        };
        match (wanted.level(), bytes) {
            (Level::Data, Some(offered)) => {
                let merged = judge.merge((wanted, there), offered, &*self.files).await;
                Ok(Some(merged?))
            }
            (_, bytes) => Ok(bytes),
        }
    }

    /// Cuts a partial tile from a wider tile, because the other copy of the log may have grown
    /// since.
    async fn cut_from_wider(&self, wanted: Tile) -> Option<Bytes> {
        let note = self.files.read("checkpoint").await.ok()??;
        // The size only selects the tile to read, so the signature is not verified.
        let checkpoint = Checkpoint::parse(&SignedNote::parse(&note).ok()?.text).ok()?;
        let wider = Tile::widest(wanted.level(), wanted.index(), checkpoint.size)?;
        prefix(wanted, tile(&*self.files, wider).await.ok()?).ok()
    }
}

/// Computes the names tile of this path from the entries of the log itself.
async fn names(own: &dyn Source, path: &str) -> Option<Bytes> {
    let data = Tile::parse_names(path).ok()?;
    names_tile(&tile(own, data).await.ok()?).ok()
}

/// Returns the bytes of a tile as a log stores them. Data tiles are compressed again, because the
/// signed tree does not cover the compressed bytes.
pub(super) fn stored(tile: Tile, plain: Bytes) -> Option<Bytes> {
    match tile.level() {
        Level::Hashes(_) => Some(plain),
        Level::Data => gzip(&plain).ok(),
    }
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Beneath => f.write_str("the tiles or entries beneath it"),
            Origin::Source(source) => f.write_str(&source.place),
            Origin::Entries => f.write_str("the entries beneath it"),
        }
    }
}

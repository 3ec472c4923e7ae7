//! The files that are offered in place of wrong ones: by those beneath them, and by other
//! places.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lucarne_tlog::{Checkpoint, Level, SignedNote, Tile};

use super::Refusal;
use super::entries::Judge;
use crate::Files;
use crate::fsck::Problem;
use crate::fsck::beneath::{Depth, beneath};
use crate::fsck::files::tile;
use crate::gzip::gzip;
use crate::names_tile::names_tile;
use crate::stored::prefix;

/// A place that may hold the same log: a mirror, a copy, a monitoring prefix.
#[derive(Clone)]
pub struct Source {
    /// For messages.
    pub place: String,
    /// Its files. None of them is believed.
    pub files: Arc<dyn Files>,
}

/// Where what is offered comes from.
pub(super) enum Origin<'s> {
    /// The files right beneath, in the log itself.
    Beneath,
    /// Another place, and what lies beneath where that has nothing.
    Source(&'s Source),
    /// The entries beneath, which may be many.
    Entries,
}

impl<'s> Origin<'s> {
    /// All of them, the cheapest first.
    pub(super) fn all(sources: &'s [Source]) -> impl Iterator<Item = Origin<'s>> {
        let sources = sources.iter().map(Origin::Source);
        [Origin::Beneath]
            .into_iter()
            .chain(sources)
            .chain([Origin::Entries])
    }

    /// Offers something in place of these files, as it would be stored. Adds to `refusals` what
    /// it does not take.
    pub(super) async fn offers(
        &self,
        (own, judge): (&Arc<dyn Files>, &Judge),
        wrong: &[String],
        refusals: &mut Vec<Refusal>,
    ) -> Vec<(String, Bytes)> {
        let mut offers = Vec::new();
        for path in wrong {
            let offer = match (Tile::parse(path), self) {
                (Ok(tile), _) => match self.tile((&**own, judge), tile).await {
                    Ok(offer) => offer,
                    Err(problem) => {
                        refusals.push(Refusal {
                            path: path.clone(),
                            from: self.to_string(),
                            problem,
                        });
                        None
                    }
                },
                // Nobody else can have others.
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

    /// `None` also if that is what is there: another file is to blame.
    ///
    /// # Errors
    /// In words, if an offer is not taken.
    async fn tile(
        &self,
        (own, judge): (&dyn Files, &Judge),
        wanted: Tile,
    ) -> Result<Option<Bytes>, String> {
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

impl Source {
    /// The bytes of a tile, uncompressed. Entries that are right `there` stay.
    ///
    /// # Errors
    /// In words, if nothing vouches for an entry.
    async fn tile(
        &self,
        judge: &Judge,
        (wanted, there): (Tile, Option<Bytes>),
    ) -> Result<Option<Bytes>, String> {
        let bytes = match tile(&*self.files, wanted).await {
            Ok(bytes) => Some(bytes),
            Err(Problem::Unreadable(error)) => return Err(format!("cannot be read: {error}")),
            Err(_) => self.cut_from_wider(wanted).await,
        };
        match (wanted.level(), bytes) {
            (Level::Data, Some(offered)) => {
                let merged = judge.merge((wanted, there), offered, &*self.files).await;
                merged.map(Some).map_err(|error| error.to_string())
            }
            (_, bytes) => Ok(bytes),
        }
    }

    /// A partial tile from a wider one: the log may have grown there since.
    async fn cut_from_wider(&self, wanted: Tile) -> Option<Bytes> {
        let note = self.files.read("checkpoint").await.ok()??;
        // A hint, and so not verified.
        let checkpoint = Checkpoint::parse(&SignedNote::parse(&note).ok()?.text).ok()?;
        let wider = Tile::widest(wanted.level(), wanted.index(), checkpoint.size)?;
        prefix(wanted, tile(&*self.files, wider).await.ok()?).ok()
    }
}

/// The names tile of this path, made of the entries of the log itself.
async fn names(own: &dyn Files, path: &str) -> Option<Bytes> {
    let data = Tile::parse_names(path).ok()?;
    names_tile(&tile(own, data).await.ok()?).ok()
}

/// The bytes of a tile as a log stores them. Compression is signed by nobody: it is
/// made anew.
pub(super) fn stored(tile: Tile, plain: Bytes) -> Option<Bytes> {
    match tile.level() {
        Level::Hashes(_) => Some(plain),
        Level::Data => gzip(&plain).ok(),
    }
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Beneath => f.write_str("what lies beneath it"),
            Origin::Source(source) => f.write_str(&source.place),
            Origin::Entries => f.write_str("the entries beneath it"),
        }
    }
}

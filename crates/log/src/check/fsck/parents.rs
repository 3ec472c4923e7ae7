//! The walk from the signed root down to the tiles of level 0.
//!
//! The right edge leads to the root. A full tile is right if its root is an entry of the tile
//! above. A wrong tile is recomputed from the tiles beneath it. If the result matches the tile
//! above, the finding has the first byte that differs, and the walk continues with the result.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ctread::Source;
use lucarne_tlog::{Checkpoint, Hash, Level, MAX_LEVEL, RightEdge, TILE_WIDTH, Tile, tile_root};

use super::beneath::{Depth, beneath};
use super::finding::{Finding, Problem};
use super::leaf_tile::Expected;
use super::tiles::tile;

/// The tiles above level 0 on the path to the current position of the walk.
pub(super) struct Parents {
    files: Arc<dyn Source>,
    size: u64,
    /// The right edge of the signed tree; `None` if the tiles do not lead to its root.
    edge: Option<RightEdge>,
    /// The index and the hashes of the last full tile on each level; the hashes are `None` if
    /// unknown.
    last: [Option<(u64, Option<Bytes>)>; MAX_LEVEL as usize + 1],
    /// Findings that were not returned yet.
    findings: Vec<Finding>,
}

impl Parents {
    /// Reads the right edge of the signed tree.
    pub(super) async fn of(files: Arc<dyn Source>, signed: &Checkpoint) -> Self {
        let mut parents = Parents {
            files,
            size: signed.size,
            edge: None,
            last: Default::default(),
            findings: Vec::new(),
        };
        parents.edge = parents.right_edge(signed).await;
        parents
    }

    /// Takes the findings since the last call.
    pub(super) fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    /// Returns the expected hashes of the tile of level 0 with this index.
    pub(super) async fn expected(&mut self, index: u64) -> Expected {
        let partial = Tile::rightmost_partial(Level::Hashes(0), self.size);
        match (&self.edge, partial) {
            (Some(edge), Some(last)) if last.index() == index => {
                Expected::Hashes(joined(edge.partial(0)))
            }
            (None, Some(last)) if last.index() == index => Expected::Unknown,
            _ => {
                let root = self.hash(1, index).await;
                root.map_or(Expected::Unknown, Expected::Root)
            }
        }
    }

    /// Returns the hash at `position` of a level, if known.
    async fn hash(&mut self, level: u8, position: u64) -> Option<Hash> {
        let (index, place) = (position / TILE_WIDTH, (position % TILE_WIDTH) as usize);
        let partial = Tile::rightmost_partial(Level::Hashes(level), self.size);
        if partial.is_some_and(|last| last.index() == index) {
            return self.edge.as_ref()?.partial(level).get(place).copied();
        }
        let kept = self.last.get(usize::from(level))?;
        let hashes = match kept {
            Some((kept, hashes)) if *kept == index => hashes.clone(),
            _ => {
                let hashes = Box::pin(self.full(level, index)).await;
                self.last[usize::from(level)] = Some((index, hashes.clone()));
                hashes
            }
        };
        Hash::from_slice(hashes?.get(place * Hash::LENGTH..(place + 1) * Hash::LENGTH)?)
    }

    /// Returns the hashes of a full tile, from the file or from the tiles beneath it.
    async fn full(&mut self, level: u8, index: u64) -> Option<Bytes> {
        let expected = self.hash(level + 1, index).await;
        let here = Tile::new(Level::Hashes(level), index, TILE_WIDTH as u16)?;
        let read = tile(&*self.files, here).await;
        if let (Ok(bytes), Some(expected)) = (&read, expected)
            && tile_root(bytes) == Some(expected)
        {
            return Some(bytes.clone());
        }
        let computed = beneath(&*self.files, here, Depth::Next).await;
        let confirmed = match (&computed, expected) {
            (Some(computed), Some(expected)) => Some(tile_root(computed) == Some(expected)),
            _ => None,
        };
        let (offset, problem) = match (read, &computed) {
            (Err(problem), _) => (None, problem),
            // The tile above is wrong and reported: there is no evidence against this tile.
            (Ok(bytes), Some(computed)) if bytes == *computed && expected.is_none() => {
                return Some(bytes);
            }
            (Ok(bytes), Some(computed)) if bytes == *computed => (None, Problem::Foreign),
            (Ok(bytes), Some(computed)) if confirmed == Some(true) => {
                (first_difference(&bytes, computed), Problem::Hash)
            }
            _ => (None, Problem::Root),
        };
        self.found(here, offset, problem);
        computed.filter(|_| confirmed == Some(true))
    }

    /// Returns the right edge from its own tiles, or from the tiles beneath if its own tiles do not
    /// lead to the signed root.
    async fn right_edge(&mut self, signed: &Checkpoint) -> Option<RightEdge> {
        let (mut own, mut computed) = (Vec::new(), Vec::new());
        for here in RightEdge::tiles(signed.size) {
            own.push((here, tile(&*self.files, here).await));
        }
        if let Some(edge) = edge(signed, |here| {
            let (_, bytes) = own.iter().find(|(tile, _)| *tile == here)?;
            bytes.as_ref().ok().cloned()
        }) {
            return Some(edge);
        }
        for (here, _) in &own {
            computed.push((*here, beneath(&*self.files, *here, Depth::Next).await));
        }
        let edge = edge(signed, |here| {
            let (_, bytes) = computed.iter().find(|(tile, _)| *tile == here)?;
            bytes.clone()
        });
        let mut agreeing = Vec::new();
        for ((here, own), (_, computed)) in own.into_iter().zip(computed) {
            match (own, computed) {
                (Err(problem), _) => self.found(here, None, problem),
                (Ok(own), Some(computed)) => match first_difference(&own, &computed) {
                    Some(offset) if edge.is_some() => {
                        self.found(here, Some(offset), Problem::Hash);
                    }
                    Some(_) => self.found(here, None, Problem::Root),
                    None => agreeing.push(here),
                },
                // The tiles beneath cannot be read, so this tile cannot be confirmed.
                (Ok(_), None) if edge.is_none() => self.found(here, None, Problem::Root),
                (Ok(_), None) => {}
            }
        }
        if edge.is_none() && self.findings.is_empty() {
            // One of these tiles is wrong, but it is unknown which tile.
            for here in agreeing {
                self.found(here, None, Problem::Root);
            }
        }
        edge
    }

    fn found(&mut self, tile: Tile, offset: Option<u64>, problem: Problem) {
        let leaves = match tile.level() {
            Level::Hashes(level) => TILE_WIDTH.pow(u32::from(level)),
            Level::Data => 1,
        };
        let place = offset.unwrap_or_default() / Hash::LENGTH as u64;
        self.findings.push(Finding {
            path: tile.path(),
            offset,
            entry: Some((tile.index() * TILE_WIDTH + place) * leaves),
            problem,
        });
    }
}

/// Returns the right edge of these tiles, if it leads to the signed root.
fn edge(signed: &Checkpoint, mut read: impl FnMut(Tile) -> Option<Bytes>) -> Option<RightEdge> {
    let edge = RightEdge::load(signed.size, |tile| {
        read(tile).map(|bytes| bytes.to_vec()).ok_or("missing tile")
    });
    edge.ok().filter(|edge| edge.root() == signed.root)
}

fn joined(hashes: &[Hash]) -> Bytes {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

fn first_difference(one: &[u8], other: &[u8]) -> Option<u64> {
    let at = one.iter().zip(other).position(|(a, b)| a != b);
    at.map(|at| at as u64)
}

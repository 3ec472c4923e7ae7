//! Proofs of a log's own tree, from hash tiles that are verified: what a signer apart is shown, and clients of
//! RFC 6962.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lucarne_tlog::{
    Hash, Level, MakeProofError, RightEdge, Tile, consistency_proof, consistency_tiles,
    inclusion_proof, inclusion_tiles,
};

use crate::ReadError;
use crate::tree::NewTiles;
use crate::verified_tiles::VerifiedTiles;

/// The proof that the leaf at `index` is in the tree of `size` leaves, with which the one with this right
/// edge begins.
pub(crate) async fn inclusion(
    tiles: &VerifiedTiles,
    edge: &Arc<RightEdge>,
    index: u64,
    size: u64,
) -> Result<Vec<Hash>, ReadError> {
    let read = read(tiles, edge, inclusion_tiles(index, size)).await?;
    made(inclusion_proof(index, size, &mut from(&read)))
}

/// The proof that the tree of `size` leaves, with which the one with this right edge begins, begins with its
/// first `from_size`.
pub(crate) async fn consistency(
    tiles: &VerifiedTiles,
    edge: &Arc<RightEdge>,
    from_size: u64,
    size: u64,
) -> Result<Vec<Hash>, ReadError> {
    let read = read(tiles, edge, consistency_tiles(from_size, size)).await?;
    made(consistency_proof(from_size, size, &mut from(&read)))
}

/// The proof that a round grows from the tree of `from_size` leaves before it. All hashes of it are
/// among the new tiles and the right edge.
pub(crate) fn of_round(
    new: &NewTiles,
    edge: &RightEdge,
    from_size: u64,
) -> Result<Vec<Hash>, ReadError> {
    let written: HashMap<Tile, &Bytes> = new.hashes.iter().map(|(tile, it)| (*tile, it)).collect();
    let mut reader = |tile: Tile| match (written.get(&tile), tile.level()) {
        (Some(bytes), _) => Ok(bytes.to_vec()),
        (None, Level::Hashes(level)) => {
            Ok(edge.partial(level).iter().flat_map(|hash| hash.0).collect())
        }
        (None, Level::Data) => Err("no hash tile"),
    };
    made(consistency_proof(from_size, edge.size(), &mut reader))
}

async fn read(
    tiles: &VerifiedTiles,
    edge: &Arc<RightEdge>,
    wanted: Vec<Tile>,
) -> Result<HashMap<Tile, Bytes>, ReadError> {
    let mut read = HashMap::with_capacity(wanted.len());
    for tile in wanted {
        read.insert(tile, tiles.hashes(edge, tile).await?);
    }
    Ok(read)
}

fn from(read: &HashMap<Tile, Bytes>) -> impl FnMut(Tile) -> Result<Vec<u8>, &'static str> {
    |tile| {
        read.get(&tile)
            .map(|bytes| bytes.to_vec())
            .ok_or("was not read")
    }
}

fn made<E: std::fmt::Display>(
    proof: Result<Vec<Hash>, MakeProofError<E>>,
) -> Result<Vec<Hash>, ReadError> {
    proof.map_err(|error| ReadError::Storage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use lucarne_tlog::{leaf_hash, verify_consistency};

    use super::*;
    use crate::tree::Tree;

    #[test]
    fn a_round_proves_that_it_grows() {
        let mut tree = Tree::empty();
        let mut next = 0u64;
        for count in [1, 1, 5, 250, 256, 1, 700, 3, 65_000, 600] {
            let (size, root) = (tree.size(), tree.root);
            let leaves: Vec<Hash> = (next..next + count)
                .map(|index| leaf_hash(&index.to_be_bytes()))
                .collect();
            next += count;
            let new = NewTiles {
                hashes: tree.append_leaves(&leaves),
                data: Vec::new(),
            };
            let proof = of_round(&new, &tree.edge, size).unwrap();
            verify_consistency(size, &root, tree.size(), &tree.root, &proof).unwrap();
        }
    }
}

//! Proofs of the log's own tree, from verified hash tiles, for a separate signer process and for
//! clients of RFC 6962.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lucarne_tlog::{
    Hash, Level, MakeProofError, RightEdge, Subtree, Tile, consistency_proof, inclusion_proof,
    inclusion_tiles, subtree_consistency_proof, subtree_consistency_tiles,
};

use crate::data::tree::NewTiles;
use crate::error::{ReadError, ReadFailure};
use crate::read::verified_tiles::VerifiedTiles;

/// Returns the inclusion proof of the leaf at `index` in the tree of the first `size` leaves.
/// `edge` is the right edge of the current tree, which has at least `size` leaves.
pub(crate) async fn inclusion(
    tiles: &VerifiedTiles,
    edge: &Arc<RightEdge>,
    index: u64,
    size: u64,
) -> Result<Vec<Hash>, ReadError> {
    let read = read(tiles, edge, inclusion_tiles(index, size)).await?;
    made(inclusion_proof(index, size, &mut from(&read)))
}

/// Returns the consistency proof between the trees of the first `from_size` and the first `size`
/// leaves. `edge` is the right edge of the current tree, which has at least `size` leaves.
pub(crate) async fn consistency(
    tiles: &VerifiedTiles,
    edge: &Arc<RightEdge>,
    from_size: u64,
    size: u64,
) -> Result<Vec<Hash>, ReadError> {
    of_subtree(tiles, edge, Subtree::first(from_size), size).await
}

/// Returns the proof that the tree of the first `size` leaves contains a subtree. `edge` is the
/// right edge of the current tree, which has at least `size` leaves.
pub(crate) async fn of_subtree(
    tiles: &VerifiedTiles,
    edge: &Arc<RightEdge>,
    subtree: Subtree,
    size: u64,
) -> Result<Vec<Hash>, ReadError> {
    let read = read(tiles, edge, subtree_consistency_tiles(subtree, size)).await?;
    made(subtree_consistency_proof(subtree, size, &mut from(&read)))
}

/// Returns the consistency proof between the tree of `from_size` leaves before a round and the
/// tree after it. The new tiles and the right edge contain all of its hashes.
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

fn made(proof: Result<Vec<Hash>, MakeProofError<&'static str>>) -> Result<Vec<Hash>, ReadError> {
    Ok(proof.map_err(|error| ReadFailure::Proof(Arc::new(error)))?)
}

#[cfg(test)]
mod tests {
    use lucarne_tlog::{leaf_hash, verify_consistency};

    use super::*;
    use crate::data::tree::Tree;

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

//! Uploads of the entries of a log to one mirror (C2SP tlog-mirror, main of 2026-07-22).
//!
//! A mirror first gets the checkpoint, then the entries that it lacks, in requests of a bounded
//! size. The first request after a start or a failure has no entries: the response names the next
//! entry.

use std::io::{self, Write};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use lucarne_ct::TileEntries;
use lucarne_tlog::upload::{MirrorInfo, package_leaves};
use lucarne_tlog::{Level, Subtree, TILE_WIDTH, Tile};
use tokio::time::timeout;

use super::request::{Failure, Proposal, Requests};
use crate::config::witnesses::Endpoint;
use crate::data::cosignatures::Cosignature;
use crate::data::tree::Tree;
use crate::error::ReadError;
use crate::read::proofs;

/// Time limit for one response: a mirror syncs the entries before it responds.
const SILENT: Duration = Duration::from_secs(60);
/// Maximum number of packages in a request, as the specification recommends.
const MAX_PACKAGES: usize = 32;
/// A request of this size in bytes gets no further package.
const ENOUGH: usize = 4 << 20;
/// Maximum number of responses to the uploads of one checkpoint that do not advance the mirror.
const MAX_STANDSTILLS: u32 = 4;

impl Requests {
    /// Uploads the checkpoint and all entries that the mirror lacks, and returns its cosignatures.
    /// The entries of a failed upload stay in the mirror.
    pub(super) async fn mirrored(
        &mut self,
        proposal: &Proposal,
    ) -> Result<Vec<Cosignature>, Failure> {
        let added = timeout(SILENT, self.add_checkpoint(proposal)).await;
        added.unwrap_or(Err(Failure::Late(SILENT)))?;
        let uploaded = self.upload(proposal).await;
        if uploaded.is_err() {
            self.next = None;
        }
        uploaded
    }

    async fn upload(&mut self, proposal: &Proposal) -> Result<Vec<Cosignature>, Failure> {
        let (tree, size) = (&*proposal.tree, proposal.tree.size());
        let (mut end, mut ticket, mut standstills) = (size, Vec::new(), 0);
        loop {
            let start = self.next.map_or(end, |next| next.min(end));
            let body = self.body(tree, start..end, &ticket).await?;
            let posted = timeout(SILENT, self.post(Endpoint::AddEntries, body)).await;
            let next = match posted.unwrap_or(Err(Failure::Late(SILENT)))? {
                (200, lines) if end == size => {
                    self.note_stored(size);
                    return self.verified(proposal, &lines);
                }
                // The response cosigns an earlier checkpoint.
                (200, _) => std::mem::replace(&mut end, size),
                (202 | 409, info) => {
                    let info = MirrorInfo::parse(&info).ok_or(Failure::State)?;
                    if info.size > size {
                        return Err(Failure::Ahead(info.size));
                    }
                    (end, ticket) = (info.size, info.ticket);
                    info.next
                }
                (status, _) => return Err(Failure::Refused(status)),
            };
            // A mirror advances by whole packages.
            let advances = package_leaves(start, end).is_some_and(|first| next >= first.end);
            if !advances {
                standstills += 1;
                if standstills > MAX_STANDSTILLS {
                    return Err(Failure::Stuck(next));
                }
            }
            self.note_stored(next.min(size));
        }
    }

    /// Records the number of entries that the mirror has.
    fn note_stored(&mut self, entries: u64) {
        self.next = Some(entries);
        let (status, metrics) = (&self.log.status.witnesses, &self.log.metrics.witnesses);
        for at in self.witnesses.of_server(&self.server) {
            status.stored(at, entries, metrics);
        }
    }

    /// Returns the body of an upload with a part of the packages, in gzip.
    async fn body(&self, tree: &Tree, leaves: Range<u64>, ticket: &[u8]) -> Result<Bytes, Failure> {
        let mut body = Vec::new();
        push_prefixed(&mut body, self.log.config.origin.as_bytes()).ok_or(Failure::Conflict)?;
        body.extend_from_slice(&leaves.start.to_be_bytes());
        body.extend_from_slice(&leaves.end.to_be_bytes());
        push_prefixed(&mut body, ticket).ok_or(Failure::Oversized)?;
        let mut next = leaves.start;
        for _ in 0..MAX_PACKAGES {
            match package_leaves(next, leaves.end) {
                Some(package) if body.len() < ENOUGH => {
                    next = package.end;
                    self.add_package(tree, package, leaves.end, &mut body)
                        .await?;
                }
                _ => break,
            }
        }
        let packed = tokio::task::spawn_blocking(move || {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(&body)?;
            gzip.finish()
        });
        let packed = packed.await.map_err(io::Error::other).and_then(|it| it);
        Ok(packed.map_err(ReadError::coding)?.into())
    }

    /// Appends entries of one data tile, and the proof that they are in the tree of `size` entries.
    async fn add_package(
        &self,
        tree: &Tree,
        leaves: Range<u64>,
        size: u64,
        body: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let (tiles, index) = (self.log.reader.tiles(), leaves.start / TILE_WIDTH);
        let first = index * TILE_WIDTH;
        let entries = match Tile::widest(Level::Data, index, tree.size()) {
            Some(tile) if tile.is_full() => tiles.entries(&tree.edge, tile).await?,
            _ => tree.data.bytes.clone(),
        };
        let mut leaf = Vec::new();
        for entry in TileEntries::all(&entries, first) {
            let entry = entry.map_err(|error| ReadError::coding(io::Error::other(error)))?;
            if !leaves.contains(&entry.index) {
                continue;
            }
            leaf.clear();
            entry.leaf.merkle_tree_leaf(&mut leaf);
            push_prefixed(body, &leaf).ok_or(Failure::Entry(entry.index))?;
        }
        let subtree = Subtree::new(first, leaves.end).ok_or(Failure::Conflict)?;
        let proof = proofs::of_subtree(tiles, &tree.edge, subtree, size).await?;
        // The height of a tree is at most 63.
        body.push(proof.len() as u8);
        body.extend(proof.iter().flat_map(|hash| hash.0));
        Ok(())
    }
}

/// Appends bytes after their length, an integer of two bytes; returns `None` if they are too long.
fn push_prefixed(body: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    let length = u16::try_from(bytes.len()).ok()?;
    body.extend_from_slice(&length.to_be_bytes());
    body.extend_from_slice(bytes);
    Some(())
}

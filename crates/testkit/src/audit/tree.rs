use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::Read,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use flate2::read::GzDecoder;
use lucarne_ct::{Fingerprint, Identity, TileEntries, TileLeafRef};
use lucarne_tlog::{Frontier, Hash, Level, TILE_WIDTH, Tile, tile_root};

use super::{Promise, Seen, fingerprints};
use crate::{Client, is_silence};

/// A pass over a log of a given size.
pub(super) struct Walk<'a> {
    client: &'a Client,
    size: u64,
    leaf_hashes: Vec<Hash>,
    /// The index and timestamp of each submission.
    places: HashMap<Identity, (u64, u64)>,
    fingerprints: BTreeSet<Fingerprint>,
    /// Whether a request had no response in time. No further requests are then sent.
    silent: AtomicBool,
    pub(super) issuers: usize,
    pub(super) findings: Vec<String>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(client: &'a Client, size: u64) -> Self {
        Self {
            client,
            size,
            leaf_hashes: Vec::new(),
            places: HashMap::new(),
            fingerprints: BTreeSet::new(),
            silent: AtomicBool::new(false),
            issuers: 0,
            findings: Vec::new(),
        }
    }

    fn found(&mut self, finding: impl Into<String>) {
        self.findings.push(finding.into());
    }

    async fn fetch(&self, path: &str) -> Result<Bytes> {
        ensure!(
            !self.silent.load(Relaxed),
            "{path}: the log does not respond"
        );
        let response = self.client.get(path).await;
        let silent = response.as_ref().is_err_and(is_silence);
        self.silent.store(silent, Relaxed);
        response?.ok().with_context(|| path.to_owned())
    }

    /// Reads every data tile. Checks the indexes, the root and timestamp of every checkpoint, and
    /// that no submission is repeated.
    pub(super) async fn entries(
        &mut self,
        promises: &HashMap<Identity, Promise>,
        checkpoints: &[Seen],
    ) {
        let mut by_size: BTreeMap<u64, Vec<&Seen>> = BTreeMap::new();
        for seen in checkpoints {
            by_size.entry(seen.checkpoint.size).or_default().push(seen);
        }
        let mut heads = Heads {
            frontier: Frontier::new(),
            newest: 0,
            by_size,
        };
        heads.check(&mut self.findings);
        for number in 0..self.size.div_ceil(TILE_WIDTH) {
            let Some(tile) = Tile::widest(Level::Data, number, self.size) else {
                return self.found(format!("no data tile {number} in a tree of {}", self.size));
            };
            let outcome = match self.fetch(&tile.path()).await.and_then(|body| plain(&body)) {
                Ok(bytes) => self.data_tile(&tile, &bytes, promises, &mut heads),
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                // Without these entries no later root can be computed.
                return self.found(format!("{}: {error:#}", tile.path()));
            }
        }
        for (size, _) in heads.by_size.range(self.size + 1..) {
            self.findings.push(format!(
                "a checkpoint of size {size} was served, but now the log has size {}",
                self.size
            ));
        }
    }

    fn data_tile(
        &mut self,
        tile: &Tile,
        bytes: &[u8],
        promises: &HashMap<Identity, Promise>,
        heads: &mut Heads<'_>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        let mut entries = TileEntries::first(bytes, tile.start_leaf(), tile.width().into());
        for (index, entry) in (tile.start_leaf()..).zip(entries.by_ref()) {
            let leaf = entry.with_context(|| format!("entry {index}"))?.leaf;
            if leaf.index != index {
                self.found(format!("entry {index} contains the index {}", leaf.index));
            }
            let identity = leaf.identity();
            if let Some((earlier, _)) = self.places.insert(identity, (index, leaf.timestamp)) {
                self.found(format!(
                    "entries {earlier} and {index} are the same submission"
                ));
            }
            self.chain_of(index, &leaf, promises.get(&identity));
            let hash = leaf.leaf_hash(&mut buffer);
            self.leaf_hashes.push(hash);
            heads.push(hash, leaf.timestamp, &mut self.findings);
        }
        let rest = entries.rest().len();
        ensure!(rest == 0, "{rest} bytes after the last entry");
        Ok(())
    }

    /// Checks the chain that is stored with an entry. The chain of a known submission must be one
    /// of the submitted chains, completed by its root.
    fn chain_of(&mut self, index: u64, leaf: &TileLeafRef<'_>, promise: Option<&Promise>) {
        let stored: Vec<Fingerprint> = leaf.fingerprints.collect();
        if let Some(promise) = promise {
            let same = |chain| fingerprints(chain).eq(stored.iter().copied());
            if !promise.chains.iter().any(same) {
                self.found(format!(
                    "entry {index} is stored with another chain than submitted"
                ));
            }
        }
        self.fingerprints.extend(stored);
    }

    /// Checks that every hash tile agrees with the data tiles.
    pub(super) async fn hash_tiles(&mut self) {
        let mut hashes = self.leaf_hashes.clone();
        for level in 0.. {
            let mut above = Vec::new();
            for (number, chunk) in (0..).zip(hashes.chunks(TILE_WIDTH as usize)) {
                let expected: Vec<u8> = chunk.iter().flat_map(|hash| hash.0).collect();
                let width = chunk.len() as u16;
                let Some(tile) = Tile::new(Level::Hashes(level), number, width) else {
                    return self.found(format!("tile {number} at level {level} cannot exist"));
                };
                match self.fetch(&tile.path()).await {
                    Err(error) => self.found(format!("{error:#}")),
                    Ok(body) if body != expected => {
                        self.found(format!(
                            "{} differs from the hashes of its data",
                            tile.path()
                        ));
                    }
                    Ok(_) => (),
                }
                above.extend(tile_root(&expected));
            }
            if above.is_empty() {
                return;
            }
            hashes = above;
        }
    }

    /// Checks that every referenced issuer is served and matches its fingerprint.
    pub(super) async fn issuers(&mut self, promises: &HashMap<Identity, Promise>) {
        let chains = promises.values().flat_map(|promise| &promise.chains);
        let known: HashMap<Fingerprint, &Bytes> = chains
            .flat_map(|chain| chain.iter())
            .map(|issuer| (issuer.fingerprint, &issuer.der))
            .collect();
        for fingerprint in std::mem::take(&mut self.fingerprints) {
            let path = format!("issuer/{fingerprint}");
            match self.fetch(&path).await {
                Err(error) => self.found(format!("{error:#}")),
                Ok(der) if Fingerprint::of(&der) != fingerprint => {
                    self.found(format!("{path} has another fingerprint"));
                }
                Ok(der)
                    if known
                        .get(&fingerprint)
                        .is_some_and(|submitted| **submitted != der) =>
                {
                    self.found(format!("{path} differs from the submitted certificate"));
                }
                Ok(_) => self.issuers += 1,
            }
        }
    }

    /// Checks the promise of an SCT: the submission is in the tree at its index with its timestamp.
    pub(super) fn kept(&mut self, identity: &Identity, promise: &Promise) {
        let promised = (promise.index, promise.timestamp);
        match self.places.get(identity) {
            Some(place) if *place == promised => (),
            Some(place) => self.findings.push(format!(
                "submission {identity} was promised as (index, time) {promised:?}, but is at \
                 {place:?}"
            )),
            None => self.findings.push(format!(
                "submission {identity} was promised as (index, time) {promised:?}, but is not in \
                 the log"
            )),
        }
    }
}

/// Computes the roots of all intermediate sizes, and compares them with the checkpoints.
struct Heads<'s> {
    frontier: Frontier,
    newest: u64,
    by_size: BTreeMap<u64, Vec<&'s Seen>>,
}

impl Heads<'_> {
    fn push(&mut self, leaf: Hash, timestamp: u64, findings: &mut Vec<String>) {
        self.frontier.push(leaf);
        self.newest = self.newest.max(timestamp);
        self.check(findings);
    }

    fn check(&self, findings: &mut Vec<String>) {
        let size = self.frontier.size();
        for seen in self.by_size.get(&size).into_iter().flatten() {
            if seen.checkpoint.root != self.frontier.root() {
                let root = &seen.checkpoint.root;
                findings.push(format!(
                    "the checkpoint of size {size} with root {root} does not belong to this tree"
                ));
            }
            if seen.timestamp < self.newest {
                findings.push(format!(
                    "the checkpoint of size {size} is older than its newest entry"
                ));
            }
        }
    }
}

/// Returns the bytes of a data tile, and decompresses gzip. A TileLeaf begins with a timestamp in
/// milliseconds, whose first two bytes are zero for thousands of years; gzip begins with other
/// bytes.
fn plain(body: &[u8]) -> Result<Vec<u8>> {
    if !body.starts_with(&[0x1f, 0x8b]) {
        return Ok(body.to_vec());
    }
    let mut bytes = Vec::with_capacity(body.len() * 3);
    GzDecoder::new(body)
        .read_to_end(&mut bytes)
        .context("decompressing the tile")?;
    Ok(bytes)
}

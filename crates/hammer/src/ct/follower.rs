//! Follows a log: from one verified tree to the next by its hash tiles, then
//! the promises, the entries and the issuers in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use lucarne_ct::Fingerprint;
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile, tile_root};
use parking_lot::Mutex;

use super::checks::{self, Finding, Verdicts};
use super::entries;
use super::fetch::{self, Fetch, Trouble};
use super::heads::Head;
use super::promises::{Promise, Promises};
use super::spine::{Row, Spine, read_row};

/// How many tiles of leaf hashes are kept: 8 kB each.
const RECENT: usize = 128;
/// How many tiles are asked for at a time.
const TOGETHER: usize = 16;
/// How many data tiles are checked between two looks at the checkpoint.
const AT_ONCE: u64 = 128;

/// See the module.
#[derive(Debug)]
pub struct Follower {
    spine: Arc<Spine>,
    /// The level 0 tiles of the last [`RECENT`] × 256 leaves, as wide as they were seen.
    recent: BTreeMap<u64, Row>,
    /// Hash tiles above level 0 that became full and are still to be compared
    /// with those that are served.
    above: VecDeque<(Tile, Hash)>,
    /// The first data tile that has not been checked.
    unread: u64,
    /// The size at the last look: data tiles up to it have been published for so long
    /// that answers to what is in them have come.
    ripe: u64,
    /// The timestamp of the checkpoint that the verified tree is of.
    timestamp: u64,
    /// Whether data tiles and issuers are checked at all.
    entries: bool,
    issuers: BTreeSet<Fingerprint>,
    unseen: VecDeque<Fingerprint>,
    rejected: Option<Head>,
    /// What was checked.
    pub seen: Seen,
}

/// Counts of what a follower has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The size at which it began.
    pub first: u64,
    /// Leaves appended since.
    pub leaves: u64,
    /// Data tiles.
    pub data_tiles: u64,
    /// Entries in them.
    pub entries: u64,
    /// Certificates at `issuer/`.
    pub issuers: u64,
}

impl Follower {
    /// Begins at `head`: its right edge, read from tiles, must have its root.
    /// With `entries`, data tiles and issuers are checked from there on.
    ///
    /// # Errors
    /// Tiles that cannot be had; `tile_consistent`.
    pub async fn start<F: Fetch>(
        spine: Arc<Spine>,
        fetch: &mut F,
        head: &Head,
        entries: bool,
    ) -> Result<Self, Trouble> {
        let edge = load_edge(fetch, head.size).await?;
        if edge.root() != head.root {
            let detail = format!(
                "the tiles of the tree of size {} do not lead to its root",
                head.size
            );
            return Err(Finding::new(checks::TILE_CONSISTENT, detail).into());
        }
        spine.advance(edge);
        Ok(Self {
            spine,
            recent: BTreeMap::new(),
            above: VecDeque::new(),
            unread: head.size / TILE_WIDTH,
            ripe: head.size,
            timestamp: head.timestamp,
            entries,
            issuers: BTreeSet::new(),
            unseen: VecDeque::new(),
            rejected: None,
            seen: Seen {
                first: head.size,
                ..Seen::default()
            },
        })
    }

    /// The size up to which the tree is verified.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.spine.edge().size()
    }

    /// Extends the verified tree to `head` by its tiles, and compares the roots
    /// of `between` (sizes on the way, smallest first) in passing.
    ///
    /// # Errors
    /// No answer. Everything else is a verdict: `checkpoint_consistent` if the
    /// log's own entries lead to another root, `tile_consistent` if only its
    /// hash tiles do.
    pub async fn grow<F: Fetch>(
        &mut self,
        fetch: &mut F,
        head: &Head,
        between: &[(u64, Hash)],
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        let edge = self.spine.edge();
        if head.size <= edge.size() || self.rejected == Some(*head) {
            return Ok(());
        }
        let leaves = match self.leaves(fetch, &edge, head.size, verdicts).await {
            Ok(leaves) => leaves,
            Err(Trouble::Found(finding)) => {
                verdicts.found(finding);
                return Ok(());
            }
            Err(unreachable) => return Err(unreachable),
        };
        verdicts.passed(checks::TILE_SERVED);
        match extend(&edge, &leaves, head, between) {
            Ok(grown) => {
                verdicts.passed(checks::TILE_CONSISTENT);
                verdicts.passed(checks::CHECKPOINT_CONSISTENT);
                self.accept(grown, &edge, &leaves, head);
            }
            Err(detail) => {
                let inquiry = self.inquire(fetch, &edge, head, between, &leaves, detail);
                self.judge(inquiry.await?, &edge, head, verdicts);
            }
        }
        Ok(())
    }

    /// The leaf hashes from the verified size to `size`, from tiles of level 0.
    async fn leaves<F: Fetch>(
        &self,
        fetch: &mut F,
        edge: &RightEdge,
        size: u64,
        verdicts: &dyn Verdicts,
    ) -> Result<Vec<Hash>, Trouble> {
        let tiles: Vec<Tile> = (edge.size() / TILE_WIDTH..size.div_ceil(TILE_WIDTH))
            .filter_map(|index| Tile::widest(Level::Hashes(0), index, size))
            .collect();
        let known = edge.partial(0);
        let mut leaves = Vec::with_capacity((size - edge.size()) as usize);
        for group in tiles.chunks(TOGETHER) {
            let paths: Vec<String> = group.iter().map(Tile::path).collect();
            for (tile, answer) in group.iter().zip(fetch.get_all(&paths).await) {
                let bytes = fetch::resolve(fetch, tile, Some(answer)).await?;
                let row = read_row(tile, &bytes)?;
                verdicts.passed(checks::TILE_WELLFORMED);
                if tile.start_leaf() >= edge.size() {
                    leaves.extend(row);
                    continue;
                }
                let (old, new) = row.split_at(known.len().min(row.len()));
                if old != known {
                    let detail = format!("{tile}: hashes that were published before have changed");
                    verdicts.found(Finding::new(checks::TILE_CONSISTENT, detail));
                }
                leaves.extend_from_slice(new);
            }
        }
        Ok(leaves)
    }

    /// The hash tiles do not lead to the root: do the entries?
    async fn inquire<F: Fetch>(
        &self,
        fetch: &mut F,
        edge: &RightEdge,
        head: &Head,
        between: &[(u64, Hash)],
        tiles_say: &[Hash],
        detail: String,
    ) -> Result<Inquiry, Trouble> {
        let leaves = match entry_leaves(fetch, edge.size(), head.size).await {
            Ok(leaves) => leaves,
            Err(Trouble::Found(_)) => return Ok(Inquiry::Inconsistent(detail)),
            Err(unreachable) => return Err(unreachable),
        };
        Ok(match extend(edge, &leaves, head, between) {
            Ok(grown) => {
                let at = leaves.iter().zip(tiles_say).position(|(a, b)| a != b);
                let index = edge.size() + at.unwrap_or(0) as u64;
                let detail =
                    format!("the hash tile's leaf {index} is not the one in the signed tree");
                Inquiry::WrongTile(grown, leaves, detail)
            }
            Err(_) => Inquiry::Inconsistent(detail),
        })
    }

    fn judge(&mut self, inquiry: Inquiry, edge: &RightEdge, head: &Head, verdicts: &dyn Verdicts) {
        match inquiry {
            Inquiry::WrongTile(grown, leaves, detail) => {
                verdicts.found(Finding::new(checks::TILE_CONSISTENT, detail));
                verdicts.passed(checks::CHECKPOINT_CONSISTENT);
                self.accept(grown, edge, &leaves, head);
            }
            Inquiry::Inconsistent(detail) => {
                self.rejected = Some(*head);
                verdicts.found(Finding::new(checks::CHECKPOINT_CONSISTENT, detail));
            }
        }
    }

    fn accept(&mut self, grown: Grown, old: &RightEdge, leaves: &[Hash], head: &Head) {
        self.timestamp = head.timestamp;
        let mut first = old.size();
        let mut rest = leaves;
        while !rest.is_empty() {
            let index = first / TILE_WIDTH;
            let room = (TILE_WIDTH - first % TILE_WIDTH) as usize;
            let (new, after) = rest.split_at(room.min(rest.len()));
            let mut row = match first % TILE_WIDTH {
                0 => Vec::with_capacity(new.len()),
                _ => old.partial(0).to_vec(),
            };
            row.extend_from_slice(new);
            self.recent.insert(index, row.into());
            (first, rest) = (first + new.len() as u64, after);
        }
        while self.recent.len() > RECENT {
            self.recent.pop_first();
        }
        self.above.extend(grown.above);
        self.seen.leaves += leaves.len() as u64;
        self.spine.advance(grown.edge);
    }

    /// Forgets that a head was rejected, so that it is tried again.
    pub fn reconsider(&mut self) {
        self.rejected = None;
    }

    /// The tree's leaf hashes under the data tile at `index`.
    async fn row<F: Fetch>(&self, fetch: &mut F, index: u64) -> Result<Row, Trouble> {
        match self.recent.get(&index) {
            Some(row) => Ok(Arc::clone(row)),
            None => self.spine.row(fetch, 0, index).await,
        }
    }

    /// Looks up the promises that the verified tree covers. One that is not kept at its
    /// index and whose entry is not near it either may still come: what is said of it
    /// must not depend on how quickly the log is followed, and is said when it is due at
    /// `now`.
    ///
    /// # Errors
    /// No answer: what was not looked up stays promised.
    pub async fn settle<F: Fetch>(
        &mut self,
        fetch: &mut F,
        promises: &Mutex<Promises>,
        now: Instant,
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        let mut covered: VecDeque<Promise> = promises.lock().covered(self.size()).into();
        while let Some(promise) = covered.front().cloned() {
            match self.look_up(fetch, &promise).await {
                Ok(Fate::Kept) => {
                    self.kept(&promise, verdicts);
                    promises.lock().settled(&promise, true);
                }
                Ok(Fate::Elsewhere(finding)) => {
                    verdicts.found(finding);
                    in_time(&promise, verdicts);
                    promises.lock().settled(&promise, false);
                }
                Ok(Fate::Nowhere) => promises.lock().set_aside(promise),
                Err(Trouble::Found(finding)) => {
                    verdicts.found(finding);
                    in_time(&promise, verdicts);
                    promises.lock().settled(&promise, false);
                }
                Err(unreachable) => {
                    promises.lock().put_back(covered);
                    return Err(unreachable);
                }
            }
            covered.pop_front();
        }
        self.settle_aside(fetch, promises, now, verdicts).await
    }

    /// The last word on promises that are not kept at their index, and are due.
    async fn settle_aside<F: Fetch>(
        &mut self,
        fetch: &mut F,
        promises: &Mutex<Promises>,
        now: Instant,
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        let mut aside: VecDeque<Promise> = promises.lock().take_aside(now).into();
        while let Some(promise) = aside.front().cloned() {
            let (index, size) = (promise.index, self.size());
            match self.search(fetch, &promise).await {
                Ok(Some(finding)) | Err(Trouble::Found(finding)) => verdicts.found(finding),
                Ok(None) => {
                    let detail = format!(
                        "what was promised at index {index} is not there, nor near it (tree of {size})"
                    );
                    verdicts.found(Finding::new(checks::INCLUSION_ENTRY, detail));
                }
                Err(unreachable) => {
                    let mut promises = promises.lock();
                    aside.into_iter().for_each(|it| promises.set_aside(it));
                    return Err(unreachable);
                }
            }
            in_time(&promise, verdicts);
            promises.lock().settled(&promise, false);
            aside.pop_front();
        }
        Ok(())
    }

    /// A promise is kept: at its index, covered by a checkpoint that is not older.
    fn kept(&self, promise: &Promise, verdicts: &dyn Verdicts) {
        for name in [
            checks::INCLUSION_ENTRY,
            checks::INCLUSION_INDEX,
            checks::INCLUSION_TIMESTAMP,
        ] {
            verdicts.passed(name);
        }
        let what = || format!("entry {}", promise.index);
        self.not_older(promise.timestamp, what, verdicts);
        in_time(promise, verdicts);
    }

    /// Whether the verified tree's checkpoint is as new as what it covers.
    fn not_older(&self, timestamp: u64, what: impl Fn() -> String, verdicts: &dyn Verdicts) {
        let outcome = match timestamp <= self.timestamp {
            true => Ok(()),
            false => Err(format!(
                "the checkpoint of size {} is from {}, and covers {} from {timestamp}",
                self.size(),
                self.timestamp,
                what()
            )),
        };
        verdicts.check(checks::CHECKPOINT_TIMESTAMP, outcome);
    }

    async fn look_up<F: Fetch>(&self, fetch: &mut F, promise: &Promise) -> Result<Fate, Trouble> {
        let row = self.row(fetch, promise.index / TILE_WIDTH).await?;
        match row.get((promise.index % TILE_WIDTH) as usize) {
            Some(leaf) if *leaf == promise.leaf => Ok(Fate::Kept),
            _ => Ok(match self.search(fetch, promise).await? {
                Some(finding) => Fate::Elsewhere(finding),
                None => Fate::Nowhere,
            }),
        }
    }

    /// Where a promise that is not kept at its index has gone: the tiles around it are
    /// searched for the entry.
    async fn search<F: Fetch>(
        &self,
        fetch: &mut F,
        promise: &Promise,
    ) -> Result<Option<Finding>, Trouble> {
        let (index, size) = (promise.index, self.size());
        let middle = index / TILE_WIDTH;
        for number in [middle, middle.wrapping_sub(1), middle + 1] {
            let Some(tile) = Tile::widest(Level::Data, number, size) else {
                continue;
            };
            let bytes = match fetch::tile(fetch, &tile).await {
                Ok(bytes) => bytes,
                Err(Trouble::Found(_)) => continue,
                Err(unreachable) => return Err(unreachable),
            };
            let Some((place, timestamp)) = entries::find(promise, &tile, &bytes) else {
                continue;
            };
            return Ok(Some(if place != index {
                let detail = format!("promised at index {index}, it is at index {place}");
                Finding::new(checks::INCLUSION_INDEX, detail)
            } else {
                let detail = format!(
                    "entry {index} was promised with timestamp {}, it has {timestamp}",
                    promise.timestamp
                );
                Finding::new(checks::INCLUSION_TIMESTAMP, detail)
            }));
        }
        Ok(None)
    }

    /// Checks data tiles that became full, the hash tiles above them, and the
    /// issuers that they name; with `all`, the partial data tile at the end too. Entries
    /// that are among `promises` are compared with what was submitted, whole.
    ///
    /// # Errors
    /// No answer: what was not checked will be.
    pub async fn read_entries<F: Fetch>(
        &mut self,
        fetch: &mut F,
        promises: &Mutex<Promises>,
        all: bool,
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        if !self.entries {
            return Ok(());
        }
        let size = self.size();
        // Not so many at a time that looks at the checkpoint have to wait.
        let ripe = std::mem::replace(&mut self.ripe, size);
        let stop = match all {
            true => size / TILE_WIDTH,
            false => (ripe / TILE_WIDTH).min(self.unread + AT_ONCE),
        };
        while self.unread < stop {
            let end = (self.unread + TOGETHER as u64).min(stop);
            let tiles: Vec<u64> = (self.unread..end).collect();
            self.read_data(fetch, promises, &tiles, size, verdicts)
                .await?;
            self.unread = end;
        }
        let again = promises.lock().unread_tiles(self.unread);
        let again: Vec<u64> = again.into_iter().take(TOGETHER).collect();
        self.read_data(fetch, promises, &again, size, verdicts)
            .await?;
        if all && !size.is_multiple_of(TILE_WIDTH) {
            let last = size / TILE_WIDTH;
            self.read_data(fetch, promises, &[last], size, verdicts)
                .await?;
        }
        self.read_above(fetch, verdicts).await?;
        self.read_issuers(fetch, verdicts).await
    }

    async fn read_data<F: Fetch>(
        &mut self,
        fetch: &mut F,
        promises: &Mutex<Promises>,
        indexes: &[u64],
        size: u64,
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        let tiles: Vec<Tile> = indexes
            .iter()
            .filter_map(|index| Tile::widest(Level::Data, *index, size))
            .collect();
        let paths: Vec<String> = tiles.iter().map(Tile::path).collect();
        let answers = fetch.get_all(&paths).await;
        for (tile, answer) in tiles.iter().zip(answers) {
            let answer = fetch::resolve(fetch, tile, Some(answer)).await;
            let row = self.row(fetch, tile.index()).await;
            let (bytes, row) = match (answer, row) {
                (Ok(bytes), Ok(row)) => (bytes, row),
                (Err(Trouble::Found(finding)), _) | (_, Err(Trouble::Found(finding))) => {
                    verdicts.found(finding);
                    continue;
                }
                (Err(unreachable), _) | (_, Err(unreachable)) => return Err(unreachable),
            };
            verdicts.passed(checks::TILE_SERVED);
            let range = tile.start_leaf()..tile.end_leaf();
            let submitted = promises.lock().take_unread(range);
            let Some(entries) = entries::verify(tile, &bytes, &row, verdicts) else {
                continue;
            };
            entries::compare_submitted(tile, &bytes, &submitted, verdicts);
            self.not_older(entries.newest, || format!("an entry of {tile}"), verdicts);
            self.seen.data_tiles += 1;
            self.seen.entries += entries.leaves.len() as u64;
            for fingerprint in entries.fingerprints {
                if self.issuers.insert(fingerprint) {
                    self.unseen.push_back(fingerprint);
                }
            }
        }
        Ok(())
    }

    async fn read_above<F: Fetch>(
        &mut self,
        fetch: &mut F,
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        while let Some((tile, root)) = self.above.front().copied() {
            match fetch.get(&tile.path()).await {
                Ok(bytes) if tile_root(&bytes) == Some(root) => {
                    verdicts.passed(checks::TILE_CONSISTENT);
                }
                Ok(_) => {
                    let detail = format!("{tile}: its hashes are not those of the tree");
                    verdicts.found(Finding::new(checks::TILE_CONSISTENT, detail));
                }
                Err(Trouble::Found(finding)) => verdicts.found(finding),
                Err(unreachable) => return Err(unreachable),
            }
            self.above.pop_front();
        }
        Ok(())
    }

    async fn read_issuers<F: Fetch>(
        &mut self,
        fetch: &mut F,
        verdicts: &dyn Verdicts,
    ) -> Result<(), Trouble> {
        while let Some(fingerprint) = self.unseen.front().copied() {
            match issuer(fetch, fingerprint).await {
                Ok(()) => {
                    self.seen.issuers += 1;
                    verdicts.passed(checks::ISSUER_SERVED);
                    verdicts.passed(checks::ISSUER_HASH);
                }
                Err(Trouble::Found(finding)) => verdicts.found(finding),
                Err(unreachable) => return Err(unreachable),
            }
            self.unseen.pop_front();
        }
        Ok(())
    }
}

/// Fetches a certificate of a chain and compares it with its name.
pub(crate) async fn issuer<F: Fetch>(
    fetch: &mut F,
    fingerprint: Fingerprint,
) -> Result<(), Trouble> {
    let path = format!("issuer/{fingerprint}");
    let der = fetch.get(&path).await?;
    match Fingerprint::of(&der) == fingerprint {
        true => Ok(()),
        false => {
            let found = Fingerprint::of(&der);
            let detail = format!("{path}: what is served there hashes to {found}");
            Err(Finding::new(checks::ISSUER_HASH, detail).into())
        }
    }
}

/// What has become of a promise.
enum Fate {
    /// It is kept.
    Kept,
    /// Something near its index says what is wrong.
    Elsewhere(Finding),
    /// The entry is not there, or not yet.
    Nowhere,
}

/// A promise that was covered before it was late.
fn in_time(promise: &Promise, verdicts: &dyn Verdicts) {
    if !promise.late {
        verdicts.passed(checks::INCLUSION_IN_TIME);
    }
}

enum Inquiry {
    /// The entries lead to the root, the hash tiles do not.
    WrongTile(Grown, Vec<Hash>, String),
    /// Neither does.
    Inconsistent(String),
}

/// A tree that has been extended and has the signed roots.
struct Grown {
    edge: RightEdge,
    /// The full tiles above level 0 that came with it, and the roots over them.
    above: Vec<(Tile, Hash)>,
}

/// Appends `leaves`, comparing roots on the way.
fn extend(
    edge: &RightEdge,
    leaves: &[Hash],
    head: &Head,
    between: &[(u64, Hash)],
) -> Result<Grown, String> {
    let mut edge = edge.clone();
    let start = edge.size();
    let mut above = Vec::new();
    let on_the_way = between
        .iter()
        .filter(|(size, _)| (start + 1..head.size).contains(size));
    for (size, root) in on_the_way.copied().chain([(head.size, head.root)]) {
        let range = (edge.size() - start) as usize..(size - start) as usize;
        let new = leaves.get(range).unwrap_or_default();
        for (tile, bytes) in edge.append(new) {
            let level = tile.level();
            if tile.is_full() && level != Level::Hashes(0) {
                above.extend(tile_root(&bytes).map(|root| (tile, root)));
            }
        }
        let computed = edge.root();
        if computed != root {
            return Err(format!(
                "the checkpoint of size {size} has the root {root}, its tiles lead from the verified tree of size {start} to {computed}"
            ));
        }
    }
    Ok(Grown { edge, above })
}

/// The leaf hashes of a range of entries, from the data tiles.
async fn entry_leaves<F: Fetch>(fetch: &mut F, from: u64, size: u64) -> Result<Vec<Hash>, Trouble> {
    let mut leaves = Vec::new();
    for index in from / TILE_WIDTH..size.div_ceil(TILE_WIDTH) {
        let Some(tile) = Tile::widest(Level::Data, index, size) else {
            continue;
        };
        let bytes = fetch::tile(fetch, &tile).await?;
        let entries = entries::read(&tile, &bytes)?;
        let known = from.saturating_sub(tile.start_leaf()) as usize;
        leaves.extend_from_slice(entries.leaves.get(known..).unwrap_or_default());
    }
    Ok(leaves)
}

/// The right edge of a tree, from its tiles.
async fn load_edge<F: Fetch>(fetch: &mut F, size: u64) -> Result<RightEdge, Trouble> {
    let mut tiles = BTreeMap::new();
    for tile in RightEdge::tiles(size) {
        tiles.insert(tile, fetch::tile(fetch, &tile).await?);
    }
    let read = |tile: Tile| {
        tiles
            .get(&tile)
            .map(|bytes| bytes.to_vec())
            .ok_or("not read")
    };
    RightEdge::load(size, read)
        .map_err(|error| Finding::new(checks::TILE_WELLFORMED, error.to_string()).into())
}

/// The root of an earlier tree of `size` leaves, from the tiles of the verified
/// one: for a checkpoint that was seen late.
///
/// # Errors
/// Tiles that cannot be had, or do not lead to the verified root.
pub(crate) async fn root_at<F: Fetch>(
    spine: &Spine,
    fetch: &mut F,
    size: u64,
) -> Result<Hash, Trouble> {
    let mut tiles = BTreeMap::new();
    for tile in RightEdge::tiles(size) {
        let Level::Hashes(level) = tile.level() else {
            continue;
        };
        let row = spine.row(fetch, level, tile.index()).await?;
        let width = usize::from(tile.width()).min(row.len());
        let bytes: Vec<u8> = row[..width].iter().flat_map(|hash| hash.0).collect();
        tiles.insert(tile, bytes);
    }
    RightEdge::load(size, |tile| tiles.remove(&tile).ok_or("not read"))
        .map(|edge| edge.root())
        .map_err(|error| Finding::new(checks::TILE_WELLFORMED, error.to_string()).into())
}

//! Opening a log: what lock, journal and storage say together.
//!
//! The lock is the truth. The journal is rolled forward to it, a round staged on
//! it that it does not lead to never happened, and storage may be behind it but
//! never ahead. Any other combination means that something was rolled back,
//! copied or lost, and the log refuses to sign anything.

pub(crate) mod edge;
mod foreign;
mod never_published;
mod rollback;

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::{CheckpointError, Fingerprint, LogKey, verify_checkpoint};
use lucarne_storage::{Asset, AssetError, AssetKind, Assets, Lock, MemoryLock};
use lucarne_tlog::{Checkpoint, EMPTY_ROOT, Frontier, Hash, Level, SignedNote, TILE_WIDTH, Tile};

use crate::ahead::Newest as NewestSigned;
use crate::known::{History, KnownCheckpoint};
use crate::record::{Record, Step};
use crate::round::{issuer_asset, tile_assets};
use crate::sunlight::Bundle;
use crate::tree::{NewTiles, Tree};
use crate::verified_checkpoint::VerifiedCheckpoint;
use crate::{Fatal, KnownError, LogConfig, Published, Signer, ahead, catchup, stored, tree_head};

pub use self::never_published::NeverPublished;
pub(crate) use self::never_published::never_published;

/// Bytes in which a damaged checkpoint may differ from the one it was: a flipped bit
/// in a sector or in memory, or a few.
const MOST_FLIPPED: usize = 4;

/// A log ready to be sequenced.
pub(crate) struct Recovered {
    /// The tree that the lock's checkpoint signs.
    pub(crate) tree: Tree,
    /// That checkpoint, as it lies in the lock.
    pub(crate) committed: Bytes,
    /// Size of the tree before the first round of the journal.
    pub(crate) base: u64,
    /// Damaged files that were restored.
    pub(crate) restored: u64,
}

/// The checkpoint that storage publishes, if any.
///
/// A power cut may leave the newest one empty, cut or zeroed, for it is not
/// synced: what is no signed note at all counts as absent, and the lock's is
/// published in its place.
///
/// # Errors
/// If it is a note, but not of this log.
pub(crate) async fn published(
    config: &LogConfig,
    assets: &dyn Assets,
) -> Result<Option<VerifiedCheckpoint>, Fatal> {
    let Some(note) = assets.get("checkpoint").await? else {
        return Ok(None);
    };
    let location = assets.location();
    if let Err(error) = SignedNote::parse(&note) {
        tracing::warn!(log = config.shortname, %error, "{location}/checkpoint is no signed note");
        return Ok(None);
    }
    VerifiedCheckpoint::verify(note, config).map(Some).map_err(|problem| {
        Fatal::Inconsistent(format!(
            "{location}/checkpoint is not one of {}: {problem}. Either the directory or the key \
             is another log's",
            config.origin
        ))
    })
}

/// The published tree, checked against its root, without a lock: beside whoever
/// goes on with the log.
///
/// # Errors
/// If the tiles do not lead there.
pub(crate) async fn published_tree(
    published: &VerifiedCheckpoint,
    assets: &dyn Assets,
) -> Result<Tree, Fatal> {
    let Checkpoint { size, root, .. } = &published.checkpoint;
    let problem = match edge::tree(assets, (*size, *root)).await {
        Ok(found) => return Ok(found.tree),
        Err(edge::Problem::Away(problem)) => return Err(Fatal::Away(problem)),
        Err(edge::Problem::Tiles { problem, .. }) => problem,
    };
    Err(Fatal::Inconsistent(format!(
        "the tiles in {} do not lead to the {size} entries of the published checkpoint: {problem}",
        assets.location()
    )))
}

/// The state of lock, journal and storage together, before anything is written.
pub(crate) struct Judged {
    /// Holds what the lock has signed, or a signer apart after that.
    pub(crate) head: VerifiedCheckpoint,
    /// The checkpoint that is in the lock instead of that.
    replaces: Option<Bytes>,
    pub(crate) published: Option<VerifiedCheckpoint>,
    /// The tree before the first round of `path`.
    tree: Tree,
    /// Its hash tiles that are damaged, as they must be.
    damaged: Vec<Asset>,
    /// The rounds from there to the signed head.
    pub(crate) path: Vec<Record>,
    /// The last of them, if Sunlight left it.
    bundle: Option<Bundle>,
}

/// Compares lock, journal and storage, and what a signer apart has `signed` last.
/// Writes nothing.
pub(crate) async fn judge(
    config: &LogConfig,
    assets: &dyn Assets,
    lock: &dyn Lock,
    signed: Option<VerifiedCheckpoint>,
) -> Result<Judged, Fatal> {
    let head = committed(config, lock).await?;
    let missing = |fatal| not_new(fatal, head.checkpoint.size, assets, lock);
    // Before the checkpoint is read, which it replaces later.
    let records = records(config, assets).await.map_err(missing)?;
    let published = match published(config, assets).await {
        Err(Fatal::Inconsistent(_)) if is_damaged(&head, config, assets).await? => None,
        published => published.map_err(missing)?,
    };
    if let Some(published) = &published {
        not_newer(published, &head, assets, lock)?;
    }
    no_tile_beyond(&head, assets, lock).await?;
    no_round_beyond(&head.checkpoint, &records, assets, lock)?;
    let NewestSigned { head, replaces } = ahead::newest(head, signed, &records, (assets, lock))?;
    let tip = never_published::tip(published.as_ref(), &records);
    let advise = |refusal| never_published::advise(refusal, &head, published.as_ref(), tip);
    let mut path = rounds_to(&head.checkpoint, records);
    let bundle = match &published {
        Some(published) if path.is_empty() && behind(published, &head) => {
            Bundle::find(assets, &published.checkpoint, &head.checkpoint).await?
        }
        _ => None,
    };
    path.extend(bundle.iter().map(|bundle| bundle.record.clone()));
    if let Some(published) = &published {
        if bundle.is_none() {
            foreign::refuse(published, &path, assets)?;
        }
        let same = same_history(published, &head, &path, assets, lock).await;
        same.map_err(advise)?;
    }
    let there = published_rounds(&path, published.as_ref(), assets);
    let mut tree = tree_at(base(&head, &path[there..]), &head, assets, lock).await;
    if there > 0 && matches!(tree, Err(Fatal::Inconsistent(_))) {
        // What is published is not whole, and the journal can mend it.
        tree = tree_at(base(&head, &path), &head, assets, lock).await;
    } else {
        path.drain(..there);
    }
    let edge::Found { tree, damaged } = tree.map_err(advise)?;
    Ok(Judged {
        head,
        replaces,
        published,
        tree,
        damaged,
        path,
        bundle,
    })
}

/// Examines lock, journal, storage and index as a start would. Writes nothing to
/// them, and makes no index.
///
/// # Errors
/// As [`recover`], and as the opening of the index.
pub(crate) async fn examine(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    lock: &dyn Lock,
) -> Result<(), Fatal> {
    let signed = tree_head::last_signed(config).await?;
    let judged = judge(config, &*assets, lock, signed).await?;
    rollback::check(
        judged.published.as_ref(),
        &judged.tree,
        &judged.path,
        &assets,
    )
    .await?;
    examine_judged(config, assets, lock, &judged).await
}

async fn examine_judged(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    lock: &dyn Lock,
    judged: &Judged,
) -> Result<(), Fatal> {
    let (mut grown, size) = (judged.tree.clone(), judged.head.checkpoint.size);
    for record in &judged.path {
        replay(&mut grown, record.clone(), size, &*assets)?;
    }
    catchup::examine(config, lock, assets, &judged.tree, grown.size()).await
}

impl Judged {
    /// The history that was judged.
    pub(crate) fn history(&self, assets: Arc<dyn Assets>) -> History<'_> {
        let steps = self.path.iter().map(|record| record.step);
        let rounds = steps.map(|step| (step.new_size, step.new_root)).collect();
        History::new(assets, &self.tree.edge, rounds)
    }
}

/// The newest tree that a log's own data are evidence for.
pub struct Newest {
    judged: Judged,
    assets: Arc<dyn Assets>,
}

impl Newest {
    /// Its checkpoint.
    pub fn published(&self) -> Published {
        self.judged.head.published()
    }

    /// Returns when the last round or checkpoint that storage has was signed, in Unix milliseconds.
    fn last_signed_ms(&self) -> u64 {
        let published = self.judged.published.iter();
        let published = published.map(|published| published.timestamp_ms);
        let rounds = self.judged.path.iter();
        let rounds = rounds.map(|round| round.step.timestamp_ms);
        published.chain(rounds).max().unwrap_or(0)
    }

    /// Compares it with what is known outside.
    ///
    /// # Errors
    /// See [`KnownError`].
    pub async fn hold_against(&self, known: &KnownCheckpoint) -> Result<(), KnownError> {
        let history = self.judged.history(self.assets.clone());
        history.hold_against(known).await
    }
}

/// The newest tree that there is evidence for, without a lock: the published
/// one, and what the journal leads to from there, or a `known` one that the tiles lead to. A round of the journal may
/// have been signed and published where a power cut has undone the publication,
/// so all of them are taken to have happened; those of them that never did only
/// add what was submitted.
///
/// # Errors
/// If nothing is published, or storage has more than that, or contradicts
/// itself.
pub(crate) async fn newest(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    known: &[KnownCheckpoint],
) -> Result<Newest, Fatal> {
    let location = assets.location();
    let published = published(config, &*assets).await?.ok_or_else(|| {
        Fatal::Inconsistent(format!(
            "{location} publishes no checkpoint of {}: there is nothing to make its lock from",
            config.origin
        ))
    })?;
    let head = match &config.key {
        Signer::Own(key) => signed_tip(config, key, published, &records(config, &*assets).await?)?,
        // It remembers what was signed: that need not be guessed.
        Signer::Apart(_) => match tree_head::last_signed(config).await? {
            Some(signed) if behind(&published, &signed) => signed,
            _ => published,
        },
    };
    let newer = known.iter().map(KnownCheckpoint::signed);
    let newer = newer.filter(|known| behind(&head, known));
    if let Some(newer) = newer.max_by_key(|known| known.checkpoint.size) {
        match newest_with(config, assets.clone(), newer).await {
            // The tiles do not lead there.
            Err(Fatal::Inconsistent(_)) => {}
            judged => return judged,
        }
    }
    newest_with(config, assets, &head).await
}

/// Compares all of the log with this head, as the start of the log will.
async fn newest_with(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    head: &VerifiedCheckpoint,
) -> Result<Newest, Fatal> {
    let lock = MemoryLock::new();
    lock.create(&config.key.log_id().0, &head.note).await?;
    let judged = judge(config, &*assets, &lock, None).await?;
    examine_judged(config, assets.clone(), &lock, &judged).await?;
    Ok(Newest { judged, assets })
}

/// The published checkpoint, or, if the journal leads on from it, one of where it leads to.
fn signed_tip(
    config: &LogConfig,
    key: &LogKey,
    published: VerifiedCheckpoint,
    records: &[Record],
) -> Result<VerifiedCheckpoint, Fatal> {
    let Some(step) = rounds_from(&published.checkpoint, records) else {
        return Ok(published);
    };
    let now_ms = config.clock.now_ms();
    let signed_ms = published.timestamp_ms.max(step.timestamp_ms);
    if now_ms <= signed_ms {
        let behind_ms = signed_ms - now_ms;
        return Err(Fatal::Clock { behind_ms });
    }
    let note = key
        .sign_checkpoint(&config.origin, step.new_size, &step.new_root, now_ms)
        .map_err(|error| Fatal::Sign(error.to_string()))?;
    VerifiedCheckpoint::verify(note.into(), config).map_err(|error| Fatal::Sign(error.to_string()))
}

/// Returns the step to which the journal leads from `published`, if to any. Of
/// several rounds that begin at one tree, only the last can have happened: it was
/// staged by who had read in the lock that the others had not.
fn rounds_from(published: &Checkpoint, records: &[Record]) -> Option<Step> {
    let mut tip = None;
    let (mut size, mut root) = (published.size, published.root);
    while let Some(record) = records.iter().rev().find(|record| {
        (record.step.old_size, record.step.old_root) == (size, root) && record.step.new_size > size
    }) {
        (size, root) = (record.step.new_size, record.step.new_root);
        tip = Some(record.step);
    }
    tip
}

/// Reads lock, journal and storage, and rolls storage forward to the lock; and the lock
/// first to what a signer apart has `signed` last.
///
/// # Errors
/// If they contradict each other, or one of them fails.
pub(crate) async fn recover(
    config: &LogConfig,
    assets: &Arc<dyn Assets>,
    lock: &dyn Lock,
    signed: Option<VerifiedCheckpoint>,
) -> Result<Recovered, Fatal> {
    let Judged {
        head,
        replaces,
        published,
        mut tree,
        damaged,
        path,
        bundle,
    } = judge(config, &**assets, lock, signed).await?;
    rollback::check(published.as_ref(), &tree, &path, assets).await?;
    let restored = damaged.len() as u64;
    for tile in damaged {
        restore(config, &**assets, tile).await?;
    }
    if let Some(replaces) = replaces {
        NewestSigned::commit(&replaces, &head, config, lock).await?;
    }
    let base = tree.size();
    if !path.is_empty() {
        tracing::info!(
            log = config.shortname,
            rounds = path.len(),
            from = base,
            to = head.checkpoint.size,
            sunlight = bundle.is_some(),
            "rolling forward from the journal"
        );
    }
    for record in path {
        let mut batch = replay(&mut tree, record, head.checkpoint.size, &**assets)?;
        if let Some(bundle) = &bundle {
            batch = bundle.as_stored(batch)?;
        }
        assets.publish(batch).await?;
    }
    tree.frontier = Frontier::from_right_edge(&tree.edge);
    tree.timestamp_ms = head.timestamp_ms;
    if published.is_none_or(|published| published.note != head.note) {
        let checkpoint = Asset::new("checkpoint", head.note.clone(), AssetKind::Checkpoint);
        assets.publish(vec![checkpoint]).await?;
    }
    Ok(Recovered {
        tree,
        committed: head.note,
        base,
        restored,
    })
}

/// Puts a right file in the place of a damaged one.
async fn restore(config: &LogConfig, assets: &dyn Assets, tile: Asset) -> Result<(), Fatal> {
    let path = tile.path.clone();
    let kept = assets.replace(tile).await?;
    tracing::error!(
        log = config.shortname,
        location = assets.location(),
        path,
        kept,
        "restored a damaged file from what lies beneath it: check disk and memory, and run lucarne fsck"
    );
    Ok(())
}

/// Returns whether the published checkpoint, which is not one of this log, was one before
/// some of its bits flipped: it is the lock's but for a few bytes, or it says that
/// this log's key signed no more than the lock knows. It proves nothing then, and
/// the lock's is published in its place, if the tiles lead to that one.
async fn is_damaged(
    head: &VerifiedCheckpoint,
    config: &LogConfig,
    assets: &dyn Assets,
) -> Result<bool, Fatal> {
    let Some(note) = assets.get("checkpoint").await? else {
        return Ok(false);
    };
    let differing = std::iter::zip(&note, &head.note).filter(|(a, b)| a != b);
    let nearly = note.len() == head.note.len() && differing.count() <= MOST_FLIPPED;
    let verified = verify_checkpoint(&note, &config.origin, config.key.public_key_spki());
    let ours = matches!(verified, Err(CheckpointError::Signature));
    let size = SignedNote::parse(&note).ok();
    let size = size.and_then(|note| Some(Checkpoint::parse(&note.text).ok()?.size));
    if nearly || ours && size.is_some_and(|size| size <= head.checkpoint.size) {
        tracing::warn!(
            log = config.shortname,
            checkpoint = %String::from_utf8_lossy(&note),
            "{}/checkpoint is damaged: the lock's is published again",
            assets.location()
        );
        return Ok(true);
    }
    Ok(false)
}

/// Of storage that is not there, what it says is meant for a log that may be
/// new. This one is not, for the lock has it.
pub(crate) fn not_new(fatal: Fatal, size: u64, assets: &dyn Assets, lock: &dyn Lock) -> Fatal {
    match fatal {
        Fatal::Storage(error) if error.is_absence() => Fatal::Inconsistent(format!(
            "there is no such {} as that of {}, and the lock {} has signed {size} entries for it: it \
             was moved away, is not mounted, or was deleted. Put the newest one back; nothing is \
             signed until then",
            match error {
                AssetError::NoBucket { .. } => "bucket",
                _ => "directory",
            },
            assets.location(),
            lock.location(),
        )),
        fatal => fatal,
    }
}

async fn committed(config: &LogConfig, lock: &dyn Lock) -> Result<VerifiedCheckpoint, Fatal> {
    let found = lock.load(&config.key.log_id().0).await?;
    verified(config, lock, found)
}

/// Verifies what was `found` in the lock.
pub(crate) fn verified(
    config: &LogConfig,
    lock: &dyn Lock,
    found: Option<Vec<u8>>,
) -> Result<VerifiedCheckpoint, Fatal> {
    let Some(note) = found else {
        return Err(Fatal::NotCreated {
            lock: lock.location(),
            log_id: config.key.log_id().to_string(),
            name: config.shortname.clone(),
        });
    };
    VerifiedCheckpoint::verify(note.into(), config).map_err(|problem| {
        Fatal::Inconsistent(format!(
            "{} holds, for this key, something that is no checkpoint of {}: {problem}. Has the \
             submission prefix changed? A log's origin never does",
            lock.location(),
            config.origin
        ))
    })
}

/// Storage may be behind the lock, by a crash between commit and publication,
/// but it is never ahead of it.
pub(crate) fn not_newer(
    published: &VerifiedCheckpoint,
    committed: &VerifiedCheckpoint,
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<(), Fatal> {
    let (p, c) = (&published.checkpoint, &committed.checkpoint);
    let forked = p.size == c.size && p.root != c.root;
    if p.size <= c.size && published.timestamp_ms <= committed.timestamp_ms && !forked {
        return Ok(());
    }
    Err(Fatal::Inconsistent(format!(
        "{} publishes a checkpoint of {} entries signed at {}, the lock {} only knows {} entries \
         signed at {}{}. The lock was rolled back, it belongs to a copy of this log, or another process \
         signs with this log's key{}: then stop that one for good. Put the newest lock database back; \
         never start the log with an older one: it would sign a fork",
        assets.location(),
        p.size,
        published.timestamp_ms,
        lock.location(),
        c.size,
        committed.timestamp_ms,
        if forked { ", with another root" } else { "" },
        foreign::perhaps(assets),
    )))
}

/// Nothing is published before its commit, so that no tile is wider than the
/// tree: this tells a lock that was rolled back even where the published
/// checkpoint, which would tell it too, was lost as well.
async fn no_tile_beyond(
    head: &VerifiedCheckpoint,
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<(), Fatal> {
    let size = head.checkpoint.size;
    let Some(next) = Tile::new(Level::Hashes(0), size / TILE_WIDTH, TILE_WIDTH as u16) else {
        return Ok(());
    };
    let path = next.path();
    let widest = assets.partials(&path).await?.last().copied();
    let beyond = match widest {
        Some(width) if u64::from(width) > size % TILE_WIDTH => Some(format!("{path}.p/{width}")),
        _ => assets.get(&path).await?.map(|_| path),
    };
    match beyond {
        None => Ok(()),
        Some(tile) => Err(Fatal::Inconsistent(format!(
            "{} has {tile}, beyond the {size} entries that the lock {} knows. The lock was rolled \
             back, or it belongs to a copy of this log. Put the newest lock database back; never \
             start the log with an older one: it would sign a fork",
            assets.location(),
            lock.location(),
        ))),
    }
}

async fn records(config: &LogConfig, assets: &dyn Assets) -> Result<Vec<Record>, Fatal> {
    let staged = match assets.staged().await {
        Err(AssetError::Damaged { .. }) if assets.publishes_durably() => {
            let published = published(config, assets).await?;
            let covered = published.map_or(0, |published| published.checkpoint.size);
            assets.staged_beyond(covered).await?
        }
        staged => staged?,
    };
    let parse = |bytes| {
        Record::parse(bytes).map_err(|error| {
            Fatal::Inconsistent(format!(
                "the journal in {} is not readable by this version: {error}. Start the \
                 version that wrote it and stop it cleanly once: that empties the journal",
                assets.location()
            ))
        })
    };
    staged.into_iter().map(parse).collect()
}

/// A round is staged only upon a tree that the lock had then: the sequencer
/// goes on from a tree once its commit has returned, and begins with the one
/// that it recovered from the lock. So every record proves that its *old* size
/// and root were in the lock once, and as the lock only grows, that it is not
/// behind them. Its *new* ones prove nothing: between stage and commit a process
/// may die, and others may have staged other rounds upon the same tree.
///
/// A lock that is behind was rolled back: a backup was restored, or a replica
/// was promoted that had not received the last commits.
fn no_round_beyond(
    head: &Checkpoint,
    records: &[Record],
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<(), Fatal> {
    let mut steps = records.iter().map(|record| &record.step);
    let refuted = steps.find(|step| is_beyond(step, (head.size, head.root)));
    let Some(step) = refuted else {
        return Ok(());
    };
    let other = match step.old_size == head.size {
        true => " with another root",
        false => "",
    };
    Err(Fatal::Inconsistent(format!(
        "the journal in {} goes on from {} entries{other}, which had been signed by then, but the \
         lock {} only knows {}. The lock was rolled back (a backup was restored, or a replica \
         promoted that was behind), or it belongs to a copy of this log. Put the newest lock \
         database back; never start the log with an older one: it would sign a fork",
        assets.location(),
        step.old_size,
        lock.location(),
        head.size,
    )))
}

/// Returns whether the tree that the step begins at, which was signed by then, is
/// none that leads to this size and root.
pub(crate) fn is_beyond(step: &Step, (size, root): (u64, Hash)) -> bool {
    step.old_size > size || (step.old_size == size && step.old_root != root)
}

/// The rounds that lead to the signed head, oldest first. Walking back by size
/// and root leaves out every round that was staged and never committed.
fn rounds_to(head: &Checkpoint, records: Vec<Record>) -> Vec<Record> {
    let steps: Vec<Step> = records.iter().map(|record| record.step).collect();
    let on_path = steps_to((head.size, head.root), &steps);
    let records = records.into_iter().zip(on_path);
    records
        .filter_map(|(record, on_path)| on_path.then_some(record))
        .collect()
}

/// Returns of each step whether it is one of those that lead to this size and root.
pub(crate) fn steps_to((mut size, mut root): (u64, Hash), steps: &[Step]) -> Vec<bool> {
    let mut on_path = vec![false; steps.len()];
    for (on_path, step) in on_path.iter_mut().zip(steps).rev() {
        if step.new_size == size && step.new_root == root && step.old_size < size {
            (size, root) = (step.old_size, step.old_root);
            *on_path = true;
        }
    }
    on_path
}

/// Returns size and root of the tree that these rounds begin at.
fn base(head: &VerifiedCheckpoint, path: &[Record]) -> (u64, Hash) {
    let head = (head.checkpoint.size, head.checkpoint.root);
    let first = path.first();
    first.map_or(head, |record| (record.step.old_size, record.step.old_root))
}

/// The number of these rounds that need not be published again: those that the
/// published checkpoint covers, where all that is published is durable.
fn published_rounds(
    path: &[Record],
    published: Option<&VerifiedCheckpoint>,
    assets: &dyn Assets,
) -> usize {
    match published {
        Some(head) if assets.publishes_durably() => {
            path.partition_point(|record| record.step.new_size <= head.checkpoint.size)
        }
        _ => 0,
    }
}

/// Checks that what readers have seen is how the signed tree begins. It is not where
/// somebody published who has another lock.
async fn same_history(
    published: &VerifiedCheckpoint,
    head: &VerifiedCheckpoint,
    path: &[Record],
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<(), Fatal> {
    let size = published.checkpoint.size;
    let (first, root) = base(head, path);
    let rounds = path
        .iter()
        .map(|record| (record.step.new_size, record.step.new_root));
    let mut known = rounds.chain([(first, root), (0, EMPTY_ROOT)]);
    let problem = match known.find(|(known, _)| *known == size) {
        Some((_, root)) if root == published.checkpoint.root => return Ok(()),
        Some((_, root)) => format!("the first {size} of them have the root {root}"),
        None if size < first => match edge::tree(assets, (size, published.checkpoint.root)).await {
            Ok(_) => return Ok(()),
            Err(edge::Problem::Away(problem)) => return Err(Fatal::Away(problem)),
            // The tiles are whole, and of another tree.
            Err(edge::Problem::Tiles { problem, files }) if files.is_empty() => problem,
            Err(edge::Problem::Tiles { problem, .. }) => {
                return Err(Fatal::Inconsistent(format!(
                    "{} publishes a checkpoint of {size} entries, and whether they lead to the {} \
                     entries that the lock {} has signed cannot be verified: {problem}. Storage \
                     was rolled back, emptied or damaged, or another process published there: the \
                     log would sign a fork. Put the newest storage back; nothing is signed until \
                     then",
                    assets.location(),
                    head.checkpoint.size,
                    lock.location(),
                )));
            }
        },
        None => "no round ended there".into(),
    };
    Err(Fatal::Inconsistent(format!(
        "{} publishes a checkpoint of {size} entries with the root {}, which does not lead to the \
         {} entries that the lock {} has signed: {problem}. Somebody else published there with a \
         lock of their own, or storage belongs to a copy of this log. Find out which lock is the \
         right one; to go on with the other would sign a fork",
        assets.location(),
        published.checkpoint.root,
        head.checkpoint.size,
        lock.location(),
    )))
}

/// The tree before the first round of the journal, checked against its root.
async fn tree_at(
    (size, root): (u64, Hash),
    head: &VerifiedCheckpoint,
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<edge::Found, Fatal> {
    let (problem, files) = match edge::tree(assets, (size, root)).await {
        Ok(found) => return Ok(found),
        Err(edge::Problem::Away(problem)) => return Err(Fatal::Away(problem)),
        Err(edge::Problem::Tiles { problem, files }) => (problem, files),
    };
    let repair = match &files[..] {
        [] => String::new(),
        files => format!(
            "If only files are damaged, restore {} from a copy with `lucarne repair --from`. ",
            files.join(", ")
        ),
    };
    Err(Fatal::Inconsistent(format!(
        "the lock {} has signed {} entries, and neither journal nor storage in {} lead there: \
         {problem}. Storage was rolled back, emptied, damaged, or belongs to another log. {repair}Put \
         the newest storage back; nothing is signed until then",
        lock.location(),
        head.checkpoint.size,
        assets.location(),
    )))
}

/// The assets of one round again, exactly as they were; `tree` grows by it. Left out are the
/// partial tiles that are full once the tree has its `last` size: they would be removed again.
fn replay(
    tree: &mut Tree,
    record: Record,
    last: u64,
    assets: &dyn Assets,
) -> Result<Vec<Asset>, Fatal> {
    let size = record.step.new_size;
    let damaged = |problem: String| {
        Fatal::Inconsistent(format!(
            "the journal in {} does not lead to the {size} entries that were signed: {problem}",
            assets.location()
        ))
    };
    let (leaves, ends) =
        stored::leaves(&record.entries).map_err(|error| damaged(error.to_string()))?;
    let first = tree.size();
    let mut tiles = NewTiles {
        hashes: tree.append_leaves(&leaves),
        data: tree.append_data(first, &record.entries, &ends),
    };
    let stays = |(tile, _): &(Tile, Bytes)| {
        let partial = Tile::rightmost_partial(tile.level(), last);
        tile.is_full() || partial.is_some_and(|partial| partial.index() == tile.index())
    };
    tiles.hashes.retain(stays);
    tiles.data.retain(stays);
    if (tree.size(), tree.root) != (size, record.step.new_root) {
        return Err(damaged(format!(
            "its entries give {} entries and the root {}",
            tree.size(),
            tree.root
        )));
    }
    let mut batch = tile_assets(tiles, tree)?;
    for der in &record.issuers {
        batch.push(issuer_asset(&Fingerprint::of(der), der));
    }
    Ok(batch)
}

/// Returns whether storage lacks entries that were signed.
fn behind(published: &VerifiedCheckpoint, signed: &VerifiedCheckpoint) -> bool {
    published.checkpoint.size < signed.checkpoint.size
}

//! A user of `ct-read`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ctread::{Source, SourceError, TileContent, VerifiedTree, issuer};
use lucarne_load::http::{Client, Request, Response};
use lucarne_load::{Failure, Iteration, Recorder, Tags, VirtualUser};
use lucarne_mint::now_ms;
use lucarne_tlog::{Level, MAX_LEVEL, RightEdge, TILE_WIDTH, Tile, tile_root};
use tokio::sync::Mutex;

use super::options::ReadKind;
use super::shared_state::{Log, SharedState};
use crate::ct::backoff::Backoff;
use crate::ct::checks::{self, CheckSink, Finding, TaggedRecorder};
use crate::ct::fetch::{self, FetchError, Unreachable};
use crate::ct::outage::Outage;
use crate::ct::write::writer::THROTTLED;
use crate::ct::{headers, http_fetcher};
use crate::random::Random;

/// A user that reads logs.
pub(super) struct Reader {
    scenario: Arc<SharedState>,
    random: Random,
    /// Whether the user reads all entries in order, instead of random parts.
    full: bool,
    sessions: Vec<LogSession>,
}

/// Connection to one of the logs.
struct LogSession {
    client: Client,
    tags: [Tags; 4],
    throttled: Tags,
    /// Next data tile of a full reader.
    next: u64,
}

impl Reader {
    pub(super) fn new(scenario: Arc<SharedState>, number: u64, recorder: &Recorder) -> Self {
        let mut random = Random::new(scenario.seed, number);
        let sessions = scenario
            .logs
            .all()
            .iter()
            .map(|log| LogSession::new(log, recorder));
        // Spreads full readers evenly: with a share of one half, every second user reads all.
        let share = scenario.options.full_readers.0;
        let full = ((number + 1) as f64 * share).floor() > (number as f64 * share).floor();
        random.next();
        Self {
            random,
            full,
            sessions: sessions.collect(),
            scenario,
        }
    }

    fn kind(&mut self) -> ReadKind {
        if self.full {
            return ReadKind::Entries;
        }
        let reads = &self.scenario.options.reads;
        let sum = reads.iter().map(|read| u64::from(read.weight)).sum();
        let mut point = self.random.below(sum);
        for read in reads {
            match point.checked_sub(read.weight.into()) {
                Some(rest) => point = rest,
                None => return read.kind,
            }
        }
        ReadKind::Checkpoints
    }
}

#[async_trait]
impl VirtualUser for Reader {
    async fn iterate(&mut self, iteration: &mut Iteration) {
        let scenario = Arc::clone(&self.scenario);
        let kind = self.kind();
        let opened = scenario.logs.of_iteration(&mut self.sessions, iteration);
        let Some((log, session)) = opened else { return };
        let mut read = ReadIteration {
            log,
            accept: scenario.options.compression.accept(),
            protocol: session.client.protocol(),
            client: &mut session.client,
            tags: session.tags[kind as usize],
            throttled: session.throttled,
            iteration,
            counted: true,
            told: false,
            backoff: None,
        };
        let outcome = match kind {
            ReadKind::Checkpoints => read.checkpoint().await,
            ReadKind::Tiles => read.hash_tile(&mut self.random).await,
            ReadKind::Entries => {
                let next = self.full.then_some(&mut session.next);
                read.data_tile(&mut self.random, next).await
            }
            ReadKind::Issuers => read.issuer(&mut self.random).await,
        };
        let (backoff, told) = (read.backoff, read.told);
        if let Err(FetchError::Faulty(finding)) = outcome {
            let recorder = iteration.recorder();
            recorder.check(
                session.tags[kind as usize],
                finding.check,
                Err(finding.detail.clone()),
            );
            if !told {
                iteration.fail(finding.into());
            }
        }
        if let Some(backoff) = backoff {
            backoff.wait(iteration).await;
        }
    }
}

impl LogSession {
    fn new(log: &Log, recorder: &Recorder) -> Self {
        let target = &log.monitored.target;
        let tags = |op: &str| recorder.tags(&[("op", op), ("log", &target.origin)]);
        Self {
            client: Client::new(Arc::clone(&target.monitoring), Arc::clone(&target.client)),
            tags: ["checkpoint", "tile", "entries", "issuer"].map(tags),
            throttled: tags("throttled"),
            next: 0,
        }
    }
}

/// An iteration at one log.
struct ReadIteration<'a> {
    log: &'a Log,
    accept: &'static str,
    client: &'a mut Client,
    protocol: &'static str,
    tags: Tags,
    throttled: Tags,
    iteration: &'a mut Iteration,
    /// Whether the request counts as load; reads for verification only do not.
    counted: bool,
    /// Whether the iteration's failure has been recorded with a request.
    told: bool,
    /// Wait before the next iteration.
    backoff: Option<Backoff>,
}

impl<'a> ReadIteration<'a> {
    fn source(&mut self) -> IterationSource<'_, 'a> {
        IterationSource(Mutex::new(self))
    }

    fn sink(&self) -> TaggedRecorder {
        TaggedRecorder {
            recorder: self.iteration.recorder().clone(),
            tags: self.tags,
        }
    }

    fn outage(&self) -> &Outage {
        &self.log.monitored.outage
    }

    /// Returns whether the file is in the reader's cache.
    fn cached(&self, path: &str) -> bool {
        let known = self.log.cache.as_ref().is_some_and(|cache| cache.has(path));
        if known {
            self.iteration
                .recorder()
                .count(self.tags, "ct_cache_hits", 1);
        }
        known
    }

    fn keep(&self, path: &str) {
        if let Some(cache) = &self.log.cache {
            cache.keep(path);
        }
    }

    async fn checkpoint(&mut self) -> Result<(), FetchError> {
        let log = self.log;
        let tag = log.cache.as_ref().and_then(|cache| cache.checkpoint());
        let prior = log.monitored.tree_heads.lock().prior();
        let Some(note) = self.request("checkpoint", tag.as_deref()).await? else {
            return Ok(());
        };
        let sink = self.sink();
        sink.passed(checks::CHECKPOINT_SERVED);
        let seen = log
            .monitored
            .tree_heads
            .lock()
            .observe(&note, prior, now_ms(), &sink);
        if seen.is_none() {
            // The failed check has been recorded: the iteration only has to count as failed.
            self.iteration
                .fail(Failure::new("checkpoint", "the checkpoint failed a check"));
        }
        Ok(())
    }

    async fn hash_tile(&mut self, random: &mut Random) -> Result<(), FetchError> {
        let tree = Arc::clone(&self.log.monitored.tree);
        let edge = tree.edge();
        let Some(tile) = random_tile(&edge, random) else {
            return self.checkpoint().await;
        };
        if self.cached(&tile.path()) {
            return Ok(());
        }
        let bytes = fetch::tile(&self.source(), tile).await?;
        let sink = self.sink();
        sink.passed(checks::TILE_SERVED);
        sink.passed(checks::TILE_WELLFORMED);
        if self.hashes_agree(&tree, &edge, &tile, &bytes).await? {
            sink.passed(checks::TILE_CONSISTENT);
            if tile.is_full() {
                self.keep(&tile.path());
            }
            return Ok(());
        }
        let detail = format!("{tile}: the hashes differ from the verified tree");
        Err(Finding::new(checks::TILE_CONSISTENT, detail).into())
    }

    /// Returns whether the hashes of a tile belong to the verified tree. `bytes` are the bytes of a
    /// hash tile, or the leaf hashes of a data tile's entries at level 0.
    async fn hashes_agree(
        &mut self,
        tree: &VerifiedTree,
        edge: &RightEdge,
        tile: &Tile,
        bytes: &[u8],
    ) -> Result<bool, FetchError> {
        let Level::Hashes(level) = tile.level() else {
            return Ok(false);
        };
        if !tile.is_full() {
            let partial = edge.partial(level).iter().flat_map(|hash| hash.0);
            return Ok(partial.eq(bytes.iter().copied()));
        }
        if level == MAX_LEVEL {
            return Ok(true);
        }
        self.counted = false;
        let above = tree
            .hashes(&self.source(), level + 1, tile.index() / TILE_WIDTH)
            .await;
        self.counted = true;
        let expected = above?.get((tile.index() % TILE_WIDTH) as usize).copied();
        Ok(expected.is_some() && tile_root(bytes) == expected)
    }

    async fn data_tile(
        &mut self,
        random: &mut Random,
        next: Option<&mut u64>,
    ) -> Result<(), FetchError> {
        let tree = Arc::clone(&self.log.monitored.tree);
        let edge = tree.edge();
        let count = edge.size().div_ceil(TILE_WIDTH);
        let index = match &next {
            Some(next) => **next % count.max(1),
            None => random.below(count),
        };
        let Some(tile) = Tile::widest(Level::Data, index, edge.size()) else {
            return self.checkpoint().await;
        };
        if !self.cached(&tile.path()) {
            self.read_data(&tree, &edge, &tile).await?;
        }
        if let Some(next) = next {
            *next = index + 1;
            if *next >= count {
                *next = 0;
                self.iteration
                    .recorder()
                    .count(self.tags, "ct_full_reads", 1);
            }
        }
        Ok(())
    }

    async fn read_data(
        &mut self,
        tree: &VerifiedTree,
        edge: &RightEdge,
        tile: &Tile,
    ) -> Result<(), FetchError> {
        let bytes = fetch::tile(&self.source(), *tile).await?;
        let sink = self.sink();
        sink.passed(checks::TILE_SERVED);
        let entries = TileContent::parse(*tile, &bytes)?;
        sink.passed(checks::ENTRY_WELLFORMED);
        sink.passed(checks::ENTRY_INDEX);
        let hashes = Tile::new(Level::Hashes(0), tile.index(), tile.width());
        let leaves: Vec<u8> = entries.leaves.iter().flat_map(|leaf| leaf.0).collect();
        let agree = match hashes {
            Some(hashes) => self.hashes_agree(tree, edge, &hashes, &leaves).await?,
            None => false,
        };
        if !agree {
            let detail =
                format!("{tile}: the entries do not hash to the leaves of the verified tree");
            return Err(Finding::new(checks::ENTRY_HASH, detail).into());
        }
        sink.passed(checks::ENTRY_HASH);
        self.not_newer(tile, entries.newest)?;
        sink.passed(checks::CHECKPOINT_TIMESTAMP);
        let recorder = self.iteration.recorder();
        recorder.count(self.tags, "ct_entries_read", entries.leaves.len() as u64);
        if tile.is_full() {
            self.keep(&tile.path());
        }
        self.log.named(entries.fingerprints);
        Ok(())
    }

    /// Checks that the newest entry of `tile` is not newer than the newest checkpoint.
    fn not_newer(&self, tile: &Tile, newest: u64) -> Result<(), Finding> {
        let head = self.log.monitored.tree_heads.lock().newest();
        match head {
            Some(head) if newest > head.timestamp => {
                let detail = format!(
                    "the checkpoint of size {} is from {}, and covers an entry of {tile} from \
                     {newest}",
                    head.size, head.timestamp
                );
                Err(Finding::new(checks::CHECKPOINT_TIMESTAMP, detail))
            }
            _ => Ok(()),
        }
    }

    async fn issuer(&mut self, random: &mut Random) -> Result<(), FetchError> {
        let named = {
            let issuers = self.log.issuers.lock();
            let at = random.below(issuers.len() as u64) as usize;
            issuers.get(at).copied()
        };
        let Some(fingerprint) = named else {
            // No issuer is known before the first entries have been read.
            return self.data_tile(random, None).await;
        };
        let path = format!("issuer/{fingerprint}");
        if self.cached(&path) {
            return Ok(());
        }
        issuer(&self.source(), fingerprint).await?;
        self.sink().passed(checks::ISSUER_SERVED);
        self.sink().passed(checks::ISSUER_HASH);
        self.keep(&path);
        Ok(())
    }

    /// Reads a file. Returns `None` if its entity tag is still `known`.
    async fn request(
        &mut self,
        path: &str,
        known: Option<&str>,
    ) -> Result<Option<Bytes>, FetchError> {
        let mut response = self.send(path, known).await;
        if matches!(response.status, 429 | 503) && response.exchange.outcome.is_ok() {
            self.throttle(&response);
            return Err(Unreachable::of_status(path, &response).into());
        }
        let unchanged = response.status == 304 && known.is_some();
        self.record(path, &mut response, unchanged);
        if unchanged {
            return Ok(None);
        }
        if let (Some(cache), "checkpoint") = (&self.log.cache, path) {
            cache.checkpoint_is(response.headers.get("etag"));
        }
        let compressed = response.headers.get("content-encoding").is_some();
        let body = http_fetcher::judge(path, self.accept, self.outage(), response)?;
        if compressed {
            self.sink().passed(checks::ENCODING);
        }
        Ok(Some(body))
    }

    async fn send(&mut self, path: &str, known: Option<&str>) -> Response {
        let target = format!("{}/{path}", self.client.endpoint().prefix);
        let coding = ("accept-encoding", self.accept);
        let with_tag = [coding, ("if-none-match", known.unwrap_or_default())];
        let headers = &with_tag[..1 + usize::from(known.is_some())];
        let request = fetch::limited(Request::get(&target).headers(headers), path);
        let sent = self.client.send(&request);
        if self.counted {
            let pending = self.iteration.pending(self.tags, self.protocol);
            pending.until(sent).await
        } else {
            sent.await
        }
    }

    /// Records a request that the log did not throttle.
    fn record(&mut self, path: &str, response: &mut Response, unchanged: bool) {
        let lost = response.exchange.outcome.is_err();
        let recorder = self.iteration.recorder();
        if lost && self.outage().expected() {
            recorder.count(self.tags, "ct_outage_errors", 1);
            self.backoff = Some(Backoff::Outage);
            return;
        }
        if !self.counted {
            return recorder.count(self.tags, "ct_proof_requests", 1);
        }
        // A partial tile may have been replaced by the full tile.
        let superseded = response.status == 404 && path.contains(".p/");
        if !lost && response.status != 200 && !unchanged && !superseded {
            let finding = fetch::not_served(path, response.status, &response.body);
            response.exchange.outcome = Err(finding.into());
            self.told = true;
        }
        self.iteration.request(self.tags, &response.exchange);
        if lost {
            return;
        }
        let recorder = self.iteration.recorder();
        recorder.rate(self.tags, THROTTLED, false);
        if response.status == 200 {
            for (check, outcome) in headers::examine(path, &response.headers, false) {
                let outcome = outcome.map_err(|error| format!("{path}: {error}"));
                recorder.check(self.tags, check, outcome);
            }
        }
        response.exchange.outcome = Ok(());
    }

    /// Records that the log throttled a request.
    fn throttle(&mut self, response: &Response) {
        self.iteration.request(self.throttled, &response.exchange);
        let recorder = self.iteration.recorder();
        recorder.rate(self.tags, THROTTLED, true);
        let backoff = Backoff::throttled(self.throttled, response, self.iteration);
        self.backoff = Some(backoff);
    }
}

/// The files of the log, as one iteration reads them: one after the other.
struct IterationSource<'r, 'a>(Mutex<&'r mut ReadIteration<'a>>);

#[async_trait]
impl Source for IterationSource<'_, '_> {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        let file = self.0.lock().await.request(path, None).await?;
        let not_modified = || FetchError::from(Unreachable::NotModified(path.to_owned()));
        Ok(Some(file.ok_or_else(not_modified)?))
    }
}

/// Returns a random hash tile of the verified tree, with equal probability for each.
fn random_tile(edge: &RightEdge, random: &mut Random) -> Option<Tile> {
    let tiles = |level: u8| {
        let entries = edge.size() / Level::Hashes(level).entry_leaves();
        entries.div_ceil(TILE_WIDTH)
    };
    let mut point = random.below((0..=MAX_LEVEL).map(tiles).sum());
    for level in 0..=MAX_LEVEL {
        match point.checked_sub(tiles(level)) {
            Some(rest) => point = rest,
            None => return Tile::widest(Level::Hashes(level), point, edge.size()),
        }
    }
    None
}

//! The watched log.

use std::sync::Arc;

use lucarne_ct::CheckpointVerifier;
use lucarne_load::PrepareError;
use lucarne_scenarios::ct::checks::Findings;
use lucarne_scenarios::ct::fetch::{Fetch, FetchError};
use lucarne_scenarios::ct::{
    HttpFetcher, LogOptions, Monitor, Outage, TileCache, TreeHead, TreeHeads,
};

/// Log, and the state of its verification.
pub(super) struct Watched {
    fetcher: HttpFetcher,
    tree_heads: TreeHeads,
    monitor: Option<Monitor>,
}

/// Result of a check.
pub(super) enum Look {
    /// A valid checkpoint.
    Seen(TreeHead),
    /// The log did not respond.
    Away(String),
    /// The log violates a rule.
    Wrong(Vec<String>),
}

impl Watched {
    /// Finds the key and the origin of the log.
    pub(super) async fn begin(options: &LogOptions) -> Result<Self, PrepareError> {
        let mut targets = options.targets().await?.into_iter();
        let wrong = |why: String| PrepareError::Configuration(why);
        let target = targets
            .next()
            .ok_or_else(|| wrong("no log is given".into()))?;
        let verifier = CheckpointVerifier::new(&target.origin, &target.spki)
            .map_err(|error| wrong(format!("invalid key of {}: {error}", target.url)))?;
        let outage = Arc::new(Outage::new(true));
        Ok(Watched {
            fetcher: HttpFetcher::new(&target.monitoring, &target.client, outage),
            tree_heads: TreeHeads::new(
                verifier,
                options.max_checkpoint_age,
                options.clock_tolerance,
            ),
            monitor: None,
        })
    }

    /// Reads the checkpoint, and verifies the growth of the tree.
    pub(super) async fn look(&mut self) -> Look {
        let findings = Findings::default();
        let head = match self.follow(&findings).await {
            Ok(head) => head,
            Err(FetchError::Unreachable(why)) => return Look::Away(why.to_string()),
            Err(FetchError::Faulty(finding)) => return Look::Wrong(vec![finding.to_string()]),
        };
        let found = findings.take();
        match (found.as_slice(), head) {
            ([], Some(head)) => Look::Seen(head),
            _ => Look::Wrong(found.iter().map(ToString::to_string).collect()),
        }
    }

    async fn follow(&mut self, findings: &Findings) -> Result<Option<TreeHead>, FetchError> {
        let prior = self.tree_heads.prior();
        let note = self.fetcher.get("checkpoint").await?;
        let seen = self
            .tree_heads
            .observe(&note, prior, lucarne_mint::now_ms(), findings);
        let Some(head) = seen else {
            return Ok(None);
        };
        match &mut self.monitor {
            Some(monitor) => {
                monitor
                    .advance(&mut self.fetcher, &head, &[], findings)
                    .await?
            }
            None => {
                let tile_cache = Arc::<TileCache>::default();
                let start = Monitor::start(tile_cache, &mut self.fetcher, &head, false);
                self.monitor = Some(start.await?);
            }
        }
        Ok(Some(head))
    }
}

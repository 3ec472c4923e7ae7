//! The log that is watched.

use std::sync::Arc;

use lucarne_ct::CheckpointVerifier;
use lucarne_load::PrepareError;
use lucarne_scenarios::ct::checks::Findings;
use lucarne_scenarios::ct::fetch::{Fetch, Trouble};
use lucarne_scenarios::ct::{Follower, Head, Heads, LogOptions, Outage, Remote, Spine};

/// A log, and what is verified of it.
pub(super) struct Watched {
    remote: Remote,
    heads: Heads,
    follower: Option<Follower>,
}

/// What a look at it found.
pub(super) enum Look {
    /// A checkpoint that is right.
    Seen(Head),
    /// No answer.
    Away(String),
    /// Something that must not be.
    Wrong(Vec<String>),
}

impl Watched {
    /// Finds the log: its key and its origin.
    pub(super) async fn begin(options: &LogOptions) -> Result<Self, PrepareError> {
        let mut targets = options.targets().await?.into_iter();
        let wrong = |why: String| PrepareError::Configuration(why);
        let target = targets
            .next()
            .ok_or_else(|| wrong("no log is given".into()))?;
        let verifier = CheckpointVerifier::new(&target.origin, &target.spki)
            .map_err(|error| wrong(format!("the key of {}: {error}", target.url)))?;
        let outage = Arc::new(Outage::new(true));
        Ok(Watched {
            remote: Remote::new(&target.monitoring, &target.client, outage),
            heads: Heads::new(
                verifier,
                options.max_checkpoint_age,
                options.clock_tolerance,
            ),
            follower: None,
        })
    }

    /// Looks at the checkpoint, and follows the tree to it.
    pub(super) async fn look(&mut self) -> Look {
        let findings = Findings::default();
        let head = match self.follow(&findings).await {
            Ok(head) => head,
            Err(Trouble::Unreachable(why)) => return Look::Away(why),
            Err(Trouble::Found(finding)) => return Look::Wrong(vec![finding.to_string()]),
        };
        let found = findings.take();
        match (found.as_slice(), head) {
            ([], Some(head)) => Look::Seen(head),
            _ => Look::Wrong(found.iter().map(ToString::to_string).collect()),
        }
    }

    async fn follow(&mut self, findings: &Findings) -> Result<Option<Head>, Trouble> {
        let floor = self.heads.floor();
        let note = self.remote.get("checkpoint").await?;
        let seen = self.heads.see(&note, floor, crate::now_ms(), findings);
        let Some(head) = seen else {
            return Ok(None);
        };
        match &mut self.follower {
            Some(follower) => {
                follower
                    .grow(&mut self.remote, &head, &[], findings)
                    .await?
            }
            None => {
                let spine = Arc::<Spine>::default();
                let start = Follower::start(spine, &mut self.remote, &head, false);
                self.follower = Some(start.await?);
            }
        }
        Ok(Some(head))
    }
}

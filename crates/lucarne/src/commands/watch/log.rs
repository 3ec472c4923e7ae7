//! The watched log.

use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::CheckpointVerifier;
use lucarne_load::PrepareError;
use lucarne_scenarios::ct::checks::Findings;
use lucarne_scenarios::ct::fetch::{self, FetchError, Unreachable};
use lucarne_scenarios::ct::{HttpFetcher, LogOptions, Monitor, Outage, TreeHead, TreeHeads};

/// Time before the next check after a response with the status 429 without a valid Retry-After, or
/// with the wait zero.
const THROTTLED: Duration = Duration::from_secs(10);
/// Maximum time before the next check. A log may require a day.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Log, and the state of its verification.
pub(super) struct Watched {
    pub(super) origin: String,
    pub(super) spki: Vec<u8>,
    pub(super) fetcher: HttpFetcher,
    tree_heads: TreeHeads,
    monitor: Option<Monitor>,
}

/// Result of a check.
pub(super) enum Look {
    /// A valid checkpoint.
    Seen(TreeHead),
    /// The log did not respond, or postponed the request. The next check must wait this long.
    Away(String, Duration),
    /// The log violates a rule.
    Wrong(Vec<String>),
}

impl Look {
    /// Postpones the check.
    pub(super) fn away(why: &Unreachable) -> Self {
        Look::Away(why.to_string(), wait(why))
    }
}

impl Watched {
    /// Finds the key and the origin of the log.
    pub(super) async fn begin(options: &LogOptions) -> Result<Self, PrepareError> {
        let target = options.monitored().await?;
        let wrong = |why: String| PrepareError::Configuration(why);
        let verifier = CheckpointVerifier::new(&target.origin, &target.spki)
            .map_err(|error| wrong(format!("invalid key of {}: {error}", target.url)))?;
        let outage = Arc::new(Outage::new(true));
        Ok(Watched {
            origin: target.origin.clone(),
            spki: target.spki.clone(),
            fetcher: HttpFetcher::new(&target.monitoring, &target.client, outage).patient(),
            tree_heads: TreeHeads::new(
                verifier,
                options.max_checkpoint_age.0,
                options.clock_tolerance.0,
            ),
            monitor: None,
        })
    }

    /// Reads the checkpoint, and verifies the growth of the tree.
    pub(super) async fn look(&mut self) -> Look {
        let findings = Findings::default();
        let head = match self.follow(&findings).await {
            Ok(head) => head,
            Err(FetchError::Unreachable(why)) => return Look::away(&why),
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
        let note = fetch::get(&self.fetcher, "checkpoint").await?;
        let seen = self
            .tree_heads
            .observe(&note, prior, lucarne_mint::now_ms(), findings);
        let Some(head) = seen else {
            return Ok(None);
        };
        match &mut self.monitor {
            Some(monitor) => monitor.advance(&self.fetcher, &head, &[], findings).await?,
            None => {
                let start = Monitor::start(Arc::default(), &self.fetcher, &head, false);
                self.monitor = Some(start.await?);
            }
        }
        Ok(Some(head))
    }
}

/// Returns the time before the next check.
fn wait(why: &Unreachable) -> Duration {
    match why {
        Unreachable::Status {
            status: 429,
            retry_after: None | Some(Duration::ZERO),
            ..
        } => THROTTLED,
        Unreachable::Status {
            retry_after: Some(requested),
            ..
        } => LONGEST_WAIT.min(*requested),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_respected_within_bounds() {
        let status = |status: u16, retry_after: Option<u64>| Unreachable::Status {
            path: "checkpoint".into(),
            status,
            retry_after: retry_after.map(Duration::from_secs),
        };
        for (why, expected) in [
            (status(429, Some(3)), 3),
            (status(503, Some(3)), 3),
            (status(429, Some(86_400)), 600),
            (status(429, None), 10),
            (status(429, Some(0)), 10),
            (status(503, None), 0),
            (Unreachable::Other("no connection".into()), 0),
        ] {
            assert_eq!(wait(&why), Duration::from_secs(expected), "{why}");
        }
    }
}

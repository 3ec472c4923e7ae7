//! The last cosignature of each witness and mirror, and the reason why there is no newer one.

use std::time::{Duration, Instant};

use lucarne_x509::text::counted;
use parking_lot::Mutex;

use crate::config::witnesses::Witnesses;
use crate::status::metrics::WitnessMetrics;
use crate::status::state::Check;

/// The problem of a witness whose response is valid, but too late.
pub(crate) const OUTDATED: &str =
    "the response came after the next round; increase `period` if this happens often";

/// Shortest time between two lines of the process log about one witness.
const QUIET: Duration = Duration::from_secs(60);

/// The results of requests to witnesses, each with its label in metrics.
macro_rules! outcomes {
    ($($outcome:ident = $label:literal),* $(,)?) => {
        /// The result of a request to a witness.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Outcome { $($outcome),* }

        impl Outcome {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$outcome),*];

            /// Returns the value of the label `result` in metrics.
            pub(crate) fn label(self) -> &'static str {
                match self { $(Self::$outcome => $label),* }
            }
        }
    };
}

outcomes! {
    Cosigned = "cosigned",
    Outdated = "outdated",
    Late = "late",
    Oversized = "oversized",
    Unreachable = "unreachable",
    Refused = "refused",
    Conflict = "conflict",
    Duplicate = "duplicate",
    Invalid = "invalid",
    Unproven = "unproven",
}

/// A witness or mirror of a log, for operators and readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessState {
    /// The name in the policy.
    pub name: String,
    /// The name of the key.
    pub key: String,
    /// The last published cosignature: number of entries, and seconds since 1970.
    pub cosigned: Option<(u64, u64)>,
    /// Number of entries that a mirror has; `None` if the log has uploaded none.
    pub stored: Option<u64>,
    /// The reason why the witness did not cosign the last checkpoint.
    pub problem: Option<String>,
}

/// The state of all witnesses of a log.
#[derive(Debug, Default)]
pub(crate) struct WitnessStatus {
    witnesses: Mutex<Vec<WitnessState>>,
    /// The last line of the process log about each witness: whether it cosigned, or why not.
    logged: Mutex<Vec<Option<(Instant, Outcome)>>>,
    /// Whether the cosignatures of the last decided checkpoint met the quorum; `None` before.
    quorum: Mutex<Option<bool>>,
    /// The reason why the last cosignatures were not published.
    unpublished: Mutex<Option<String>>,
}

impl WitnessStatus {
    /// Creates the state of witnesses that have not cosigned.
    pub(crate) fn new(witnesses: Option<&Witnesses>) -> Self {
        let state = |(name, it): (String, &lucarne_tlog::policy::Witness)| WitnessState {
            name,
            key: it.key.name().to_owned(),
            cosigned: None,
            stored: None,
            problem: without_url(it),
        };
        let all = witnesses.map(|all| all.names().zip(all.policy.witnesses()).map(state).collect());
        let all: Vec<_> = all.unwrap_or_default();
        WitnessStatus {
            logged: Mutex::new(vec![None; all.len()]),
            witnesses: Mutex::new(all),
            ..WitnessStatus::default()
        }
    }

    /// Forgets the state of a term that has ended, except the last published cosignatures.
    pub(crate) fn reset(&self, all: &Witnesses, metrics: &WitnessMetrics) {
        for (witness, it) in self.witnesses.lock().iter_mut().zip(all.policy.witnesses()) {
            metrics.forget(&witness.name);
            witness.problem = without_url(it);
        }
        *self.quorum.lock() = None;
        *self.unpublished.lock() = None;
    }

    pub(crate) fn all(&self) -> Vec<WitnessState> {
        self.witnesses.lock().clone()
    }

    /// Records a published cosignature of a tree of `size` entries.
    pub(crate) fn cosigned(&self, at: usize, (size, time): (u64, u64), metrics: &WitnessMetrics) {
        if let Some(witness) = self.witnesses.lock().get_mut(at) {
            metrics.cosigned(&witness.name, time);
            witness.cosigned = Some((size, time));
        }
    }

    /// Records the number of entries that a mirror has.
    pub(crate) fn stored(&self, at: usize, entries: u64, metrics: &WitnessMetrics) {
        if let Some(mirror) = self.witnesses.lock().get_mut(at) {
            metrics.stored(&mirror.name, entries);
            mirror.stored = Some(entries);
        }
    }

    /// Records the response of a witness, with the reason if it is unusable. Returns the name of
    /// the witness if the result has changed since the last line of the process log, at most once
    /// in [`QUIET`]: a witness may fail in each second round.
    pub(crate) fn responded(
        &self,
        at: usize,
        (outcome, problem): (Outcome, Option<String>),
        now: Instant,
        metrics: &WitnessMetrics,
    ) -> Option<String> {
        let mut witnesses = self.witnesses.lock();
        let witness = witnesses.get_mut(at)?;
        metrics.responded(&witness.name, outcome);
        witness.problem = problem;
        let mut logged = self.logged.lock();
        let logged = logged.get_mut(at)?;
        // A busy log may get the responses of a witness in time and too late in turn.
        let outcome = match outcome {
            Outcome::Outdated => Outcome::Cosigned,
            outcome => outcome,
        };
        let is_new = match *logged {
            None => outcome != Outcome::Cosigned,
            Some((last, before)) => before != outcome && now.duration_since(last) >= QUIET,
        };
        is_new.then(|| {
            *logged = Some((now, outcome));
            witness.name.clone()
        })
    }

    /// Records whether the cosignatures of a checkpoint met the quorum.
    pub(crate) fn decided(&self, met: bool, metrics: &WitnessMetrics) {
        metrics.decided(met);
        *self.quorum.lock() = Some(met);
    }

    /// Records whether the storage has published cosignatures, with the reason if it has not.
    /// Returns whether the cosignatures before were published.
    pub(crate) fn published(&self, problem: Option<String>) -> bool {
        let before = std::mem::replace(&mut *self.unpublished.lock(), problem);
        before.is_none()
    }

    /// Formats the state as a health check. A missing quorum does not fail the check, because the
    /// log works without it.
    pub(crate) fn check(&self) -> Check {
        let quorum = match *self.quorum.lock() {
            None => "no cosignature was requested yet",
            Some(true) => "the quorum of the policy is met",
            Some(false) => "warning: the quorum of the policy is not met",
        };
        let unpublished = self.unpublished.lock().clone();
        let unpublished = unpublished.map_or_else(String::new, |problem| {
            format!("; cannot publish cosignatures: {problem}")
        });
        let problems = self.all().into_iter().filter_map(|witness| {
            let stored = witness.stored;
            let stored = stored.map(|entries| format!("has {}", counted(entries, "entry")));
            let said: Vec<_> = stored.into_iter().chain(witness.problem).collect();
            (!said.is_empty()).then(|| format!("; {}: {}", witness.name, said.join(", ")))
        });
        Check {
            name: "witnesses",
            ok: true,
            detail: format!("{quorum}{unpublished}{}", problems.collect::<String>()),
        }
    }
}

fn without_url(witness: &lucarne_tlog::policy::Witness) -> Option<String> {
    let is_missing = witness.url.is_none();
    is_missing.then(|| "the policy has no URL".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use bytes::Bytes;
    use lucarne_tlog::{Cosigner, Policy};
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::config::witnesses::{Endpoint, WitnessClient, WitnessError, WitnessResponse};
    use crate::status::metrics::Metrics;

    #[derive(Debug)]
    struct Silent;

    #[async_trait]
    impl WitnessClient for Silent {
        async fn post(
            &self,
            _: &str,
            _: Endpoint,
            _: Bytes,
            _: usize,
        ) -> Result<WitnessResponse, WitnessError> {
            std::future::pending().await
        }
    }

    #[test]
    fn a_witness_that_changes_in_each_round_is_logged_once_a_minute() {
        let key = Cosigner::ed25519("w.example", &[2; 32]).unwrap();
        let policy = format!("witness W {} https://w.example\nquorum W\n", key.verifier());
        let policy = Policy::parse(policy.as_bytes()).unwrap();
        let status = WitnessStatus::new(Some(&Witnesses::new(policy, Arc::new(Silent)).unwrap()));
        let metrics = Metrics::register(&mut Registry::default())
            .of("log")
            .witnesses;
        let start = Instant::now();
        let responded = |second, outcome: Outcome, problem: Option<&str>| {
            let (at, problem) = (Duration::from_secs(second), problem.map(str::to_owned));
            let line = status.responded(0, (outcome, problem), start + at, &metrics);
            line.is_some()
        };
        assert!(!responded(0, Outcome::Cosigned, None));
        assert!(responded(
            1,
            Outcome::Refused,
            Some("the response has the status 500")
        ));
        for second in 2..60 {
            assert!(!responded(second, Outcome::Cosigned, None));
            assert!(!responded(second, Outcome::Late, Some("no response")));
        }
        assert!(!responded(
            61,
            Outcome::Refused,
            Some("the response has the status 503")
        ));
        assert_eq!(
            status.all()[0].problem.as_deref(),
            Some("the response has the status 503")
        );
        assert!(responded(62, Outcome::Outdated, Some(OUTDATED)));
        assert!(!responded(200, Outcome::Cosigned, None));
        assert!(responded(201, Outcome::Late, Some("no response")));
    }
}

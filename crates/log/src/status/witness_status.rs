//! The last cosignature of each witness, and the reason why there is no newer one.

use parking_lot::Mutex;

use crate::config::witnesses::Witnesses;
use crate::status::metrics::WitnessMetrics;
use crate::status::state::Check;

/// The problem of a witness whose response is valid, but too late.
pub(crate) const OUTDATED: &str =
    "the response came after the next round; increase `period` if this happens often";

/// A witness of a log, for operators and readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessState {
    /// The name in the policy.
    pub name: String,
    /// The name of the key.
    pub key: String,
    /// The last published cosignature: number of entries, and seconds since 1970.
    pub cosigned: Option<(u64, u64)>,
    /// The reason why the witness did not cosign the last checkpoint.
    pub problem: Option<String>,
}

/// The state of all witnesses of a log.
#[derive(Debug, Default)]
pub(crate) struct WitnessStatus {
    witnesses: Mutex<Vec<WitnessState>>,
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
            problem: without_url(it),
        };
        let all = witnesses.map(|all| all.names().zip(all.policy.witnesses()).map(state).collect());
        WitnessStatus {
            witnesses: Mutex::new(all.unwrap_or_default()),
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

    /// Records the response of a witness, with the reason if it is unusable. Returns the name of
    /// the witness if the reason has changed.
    pub(crate) fn responded(
        &self,
        at: usize,
        (result, problem): (&'static str, Option<String>),
        metrics: &WitnessMetrics,
    ) -> Option<String> {
        let mut witnesses = self.witnesses.lock();
        let witness = witnesses.get_mut(at)?;
        metrics.responded(&witness.name, result);
        // A busy log may get the responses of a witness in time and too late in turn.
        let is_valid =
            |problem: &Option<String>| problem.as_deref().is_none_or(|it| it == OUTDATED);
        let both_valid = is_valid(&witness.problem) && is_valid(&problem);
        let changed = witness.problem != problem && !both_valid;
        witness.problem = problem;
        changed.then(|| witness.name.clone())
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
            let problem = witness.problem?;
            Some(format!("; {}: {problem}", witness.name))
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

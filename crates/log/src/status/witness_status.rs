//! The last cosignature of each witness, and the reason why there is no newer one.

use parking_lot::Mutex;

use crate::config::witnesses::Witnesses;
use crate::status::metrics::WitnessMetrics;
use crate::status::state::Check;

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
}

impl WitnessStatus {
    /// Creates the state of witnesses that have not cosigned.
    pub(crate) fn new(witnesses: Option<&Witnesses>) -> Self {
        let state = |(name, it): (String, &lucarne_tlog::policy::Witness)| WitnessState {
            name,
            key: it.key.name().to_owned(),
            cosigned: None,
            problem: it.url.is_none().then(|| "the policy has no URL".to_owned()),
        };
        let all = witnesses.map(|all| all.names().zip(all.policy.witnesses()).map(state).collect());
        WitnessStatus {
            witnesses: Mutex::new(all.unwrap_or_default()),
            quorum: Mutex::default(),
        }
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
        let changed = witness.problem != problem;
        witness.problem = problem;
        changed.then(|| witness.name.clone())
    }

    /// Records whether the cosignatures of a checkpoint met the quorum.
    pub(crate) fn decided(&self, met: bool, metrics: &WitnessMetrics) {
        metrics.decided(met);
        *self.quorum.lock() = Some(met);
    }

    /// Formats the state as a health check. A missing quorum does not fail the check, because the
    /// log works without it.
    pub(crate) fn check(&self) -> Check {
        let quorum = match *self.quorum.lock() {
            None => "no cosignature was requested yet",
            Some(true) => "the quorum of the policy is met",
            Some(false) => "warning: the quorum of the policy is not met",
        };
        let problems = self.all().into_iter().filter_map(|witness| {
            let problem = witness.problem?;
            Some(format!("; {}: {problem}", witness.name))
        });
        Check {
            name: "witnesses",
            ok: true,
            detail: format!("{quorum}{}", problems.collect::<String>()),
        }
    }
}

//! Requests outside the load: `setup` and `teardown` once per run, `userSetup` once per user.

use std::sync::OnceLock;

use lucarne_load::{Failure, OwnMetrics, Recorder};
use tokio::sync::watch;

use super::options::{RestOptions, Step};
use super::request::{Compiler, Request};
use super::shared_state::{PlanError, requests};
use super::template::NameError;
use super::user::{RestUser, Session};

/// Duration of a request outside the load.
const DURATION: &str = "phase_req_duration";
/// Share of failed requests outside the load.
const FAILED: &str = "phase_req_failed";

/// Metrics of the requests outside the load, which do not count in `http_req_duration` and the
/// other metrics of the load.
pub(super) const METRICS: OwnMetrics = &[(DURATION, "trend"), (FAILED, "rate")];

/// Keys of the phases in a plan.
pub(super) const PHASES: [&str; 3] = ["setup", "userSetup", "teardown"];

/// Requests that are sent in order until one fails.
#[derive(Debug, Default)]
pub(super) struct Phase {
    /// Key in the plan, which is also the value of the tag `phase`.
    key: &'static str,
    requests: Vec<Request>,
}

/// The phases of a scenario, and their results for its users.
#[derive(Debug, Default)]
pub(super) struct Phases {
    pub(super) setup: Phase,
    pub(super) user_setup: Phase,
    pub(super) teardown: Phase,
    /// State after `setup`, with which users begin.
    pub(super) session: OnceLock<Session>,
    /// First failure of a `userSetup`.
    failure: watch::Sender<Option<Failure>>,
}

impl Phase {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

impl Phases {
    /// Declares the values that the phases before the load capture, because all `steps` may use
    /// them. Returns their names.
    pub(super) fn declare(
        options: &RestOptions,
        compiler: &mut Compiler<'_>,
    ) -> Result<Vec<String>, NameError> {
        let steps = options.setup.iter().chain(&options.user_setup);
        let places = steps.flat_map(|step| step.capture.iter().chain(&step.remember));
        let names: Vec<String> = places.map(|(name, _)| name.clone()).collect();
        for name in &names {
            compiler.scope.declare(name)?;
        }
        Ok(names)
    }

    /// Compiles the phases. A request may use `vars`, the values of requests before it, and in
    /// `userSetup` the `columns` of rows.
    pub(super) fn compile(
        options: &RestOptions,
        compiler: &mut Compiler<'_>,
        vars: Vec<usize>,
        columns: &[usize],
    ) -> Result<Self, PlanError> {
        let phase = |key, steps: &[Step], compiler: &mut Compiler<'_>| {
            // Values outside the load last for the run or the user, not for an iteration.
            let requests = requests(key, steps, compiler, &mut Vec::new())?;
            Ok::<_, PlanError>(Phase { key, requests })
        };
        let all = compiler.scope.see(vars);
        let setup = phase("setup", &options.setup, compiler)?;
        let of_run = compiler.scope.visible();
        let _ = compiler.scope.see([&of_run, columns].concat());
        let user_setup = phase("userSetup", &options.user_setup, compiler)?;
        let _ = compiler.scope.see(of_run);
        let teardown = phase("teardown", &options.teardown, compiler)?;
        let _ = compiler.scope.see(all);
        Ok(Self {
            setup,
            user_setup,
            teardown,
            ..Self::default()
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.once_per_run().is_empty() && self.user_setup.is_empty()
    }

    /// Returns the requests that are sent once per run.
    pub(super) fn once_per_run(&self) -> Vec<&Request> {
        (self.setup.requests.iter().chain(&self.teardown.requests)).collect()
    }

    /// Records that a user could not be set up, which ends the run.
    pub(super) fn fail(&self, failure: Failure) {
        self.failure.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(failure);
            is_first
        });
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Waits for the first failure.
    pub(super) async fn failed(&self) -> Failure {
        let mut failure = self.failure.subscribe();
        let first = failure.wait_for(Option::is_some).await;
        // The sender is a field of `self`, so the channel stays open.
        first
            .ok()
            .and_then(|first| first.clone())
            .unwrap_or_else(|| Failure::new(self.user_setup.key, "failed"))
    }
}

impl RestUser {
    /// Sends the requests of a phase. Their samples have the tags `op` and `phase`.
    pub(super) async fn perform(
        &mut self,
        phase: &Phase,
        recorder: &Recorder,
    ) -> Result<(), Failure> {
        for request in &phase.requests {
            if !request.applies(&mut self.values) {
                continue;
            }
            let outcome = self.outside_load(request, phase.key, recorder).await;
            outcome.map_err(|failure| Failure::new(phase.key, failure.detail))?;
            if let Some(pause) = request.think_time {
                let pause = pause.pick(self.values.random());
                // Think time of the plan.
                tokio::time::sleep(pause).await;
            }
        }
        Ok(())
    }

    async fn outside_load(
        &mut self,
        request: &Request,
        phase: &str,
        recorder: &Recorder,
    ) -> Result<(), Failure> {
        self.check_ready(request)?;
        let tags = recorder.tags(&[("op", &request.name), ("phase", phase)]);
        let mut response = self.send(request).await;
        if request.redirects > 0 {
            response = Box::pin(self.follow(request, response, None)).await;
        }
        let exchange = &mut response.exchange;
        if let Err(failure) = &mut exchange.outcome {
            failure.detail = format!("{}: {}", request.name, failure.detail);
        }
        let duration = exchange
            .finished
            .saturating_duration_since(exchange.started);
        self.judge(request, &mut response, None);
        recorder.trend(tags, DURATION, duration);
        recorder.rate(tags, FAILED, response.exchange.outcome.is_err());
        response.exchange.outcome
    }
}

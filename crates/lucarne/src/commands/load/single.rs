//! One scenario from flags, without a plan.

use std::process::ExitCode;
use std::sync::Arc;

use lucarne_load::{PrepareError, Run, Scenario, ScenarioConfig};

use super::exit_code::misconfigured;
use super::{arrivals, execute, output, settings};

/// Flags of a run; `O` are the flags of the scenario.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Single<O: clap::Args> {
    /// Flags of the scenario.
    #[command(flatten)]
    pub options: O,
    /// Flags of the executor: rate or users, and duration.
    #[command(flatten)]
    pub arrivals: arrivals::Flags,
    /// Settings of every run.
    #[command(flatten)]
    pub settings: settings::Flags,
    /// Flags of the reports.
    #[command(flatten)]
    pub output: output::Flags,
}

impl<O: clap::Args + Clone> Single<O> {
    /// Runs the scenario of the given kind, which `build` creates; `usual` is its default load.
    pub(super) fn run(
        &self,
        kind: &str,
        usual: arrivals::Usual,
        build: fn(O, u64) -> Result<Arc<dyn Scenario>, PrepareError>,
    ) -> ExitCode {
        let seed = self.settings.seed(None);
        let scenario = match build(self.options.clone(), seed) {
            Ok(scenario) => scenario,
            Err(error) => return misconfigured(error),
        };
        let mut planned = ScenarioConfig::new(kind, self.arrivals.executor(usual), scenario);
        planned.kind = kind.to_owned();
        planned.seed = seed;
        planned.demands = settings::demands(kind);
        planned.graceful_stop = self.arrivals.graceful_stop;
        let mut run = Run {
            name: kind.to_owned(),
            scenarios: vec![planned],
            workers: self.settings.threads(None),
            ..Run::default()
        };
        self.settings.add_to(&mut run);
        execute::execute(run, &self.output)
    }
}

//! Flags of a run other than load and output.

use lucarne_load::Run;
use lucarne_load::plan::{self, MAX_THREADS};
use lucarne_load::threshold::Threshold;

/// Settings of a run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Run")]
#[group(skip)]
pub struct Flags {
    /// Threads for iterations [default: 1, or from the plan]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    pub threads: Option<u64>,

    /// Condition that must hold, in k6's grammar, such as 'http_req_duration: p(95)<500'. May be
    /// repeated
    #[arg(long = "threshold", value_name = "METRIC: EXPRESSION", value_parser = Threshold::parse)]
    pub thresholds: Vec<Threshold>,

    /// Check, or default threshold on time (vu_time_lost, vu_time_throttled, target_silent), that
    /// may fail without failing the run. May be repeated
    #[arg(long, value_name = "NAME")]
    pub allow: Vec<String>,

    /// Tag for all samples. May be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = plan::tag)]
    pub tags: Vec<(String, String)>,

    /// Seed of the random numbers: the same seed sends the same certificates and keys
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl Flags {
    /// Adds tags, thresholds and allowed failures to a run. A tag replaces one of the same name.
    pub fn add_to(&self, run: &mut Run) {
        for planned in &mut run.scenarios {
            for tag in &self.tags {
                planned.tags.retain(|(name, _)| *name != tag.0);
                planned.tags.push(tag.clone());
            }
        }
        run.thresholds.0.extend(self.thresholds.iter().cloned());
        run.allow.clone_from(&self.allow);
    }

    /// Returns the seed of the flags, otherwise of the plan, otherwise a random seed.
    pub fn seed(&self, plan: Option<u64>) -> u64 {
        self.seed.or(plan).unwrap_or_else(|| {
            let mut seed = [0; 8];
            // Without random numbers, TLS fails with a clear error.
            let _ = aws_lc_rs::rand::fill(&mut seed);
            u64::from_le_bytes(seed)
        })
    }

    /// Returns the number of threads of the flags, otherwise of the plan, otherwise 1.
    pub fn threads(&self, plan: Option<usize>) -> usize {
        let flag = self.threads.map(|threads| threads as usize);
        flag.or(plan).unwrap_or(1)
    }
}

/// Returns the default thresholds of a kind of scenario.
pub(super) fn demands(kind: &str) -> Vec<Threshold> {
    lucarne_scenarios::scenario(kind).map_or_else(Vec::new, |kind| kind.thresholds())
}

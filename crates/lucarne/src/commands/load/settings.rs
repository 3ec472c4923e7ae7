//! The flags of a run that are neither load nor output.

use lucarne_load::plan::{self, MAX_THREADS};
use lucarne_load::threshold::Threshold;
use lucarne_load::{ScenarioConfig, Thresholds};

/// The settings that are added to a run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Run")]
#[group(skip)]
pub struct Flags {
    /// Threads that carry out iterations [default: 1, or the plan's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    pub threads: Option<u64>,

    /// What must hold, in k6's grammar, such as 'http_req_duration: p(95)<500'; may be repeated
    #[arg(long = "threshold", value_name = "METRIC: EXPRESSION", value_parser = Threshold::parse)]
    pub thresholds: Vec<Threshold>,

    /// A check that may fail without failing the run; may be repeated
    #[arg(long, value_name = "CHECK")]
    pub allow: Vec<String>,

    /// A tag of all samples; may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = plan::tag)]
    pub tags: Vec<(String, String)>,

    /// Where randomness begins: the same seed sends the same certificates and keys
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl Flags {
    /// Adds the tags, where a scenario does not have them.
    pub fn add_tags(&self, planned: &mut ScenarioConfig) {
        for tag in &self.tags {
            planned.tags.retain(|(name, _)| *name != tag.0);
            planned.tags.push(tag.clone());
        }
    }

    /// Adds the thresholds.
    pub fn add_thresholds(&self, thresholds: &mut Thresholds) {
        thresholds.0.extend(self.thresholds.iter().cloned());
    }

    /// The thresholds of a run by flags.
    pub fn thresholds(&self) -> Thresholds {
        Thresholds(self.thresholds.clone())
    }

    /// The seed of these flags, of the plan, or a new one.
    pub fn seed(&self, plan: Option<u64>) -> u64 {
        self.seed.or(plan).unwrap_or_else(|| {
            let mut seed = [0; 8];
            // Without random numbers there is no TLS either; that will tell.
            let _ = aws_lc_rs::rand::fill(&mut seed);
            u64::from_le_bytes(seed)
        })
    }

    /// The worker threads of these flags, of the plan, or one.
    pub fn threads(&self, plan: Option<usize>) -> usize {
        let flag = self.threads.map(|threads| threads as usize);
        flag.or(plan).unwrap_or(1)
    }
}

/// The thresholds that a kind of scenario demands unless a run says something else.
pub(super) fn demands(kind: &str) -> Vec<Threshold> {
    lucarne_scenarios::scenario(kind).map_or_else(Vec::new, |kind| kind.thresholds())
}

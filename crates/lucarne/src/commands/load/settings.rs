//! The flags of a run that are neither load nor output.

use lucarne_load::plan::{self, MAX_THREADS};
use lucarne_load::threshold::Threshold;
use lucarne_load::{ScenarioConfig, Thresholds};

/// If a scenario checks what it gets, all is well.
pub(super) const CHECKS: &str = "checks: rate==1";
/// Requests are answered.
pub(super) const FAILED: &str = "http_req_failed: rate<0.01";
/// Submissions are taken, and not put off.
pub(super) const ACCEPTED: &str = "ct_accepted: rate>=0.99";
/// Reads are answered, and not put off.
pub(super) const THROTTLED: &str = "throttled: rate<0.01";

/// The settings that are added to a run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Run")]
#[group(skip)]
pub struct Flags {
    /// Threads that carry out iterations [default: 1, or the plan's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_THREADS))]
    pub threads: Option<u64>,

    /// What must hold, in k6's grammar, such as 'http_req_duration: p(95)<500'; may be repeated
    #[arg(long = "threshold", value_name = "METRIC: EXPRESSION", value_parser = threshold)]
    pub thresholds: Vec<Threshold>,

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

    /// Those of a run by flags. What nobody says anything about must hold, too: those
    /// that are `usual`.
    pub fn thresholds(&self, usual: &[&str]) -> Thresholds {
        let mut thresholds = Thresholds::default();
        let usual = usual.iter().filter_map(|text| Threshold::parse(text).ok());
        for threshold in usual {
            // Also if it says so of more than that, such as of all scenarios.
            let same = |given: &Threshold| {
                given.metric() == threshold.metric()
                    && given
                        .tags()
                        .iter()
                        .all(|tag| threshold.tags().contains(tag))
            };
            if !self.thresholds.iter().any(same) {
                thresholds.0.push(threshold);
            }
        }
        self.add_thresholds(&mut thresholds);
        thresholds
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

fn threshold(text: &str) -> Result<Threshold, String> {
    Threshold::parse(text).map_err(|error| error.to_string())
}

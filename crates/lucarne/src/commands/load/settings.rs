//! Flags of a run other than load and output.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lucarne_load::Run;
use lucarne_load::part::PartError;
use lucarne_load::plan::{self, MAX_THREADS};
use lucarne_load::threshold::Threshold;
use lucarne_settings::values::{self, ValueError};
use tokio::sync::watch;

/// Settings of a run.
#[derive(Clone, Debug, Default, clap::Args)]
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

/// A part of the load of a run, and its start.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Run")]
#[group(skip)]
pub struct PartFlags {
    /// Offer one of several parts of the load, such as 2/3; `load merge` merges their summaries
    #[arg(long, value_name = "N/PARTS")]
    pub part: Option<String>,

    /// Time of the first arrival, such as 2026-11-28T15:00:00Z
    #[arg(long, value_name = "TIME")]
    pub start_at: Option<String>,
}

/// Reasons why a part is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum PartFlagError {
    #[error("--part: {0}")]
    Part(#[from] PartError),
    #[error("--start-at: `{0}` {1}")]
    Time(String, ValueError),
    #[error("--start-at: {0} is in the past: choose a later time")]
    Past(String),
}

impl PartFlags {
    /// Adds part and start to a run.
    pub(super) fn add_to(&self, run: &mut Run) -> Result<(), PartFlagError> {
        if let Some(part) = &self.part {
            run.part = part.parse()?;
        }
        if let Some(text) = &self.start_at {
            let time = values::time(text);
            let time = time.map_err(|why| PartFlagError::Time(text.clone(), why))?;
            let start = UNIX_EPOCH + Duration::from_millis(time);
            if start <= SystemTime::now() {
                return Err(PartFlagError::Past(text.clone()));
            }
            run.start_at = Some(watch::channel(Some(start)).1);
        }
        Ok(())
    }
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

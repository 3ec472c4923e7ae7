//! `lucarne load ct`: concurrent writes and reads, with the flags of the CT hammer.

use std::process::ExitCode;
use std::time::Duration;

use lucarne_load::executor::{ArrivalRateOptions, Rate};
use lucarne_load::{ExecutorConfig, PrepareError, Run, ScenarioConfig};
use lucarne_scenarios::ct::{read, write};
use lucarne_scenarios::option_values::{HttpVersion, Ratio};

use super::exit_code::misconfigured;
use super::{execute, output, settings};
use crate::commands::duration;

/// Duration of a run that only a signal ends.
const ENDLESS: Duration = Duration::from_secs(365 * 86_400);

/// Options of `lucarne load ct`.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Submissions and their targets.
    #[command(flatten)]
    pub write: write::CtWriteOptions,
    /// Amount of load.
    #[command(flatten)]
    pub load: Load,
    /// Settings of every run.
    #[command(flatten)]
    pub settings: settings::Flags,
    /// Flags of the reports.
    #[command(flatten)]
    pub output: output::Flags,
}

/// Amount of writes and reads.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Load (the CT hammer's flags)")]
#[group(skip)]
pub struct Load {
    /// Submissions per second; 0 for none, or for no limit if --num-writers is given
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub max_write_ops: f64,

    /// Maximum number of busy users for submissions; 0 for the default
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub num_writers: u64,

    /// Reads per second; 0 for none
    #[arg(long, value_name = "N", default_value_t = 20.0)]
    pub max_read_ops: f64,

    /// Readers of random parts
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub num_readers_random: u64,

    /// Readers of the whole log, from the first entry to the last
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub num_readers_full: u64,

    /// End after N new leaves have been written; 0 for no goal. Fails if --max-runtime ends first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub leaf_write_goal: u64,

    /// End after this time; 0 to continue until a signal
    #[arg(long, alias = "duration", value_name = "TIME", value_parser = duration, default_value = "0")]
    pub max_runtime: Duration,

    /// Use HTTP/2 only; same as --http 2
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub force_http2: bool,

    /// Accepted for compatibility, and ignored: every promise is verified
    #[arg(long, value_name = "N", hide = true)]
    pub num_mmd_verifiers: Option<u64>,

    /// Accepted for compatibility, and ignored: the load test has no log of its own
    #[arg(long, value_name = "N", hide = true, allow_negative_numbers = true)]
    pub slog_level: Option<i64>,

    /// Show the live view; false is the same as --no-ui
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub show_ui: bool,

    /// Fail if less than this part of either rate was offered, from 0 to 1
    #[arg(long, value_name = "PART", default_value_t = ArrivalRateOptions::default().min_achieved)]
    pub min_achieved: f64,
}

/// Runs writers and readers until they finish or a signal stops them.
pub(super) fn run(options: &Options) -> ExitCode {
    let mut output = options.output.clone();
    output.no_ui |= !options.load.show_ui;
    let seed = options.settings.seed(None);
    let options = &options.in_effect();
    let scenarios = match options.scenarios(seed) {
        Ok(scenarios) if !scenarios.is_empty() => scenarios,
        Ok(_) => {
            return misconfigured(
                "nothing to do: give --max-write-ops, or readers and --max-read-ops",
            );
        }
        Err(error) => return misconfigured(error),
    };
    let mut run = Run {
        name: "ct".to_owned(),
        scenarios,
        workers: options.settings.threads(None),
        ..Run::default()
    };
    options.settings.add_to(&mut run);
    execute::execute(run, &output)
}

impl Options {
    /// Returns the options with the effect of the hammer's own flags.
    fn in_effect(&self) -> Self {
        let mut options = self.clone();
        if self.load.force_http2 {
            options.write.log.http.version = HttpVersion::V2;
        }
        options
    }

    fn scenarios(&self, seed: u64) -> Result<Vec<ScenarioConfig>, PrepareError> {
        let mut scenarios = Vec::new();
        if let Some(executor) = self.load.writes() {
            let scenario = write::build_until(self.write.clone(), seed, self.load.goal())?;
            scenarios.push(ScenarioConfig {
                kind: "ct-write".to_owned(),
                demands: settings::demands("ct-write"),
                ..ScenarioConfig::new("write", executor, scenario)
            });
        }
        if let Some(executor) = self.load.reads() {
            let scenario = read::build(self.read(), seed.wrapping_add(1))?;
            scenarios.push(ScenarioConfig {
                kind: "ct-read".to_owned(),
                demands: settings::demands("ct-read"),
                ..ScenarioConfig::new("read", executor, scenario)
            });
        }
        Ok(scenarios)
    }

    /// Returns the options of readers for the same logs.
    fn read(&self) -> read::CtReadOptions {
        let readers = self.load.num_readers_random + self.load.num_readers_full;
        read::CtReadOptions {
            log: self.write.log.clone(),
            full_readers: Ratio(self.load.num_readers_full as f64 / readers as f64),
            ..read::CtReadOptions::default()
        }
    }
}

impl Load {
    fn writes(&self) -> Option<ExecutorConfig> {
        match (self.max_write_ops > 0.0, self.num_writers) {
            (false, 0) => None,
            (false, users) => Some(ExecutorConfig::ConstantVus {
                vus: users,
                duration: self.duration(),
                iterations: None,
            }),
            (true, users) => Some(ExecutorConfig::ConstantArrivalRate {
                rate: Rate::per_second(self.max_write_ops),
                duration: self.duration(),
                options: self.arrival_rate(users),
            }),
        }
    }

    fn reads(&self) -> Option<ExecutorConfig> {
        let readers = self.num_readers_random + self.num_readers_full;
        (readers > 0 && self.max_read_ops > 0.0).then(|| ExecutorConfig::ConstantArrivalRate {
            rate: Rate::per_second(self.max_read_ops),
            duration: self.duration(),
            options: self.arrival_rate(readers),
        })
    }

    fn arrival_rate(&self, users: u64) -> ArrivalRateOptions {
        let default = ArrivalRateOptions::default();
        ArrivalRateOptions {
            max_vus: if users == 0 { default.max_vus } else { users },
            min_achieved: self.min_achieved.clamp(0.0, 1.0),
            ..default
        }
    }

    fn goal(&self) -> Option<u64> {
        (self.leaf_write_goal > 0).then_some(self.leaf_write_goal)
    }

    fn duration(&self) -> Duration {
        match self.max_runtime {
            Duration::ZERO => ENDLESS,
            time => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches, Parser};
    use lucarne_scenarios::option_values::TimeSpan;

    use super::*;
    use crate::examples::with_underscores;

    #[derive(Parser)]
    struct Hammer {
        #[command(flatten)]
        options: Options,
    }

    fn parse(line: &str) -> Options {
        let line = std::iter::once("ct").chain(line.split_whitespace());
        let matches = with_underscores(Hammer::command()).try_get_matches_from(line);
        let hammer = matches.and_then(|matches| Hammer::from_arg_matches(&matches));
        hammer.unwrap_or_else(|error| panic!("{error}")).options
    }

    #[test]
    fn the_hammers_own_command_line() {
        let options = parse(
            "--log_url=http://localhost:6962/test --write_log_url=http://localhost:6963/test \
             --origin=ct.example/test --log_public_key=MFkw --max_write_ops=42 --num_writers=512 \
             --max_read_ops=50 --num_readers_random=3 --num_readers_full=1 --dup_chance=0.2 \
             --leaf_write_goal=2520 --max_runtime=1h --show_ui=false --serial_offset=7 \
             --bearer_token=reading --bearer_token_write=writing --http_timeout=7s --force_http2 \
             --mmd_duration=20s --num_mmd_verifiers=4 --slog_level=-4 \
             --intermediate_ca_cert_path=ca.pem --intermediate_ca_key_path=ca.key \
             --cert_sign_private_key_path=leaf.key",
        )
        .in_effect();
        let write = &options.write;
        let token = write.submissions.bearer_token_write.as_deref();
        assert_eq!(token, Some("writing"));
        let read = options.read().log;
        assert_eq!(read.bearer_token.as_deref(), Some("reading"));
        assert_eq!(
            (write.log.timeout, write.mmd),
            (TimeSpan::seconds(7), TimeSpan::seconds(20))
        );
        assert_eq!(
            (write.log.http.version, read.http.version),
            (HttpVersion::V2, HttpVersion::V2)
        );
        assert_eq!(write.intermediate_ca_key_path, Some("ca.key".into()));
        assert_eq!(options.load.goal(), Some(2520));
        let submissions = &write.submissions.write_log_url;
        assert_eq!(*submissions, ["http://localhost:6963/test"]);
        assert_eq!(options.write.serial_offset, 7);
        assert_eq!(options.read().full_readers, Ratio(0.25));
        assert!(!options.load.show_ui);
        let hour = Duration::from_secs(3600);
        let expected = |rate, users| ExecutorConfig::ConstantArrivalRate {
            rate: Rate::per_second(rate),
            duration: hour,
            options: ArrivalRateOptions {
                max_vus: users,
                ..ArrivalRateOptions::default()
            },
        };
        assert_eq!(options.load.writes(), Some(expected(42.0, 512)));
        assert_eq!(options.load.reads(), Some(expected(50.0, 4)));
    }

    #[test]
    fn nothing_is_written_unless_asked_for() {
        let options = parse("--log-url http://localhost:6962/test --max-runtime 5s");
        assert_eq!(options.load.writes(), None);
        assert!(options.load.reads().is_some());
        assert_eq!(parse("--max-read-ops 0").load.reads(), None);
    }
}

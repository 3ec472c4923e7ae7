//! Options of logs, which both CT scenarios share.

use clap::Args;
use lucarne_load::http::ClientOptions;
use lucarne_settings::typed;
use serde::Deserialize;

use crate::connection_options::HttpOptions;
use crate::option_values::TimeSpan;

/// The logs of a scenario, and how to monitor them.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LogOptions {
    /// URL of a log; several logs take turns. Origin, key and window come from its log.v3.json
    /// unless they are given
    #[arg(long, value_name = "URL")]
    #[serde(deserialize_with = "typed::list")]
    pub log_url: Vec<String>,
    /// Origin of the log (in the order of the logs)
    #[arg(long, value_name = "NAME", env = "CT_LOG_ORIGIN")]
    #[serde(deserialize_with = "typed::list")]
    pub origin: Vec<String>,
    /// Public key of the log: base64 of its DER, or a PEM file (in the order of the logs)
    #[arg(long, value_name = "KEY|FILE", env = "CT_LOG_PUBLIC_KEY")]
    #[serde(deserialize_with = "typed::list")]
    pub log_public_key: Vec<String>,
    /// Age at which a checkpoint is stale
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(60))]
    pub max_checkpoint_age: TimeSpan,
    /// Time between two reads of the checkpoint during the load
    #[arg(
        long = "checkpoint-interval",
        value_name = "TIME",
        default_value_t = TimeSpan::milliseconds(500)
    )]
    #[serde(rename = "checkpointInterval")]
    pub poll_interval: TimeSpan,
    /// Allowed difference between the clocks of log and load test
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(5))]
    pub clock_tolerance: TimeSpan,
    /// The log may be restarted during the run: wait for it, and report its absences
    #[arg(long)]
    pub expect_restarts: bool,
    /// Token that requests carry: Authorization: Bearer TOKEN
    #[arg(long, value_name = "TOKEN")]
    pub bearer_token: Option<String>,
    /// Version of HTTP, and trust in the logs.
    #[command(flatten)]
    #[serde(rename = "..http")]
    pub http: HttpOptions,
    /// Time limit of a request
    #[arg(
        long,
        alias = "http-timeout",
        value_name = "TIME",
        default_value_t = TimeSpan::seconds(30)
    )]
    pub timeout: TimeSpan,
}

/// Differences of submissions from reads.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SubmissionOptions {
    /// URL for submissions, if different from the log's (in the order of the logs)
    #[arg(long, value_name = "URL")]
    #[serde(deserialize_with = "typed::list")]
    pub write_log_url: Vec<String>,
    /// Token that submissions carry, if different
    #[arg(long, value_name = "TOKEN")]
    pub bearer_token_write: Option<String>,
}

impl LogOptions {
    /// Returns the client options for reading.
    pub(super) fn client(&self) -> ClientOptions {
        ClientOptions {
            timeout: self.timeout.0,
            bearer_token: self.bearer_token.clone().filter(|token| !token.is_empty()),
            ..self.http.client()
        }
    }

    /// Returns the client options for submissions.
    pub(super) fn writer(&self, submissions: &SubmissionOptions) -> ClientOptions {
        let reading = self.client();
        let token = submissions.bearer_token_write.clone();
        ClientOptions {
            bearer_token: token
                .filter(|token| !token.is_empty())
                .or(reading.bearer_token),
            ..reading
        }
    }
}

/// Level of the checks of the log during the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditLevel {
    /// Checks of the responses only
    None,
    /// Checkpoints and hash tiles: consistency, and inclusion of every entry with an SCT
    Inclusion,
    /// Also data tiles and issuers
    #[default]
    Full,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use lucarne_settings::values::show_duration;
    use lucarne_settings::{Report, tree};
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::ct::{read, write};
    use crate::option_values::{HttpVersion, Ratio};
    use crate::registry;

    #[derive(Parser)]
    struct Flags<O: Args> {
        #[command(flatten)]
        options: O,
    }

    fn flags<O: Args>(line: &str) -> Result<O, clap::Error> {
        let line = std::iter::once("load").chain(line.split_whitespace());
        Flags::try_parse_from(line).map(|flags| flags.options)
    }

    fn plan<O: Args + DeserializeOwned>(yaml: &str) -> O {
        let mut report = Report::on(None);
        let options = registry::read(&tree::parse(yaml).unwrap(), "", &[], &mut report);
        options.unwrap_or_else(|| panic!("{:?}", report.problem_lines()))
    }

    /// Options without a value have the same defaults on the command line and in a plan.
    #[test]
    fn one_set_of_defaults() {
        let written: write::CtWriteOptions = flags("").unwrap();
        assert_eq!(written, write::CtWriteOptions::default());
        assert_eq!(written, plan(""));
        let read: read::CtReadOptions = flags("").unwrap();
        assert_eq!(read, read::CtReadOptions::default());
        assert_eq!(read, plan(""));
    }

    #[test]
    fn flags_and_keys_say_the_same() {
        let written: write::CtWriteOptions = flags(
            "--log-url http://a/ --log-url=http://b/ --log-public-key AAEC --dup-chance=0.25 \
             --issuers p384 --http 2 --mmd 1m30s --not-after-limit 2027-01-01 --expect-restarts \
             --checkpoint-interval 2s --audit=none",
        )
        .unwrap();
        let keys = "logUrl: [http://a/, http://b/]\nlogPublicKey: AAEC\nduplicates: 0.25\n\
                    issuers: p384\nhttp: 2\nmmd: 90s\nnotAfterLimit: 2027-01-01T00:00:00Z\n\
                    expectRestarts: true\ncheckpointInterval: 2s\naudit: none\n";
        assert_eq!(written, plan(keys));
        assert_eq!(show_duration(written.mmd.0), "1m30s");
        assert_eq!(written.log.poll_interval, TimeSpan::seconds(2));

        let read: read::CtReadOptions =
            flags("--reads entries:3,issuers --compression=zstd --cache").unwrap();
        let keys = "reads: [entries:3, issuers:1]\ncompression: zstd\ncache: true\n";
        assert_eq!(read, plan(keys));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for flag in [
            "--precerts=1.5",
            "--mmd=10",
            "--issuers=dsa",
            "--not-after-start=soon",
        ] {
            assert!(flags::<write::CtWriteOptions>(flag).is_err(), "{flag}");
        }
        for flag in ["--reads=leaves:1", "--reads=tiles:x", "--full-readers=-1"] {
            assert!(flags::<read::CtReadOptions>(flag).is_err(), "{flag}");
        }
    }

    /// A plan is YAML: values that look like numbers are accepted, too.
    #[test]
    fn numbers_of_a_plan() {
        let keys = "http: 2\nduplicates: 0.25\nprecerts: 1\nahead: 100\nlogUrl: http://a\n";
        let options: write::CtWriteOptions = plan(keys);
        let http = options.log.http.version;
        assert_eq!((http, options.ahead), (HttpVersion::V2, 100));
        assert_eq!(
            (options.duplicates, options.precerts),
            (Ratio(0.25), Ratio(1.0))
        );
        assert_eq!(options.log.log_url, ["http://a"]);
        let options: write::CtWriteOptions = plan("http: 1.1\n");
        assert_eq!(options.log.http.version, HttpVersion::V1);
    }
}

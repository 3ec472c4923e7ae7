//! Flags of TesseraCT's servers (POSIX, AWS, GCP) that have no meaning in Lucarne.
//!
//! Lucarne accepts these flags, so that a unit file works unchanged. For each flag, Lucarne logs a
//! warning with the reason.

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};

use super::clouds::Cloud;

/// An ignored flag.
#[derive(Debug)]
pub(super) struct Foreign {
    /// Name in TesseraCT.
    name: &'static str,
    /// Whether the value is optional.
    switch: bool,
    /// Reason why the flag has no effect; follows "ignored: ".
    pub(super) why: &'static str,
}

impl Foreign {
    /// Returns the name with dashes.
    pub(super) fn dashed(&self) -> String {
        self.name.replace('_', "-")
    }
}

const fn valued(name: &'static str, why: &'static str) -> Foreign {
    Foreign {
        name,
        switch: false,
        why,
    }
}

const fn switch(name: &'static str, why: &'static str) -> Foreign {
    Foreign {
        name,
        switch: true,
        why,
    }
}

const ANTISPAM: &str = "TesseraCT's index of duplicates; Lucarne's needs no tuning";
const CLIENT: &str = "TesseraCT's HTTP client, for its witnesses";
const CONNECTIONS: &str = "connections are opened on demand";
const LINES: &str = "log lines go to standard error";
const PUBLIC: &str = "the public key follows from the private one";
const SPANNER: &str = "the lock is not in Spanner: --checkpoints names its place";
const ROUNDS: &str = "rounds adapt to the load; `--checkpoint-interval` is the minimum time \
                      between them";
const WITNESS: &str = "witnesses are configured with `witnesses:` in a configuration file";
const TRACES: &str = "traces are exported only with `otlp:` in a configuration file, by a build \
                      with the feature `otlp`";

/// All ignored flags.
const FOREIGN: &[Foreign] = &[
    valued(
        "additional_signer",
        "checkpoints only have the signature of the log",
    ),
    valued(
        "additional_signer_private_key_secret_name",
        "checkpoints only have the signature of the log",
    ),
    valued("antispam_db_name", ANTISPAM),
    valued("antispam_base_table_size", ANTISPAM),
    valued("antispam_batch_size", ANTISPAM),
    valued("antispam_block_cache_size", ANTISPAM),
    valued("antispam_compaction_interval", ANTISPAM),
    valued("antispam_index_cache_size", ANTISPAM),
    valued("antispam_mem_table_size", ANTISPAM),
    valued("antispam_num_compactors", ANTISPAM),
    valued(
        "awaiter_poll_interval",
        "nothing is polled: a completed round notifies its submissions",
    ),
    valued("batch_max_age", ROUNDS),
    valued("batch_max_size", ROUNDS),
    valued("client_http_max_idle", CLIENT),
    valued("client_http_max_idle_per_host", CLIENT),
    valued("client_http_timeout", CLIENT),
    valued("container_name", LINES),
    valued("db_max_conns", CONNECTIONS),
    valued("db_max_idle_conns", CONNECTIONS),
    valued(
        "drop_metrics",
        "metrics are at /metrics, and the collector selects them",
    ),
    valued(
        "garbage_collection_interval",
        "superseded partial tiles are removed once their full tile is durable",
    ),
    valued("gcs_connections", CONNECTIONS),
    valued(
        "http_deadline",
        "headers, bodies and responses have separate limits, in the configuration file (`http:`)",
    ),
    valued("image_name", LINES),
    valued("inmemory_antispam_cache_size", ANTISPAM),
    switch(
        "mask_internal_errors",
        "responses never contain internal errors: their reasons are in the log lines",
    ),
    valued("otel_project_id", TRACES),
    valued("pushback_max_antispam_lag", ANTISPAM),
    valued(
        "rate_limit_dedup",
        "duplicates have no rate limit: they get the SCT of the logged entry without a place in \
         the pool",
    ),
    valued(
        "rate_limit_old_not_before",
        "old certificates have a separate lane; only a configuration file can limit its rate \
         (`backlog:`)",
    ),
    switch(
        "s3_use_path_style",
        "for a custom endpoint the bucket is in the path, unless its URL has style=virtual",
    ),
    valued("signer_public_key_file", PUBLIC),
    valued("signer_public_key_secret_name", PUBLIC),
    switch("slog_to_cloud_api", LINES),
    switch("slog_to_stdout", LINES),
    valued("spanner_antispam_db_path", ANTISPAM),
    valued("spanner_connections", CONNECTIONS),
    valued("spanner_db_path", SPANNER),
    valued("trace_fraction", TRACES),
    valued("witness_policy_file", WITNESS),
    valued("witness_timeout", WITNESS),
];

/// Ignored flags that are given.
#[derive(Clone, Debug, Default)]
pub struct Ignored(Vec<&'static Foreign>);

impl Ignored {
    pub(super) fn iter(&self) -> impl Iterator<Item = &'static Foreign> {
        self.0.iter().copied()
    }

    /// Returns the TesseraCT server that the flags belong to; `None` if no flag shows which server
    /// it is.
    pub(super) fn cloud(&self) -> Option<Cloud> {
        self.iter().find_map(|flag| match flag.name {
            "s3_use_path_style" => Some(Cloud::Aws),
            "spanner_db_path" => Some(Cloud::Gcp),
            _ => None,
        })
    }
}

impl clap::Args for Ignored {
    fn augment_args(command: Command) -> Command {
        let add = |command: Command, flag: &'static Foreign| {
            let arg = Arg::new(flag.name)
                .long(flag.dashed())
                .requires("origin")
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
                .hide(true);
            command.arg(if flag.switch {
                arg.num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true")
            } else {
                arg.num_args(1)
            })
        };
        FOREIGN.iter().fold(command, add)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Ignored {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given =
            |flag: &&Foreign| matches.value_source(flag.name) == Some(ValueSource::CommandLine);
        Ok(Ignored(FOREIGN.iter().filter(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

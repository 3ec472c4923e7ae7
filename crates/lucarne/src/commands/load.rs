//! `lucarne load`: load tests from plans and from flags.

mod agents;
mod arrivals;
mod check;
mod command;
mod execute;
mod exit_code;
mod find;
mod from_access_log;
mod from_har;
mod hammer;
mod judge;
mod live_metrics;
mod merge;
mod output;
mod plan;
mod recorded;
mod search;
mod settings;
mod single;

use std::process::ExitCode;
use std::time::Duration;

use lucarne_scenarios::{acme, ct, proxy, rest, s3, tls};

use arrivals::Usual;
use single::Single;

/// Exit codes, for help texts.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 all thresholds passed; 99 a threshold was \
                                     crossed or had no samples, or the offered load was below the \
                                     plan; 104 wrong plan or options; 105 interrupted; 110 the \
                                     target never responded; 111 a report could not be written; 2 \
                                     wrong usage.";

/// Exit codes of the commands that write plans.
const RECORDED: &str = "Exit codes: 0 the plan was written; 104 wrong file; 111 the plan could not \
                        be written; 2 wrong usage.";

/// Subcommands of `lucarne load`.
#[derive(Debug, clap::Subcommand)]
pub enum Load {
    /// Run a plan: scenarios, stages and thresholds from a YAML file
    #[command(after_help = EXIT_CODES)]
    Run(Box<plan::Options>),

    /// Run a plan in 20 seconds, to test the plan itself
    #[command(
        after_help = EXIT_CODES,
        long_about = "Run a plan in 20 seconds: does everything work together?\n\nStarts, \
                      durations and stages are shortened in proportion, thresholds on counts with \
                      them. Rates stay, unless a scenario would have less than ten iterations: \
                      then the command reports the raised rate."
    )]
    Quick(Box<plan::Options>),

    /// Find the highest rate that meets an objective
    #[command(
        after_help = "Exit codes: 0 the rate was found; 99 no rate met the objective, or the load \
                      generator was the limit; 104 wrong plan or options; 105 interrupted; 110 the \
                      target never responded; 111 the output could not be written; 2 wrong usage.",
        long_about = "Find the highest rate that meets an objective, to 5 %\n\nDoubles the rate \
                      from --from until a step misses the objective or a threshold of the plan, \
                      then bisects. Each rate is offered twice, and a third time if the results \
                      differ."
    )]
    Find(Box<find::Options>),

    /// Write a plan that repeats a recorded browser session
    #[command(after_help = RECORDED)]
    FromHar(from_har::Options),

    /// Write a plan with the requests of an access log, by frequency
    #[command(after_help = RECORDED)]
    FromAccessLog(from_access_log::Options),

    /// Check a plan and print all problems
    #[command(after_help = "Exit codes: 0 the plan can be run; 104 the plan cannot be run.")]
    Check(check::Options),

    /// Run a plan with several agents, which divide the load, and write the reports of one run
    #[command(after_help = EXIT_CODES)]
    Lead(Box<agents::lead::Options>),

    /// Offer a part of the load of a leader
    #[command(
        after_help = "Exit codes: 0 the leader has the result of this part; 104 wrong options, or \
                      the leader refused this agent; 105 the leader was lost, or ended the run; 111 \
                      the summary could not be written; 2 wrong usage."
    )]
    Agent(Box<agents::agent::Options>),

    /// Merge the summaries of several processes or machines
    #[command(after_help = EXIT_CODES)]
    Merge(merge::Options),

    /// Submit certificates to CT logs, and verify the promises of the SCTs
    #[command(after_help = EXIT_CODES)]
    CtWrite(Box<Single<ct::write::CtWriteOptions>>),

    /// Read CT logs, and verify their contents
    #[command(after_help = EXIT_CODES)]
    CtRead(Box<Single<ct::read::CtReadOptions>>),

    /// Write to and read from CT logs concurrently, with the flags of the CT hammer
    #[command(after_help = EXIT_CODES)]
    Ct(Box<hammer::Options>),

    /// Send requests to an HTTP API, and check the responses
    #[command(after_help = EXIT_CODES)]
    Rest(Box<Single<rest::RestOptions>>),

    /// Perform TLS handshakes, and check the certificates of the server
    #[command(after_help = EXIT_CODES)]
    Tls(Box<Single<tls::TlsScenarioOptions>>),

    /// Write, read and delete objects in S3 stores
    #[command(after_help = EXIT_CODES)]
    S3(Box<Single<s3::S3Options>>),

    /// Send requests through an intercepting proxy, and check the certificates that it mints
    #[command(after_help = EXIT_CODES)]
    Proxy(Box<Single<proxy::ProxyScenarioOptions>>),

    /// Probe ACME servers, or obtain certificates and check them
    #[command(after_help = EXIT_CODES)]
    Acme(Box<Single<acme::AcmeOptions>>),
}

pub(crate) fn run(load: &Load) -> ExitCode {
    match load {
        Load::Run(options) => plan::run(options),
        Load::Quick(options) => plan::quick(options),
        Load::Find(options) => find::run(options),
        Load::FromHar(options) => from_har::run(options),
        Load::FromAccessLog(options) => from_access_log::run(options),
        Load::Check(options) => check::run(&options.plan),
        Load::Lead(options) => agents::lead::run(options),
        Load::Agent(options) => agents::agent::run(options),
        Load::Merge(options) => merge::run(options),
        Load::CtWrite(single) => single.run("ct-write", Usual::default(), ct::write::build),
        Load::CtRead(single) => single.run("ct-read", Usual::default(), ct::read::build),
        Load::Ct(options) => hammer::run(options),
        Load::Rest(single) => single.run("rest", Usual::default(), rest::build),
        Load::Tls(single) => single.run("tls", Usual::default(), tls::build),
        Load::S3(single) => single.run("s3", all_cells(&single.options), s3::build),
        Load::Proxy(single) => single.run("proxy", Usual::default(), proxy::build),
        Load::Acme(single) => single.run("acme", Usual::default(), acme::build),
    }
}

/// Returns the users and the time that all combinations of the matrix need, one after the other.
fn all_cells(options: &s3::S3Options) -> Usual {
    if options.mixed {
        return Usual::default();
    }
    let users = options.concurrency.iter().max().copied().unwrap_or(1);
    let combinations = options.endpoint.len().max(1)
        * options.operations.len()
        * options.sizes.len()
        * options.concurrency.len();
    let cells = options.cell_duration.0 * combinations as u32;
    Usual {
        users: u64::from(users),
        // A margin of 20% and 2 s, for the last requests.
        duration: cells.mul_f64(1.2) + Duration::from_secs(2),
    }
}

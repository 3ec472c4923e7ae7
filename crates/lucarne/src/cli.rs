//! Definition of the command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands::adopt::options::{ADOPT_CODES, Adopt};
use crate::commands::archive::Options as Archive;
use crate::commands::ca::Ca;
use crate::commands::check::Options as Check;
use crate::commands::config::Task as Config;
use crate::commands::config_file::File;
use crate::commands::demo::Options as Demo;
use crate::commands::fsck::options::{Fsck, Repair};
use crate::commands::generate::Generate;
use crate::commands::give_back::options::GiveBack;
use crate::commands::journal::Journal;
use crate::commands::lint::Options as Lint;
use crate::commands::load::Load;
use crate::commands::lock::options::Lock;
use crate::commands::looking::LOOKING_CODES;
use crate::commands::proxy::Options as Proxy;
use crate::commands::serve::options::Serve;
use crate::commands::signer::options::Signer;
use crate::commands::watch::Options as Watch;
use crate::logging::Format;
use crate::version::LONG;

/// A Certificate Transparency log, and load tests.
#[derive(Debug, Parser)]
#[command(
    name = "lucarne",
    version,
    long_version = LONG,
    about = "A Certificate Transparency log for the static CT API, and load tests for any log",
    after_help = "Exit codes: 0 done, or stopped on request; 1 error (details on standard error); \
                  2 wrong usage; 130 stopped at once by a second signal.\n\n\
                  Start here: `lucarne demo`. Every key of the configuration file is in \
                  docs/reference/configuration.md."
)]
pub struct Cli {
    /// Selected command.
    #[command(subcommand)]
    pub command: Command,

    /// Format of log lines
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "text",
        help_heading = "Logging"
    )]
    pub log_format: Format,

    /// Log level (error, warn, info, debug, trace), or target=level,… [default: info; for demo,
    /// warn]
    #[arg(
        long = "log",
        global = true,
        value_name = "FILTER",
        env = "LUCARNE_LOG",
        help_heading = "Logging"
    )]
    pub log_filter: Option<String>,
}

/// Commands of `lucarne`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one or more logs: submission and monitoring in one process
    ///
    /// SIGTERM and SIGINT stop accepting submissions, finish the round, respond to waiting clients,
    /// and exit with 0; a second signal exits at once. SIGHUP rereads the configuration file, roots
    /// and TLS files: logs are added and removed, and the other logs continue.
    Serve(Box<Serve>),

    /// Run a witness: cosign the checkpoints of other logs if they are append-only
    ///
    /// Runs the server of `serve`, with the same signals, for a configuration with `witness` and
    /// without logs. `serve` runs a witness beside logs.
    Witness(File),

    /// Run a mirror: copy other logs, and cosign their checkpoints when all entries are stored
    ///
    /// Runs the server of `serve`, with the same signals, for a configuration with `mirror` and
    /// without logs. `serve` runs a mirror beside logs.
    Mirror(File),

    /// Check the configuration and all files that it names
    ///
    /// Performs every step of `serve` up to the start itself. Prints all problems in one run, with
    /// warnings of future problems.
    Check(Check),

    /// Show the settings of a configuration, or describe its keys for editors
    #[command(subcommand)]
    Config(Config),

    /// Create the lock database, directories and logs of a configuration
    ///
    /// Leaves existing files and logs unchanged, and prints each result. Needed once for every log,
    /// unless the log's `inception` is the day of its first start.
    Init(File),

    /// Take over a log from Sunlight or TesseraCT
    ///
    /// Checks everything first and writes nothing if a check fails: the directory must be writable;
    /// the checkpoint must be signed by this key; lock, staged rounds and storage must agree; every
    /// file must lead to the signed root; no other process may sign. Then creates the index, and
    /// the lock if it is missing.
    ///
    /// Run with --follow first, while the old software still runs: the takeover itself then takes
    /// seconds.
    #[command(after_help = ADOPT_CODES)]
    Adopt(Box<Adopt>),

    /// Prepare a stopped log for Sunlight or TesseraCT
    ///
    /// Refuses a log with signed entries that are not yet published, and a log with a wrong file.
    /// Sunlight needs no changes. For TesseraCT, data tiles are decompressed and `.state/treeState`
    /// is updated.
    GiveBack(Box<GiveBack>),

    /// Check every file of a log against its signed tree
    ///
    /// Reads all tiles and issuers of a log of the configuration, or of any static CT log in a
    /// directory, a bucket or at a URL (`--at`). Writes nothing there, and may run while the log
    /// runs. The exit code is 0 if all files are correct, 1 if a file is wrong or the configuration
    /// is invalid, and 2 if the result is unknown because a file could not be read or the check did
    /// not finish.
    Fsck(Box<Fsck>),

    /// Repair wrong files of a log
    ///
    /// Checks a log as `fsck` does. Rebuilds a wrong file from the tiles below it, or copies it
    /// from another place that holds the same log (`--from`), and only if the result leads to the
    /// signed root. Keeps the wrong file in `.lucarne/damaged`. May run while the server runs.
    Repair(Box<Repair>),

    /// Write a whole log to zip files that verify themselves, or check them
    ///
    /// The format is that of geomys.org/ct-archive: a zip file for each 16,777,216 entries, with
    /// all issuers, and the checkpoint last. Every file is verified, and read back. After an
    /// interruption, the same command continues. `fsck --at` reads the archive like any log.
    #[command(after_help = LOOKING_CODES)]
    Archive(Box<Archive>),

    /// Show or rebuild the lock: the last signed checkpoint of each log
    #[command(subcommand)]
    Lock(Lock),

    /// Show the journal: the rounds that are durable
    #[command(subcommand)]
    Journal(Journal),

    /// Generate the key of a log or of a witness
    ///
    /// Writes 32 random bytes to a file of mode 0600, and prints the log ID and the public key, or
    /// the verifier keys of a witness. Never changes an existing file, but prints its keys. The key
    /// derivation is Sunlight's.
    Keygen(Keygen),

    /// Hold the keys of logs in a separate process that never signs a fork
    ///
    /// Listens on a Unix socket for logs whose configuration names it (`signer:`). Remembers the
    /// last signed checkpoint, signs only checkpoints that are proven to extend it, and signs SCTs
    /// only for entries that are proven to be in it. Needs no network; run it as a user of its own.
    /// SIGTERM ends the signer at once: every signature that was sent is already remembered.
    Signer(Signer),

    /// Run a complete log in one command: keys, a CA, configuration, submissions
    Demo(Demo),

    /// Run load tests of CT logs and S3 stores, from a plan or from flags
    #[command(subcommand)]
    Load(Load),

    /// Run a forward proxy that intercepts TLS and records server certificates
    ///
    /// Creates its CA at the first start, and prints how clients can trust it. SIGHUP rereads CA
    /// and users. SIGTERM and SIGINT finish open requests and exit with 0; a second signal exits at
    /// once.
    Proxy(Box<Proxy>),

    /// Find faults in the SCTs of certificates before browsers do
    ///
    /// Verifies embedded SCTs with the keys of a log list, and reports the likely cause if an SCT
    /// does not verify. Evaluates the SCTs by the policies of Chrome and Apple at a date. Compares
    /// a certificate with its precertificate, if both are given. An SCT that cannot be verified is
    /// never reported as good.
    #[command(after_help = crate::commands::lint::EXIT_CODES)]
    Lint(Lint),

    /// Follow a log: verify its checkpoints and print its growth
    #[command(after_help = crate::commands::watch::EXIT_CODES)]
    Watch(Box<Watch>),

    /// Create or show the authorities that issue certificates for load tests
    #[command(subcommand)]
    Ca(Ca),

    /// Generate manual pages and shell completions
    #[command(subcommand)]
    Generate(Generate),
}

/// Options of `lucarne keygen`.
#[derive(Debug, clap::Args)]
pub struct Keygen {
    /// Seed file to create
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,

    /// Name of the witness whose keys are derived from the seed
    #[arg(long, value_name = "NAME")]
    pub witness: Option<String>,

    /// Print the verifier key of the log's second signature (ML-DSA-44), too
    ///
    /// The origin of a log is its submission prefix without scheme and trailing slash:
    /// ct.example/2026h2.
    #[arg(long, value_name = "ORIGIN", conflicts_with_all = ["witness", "mirror"])]
    pub origin: Option<String>,

    /// Name of the mirror whose key is derived from the seed
    #[arg(long, value_name = "NAME", conflicts_with = "witness")]
    pub mirror: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::{Cli, Command};
    use crate::examples::command_line;

    #[test]
    fn the_command_line_is_sound() {
        command_line().debug_assert();
    }

    #[test]
    fn testcert_is_a_switch_or_has_a_directory() {
        for (flags, wanted) in [
            (&[][..], None),
            (&["--testcert"], Some(None)),
            (&["--testcert=true"], Some(None)),
            (&["--testcert=false"], None),
            (&["--testcert=./false"], Some(Some(Path::new("./false")))),
            (&["--testcert", "certs"], Some(Some(Path::new("certs")))),
        ] {
            let args = ["lucarne", "serve"].iter().chain(flags);
            let Command::Serve(serve) = Cli::parse_from(args).command else {
                panic!("{flags:?}");
            };
            assert_eq!(serve.testcert(), wanted, "{flags:?}");
        }
    }
}

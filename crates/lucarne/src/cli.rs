//! Definition of the command line.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use jiff::civil::Date;

use crate::commands::ca::Ca;
use crate::commands::check::Options as Check;
use crate::commands::config::Task as Config;
use crate::commands::demo::Options as Demo;
use crate::commands::lint::Options as Lint;
use crate::commands::load::Load;
use crate::commands::proxy::Options as Proxy;
use crate::commands::watch::Options as Watch;
use crate::config::Flags;
use crate::logging::Format;
use crate::version::LONG;

/// A Certificate Transparency log, and load tests.
#[derive(Debug, Parser)]
#[command(
    name = "lucarne",
    version,
    long_version = LONG,
    about = "A Certificate Transparency log for the static CT API, and load tests for any",
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
    /// runs. The exit code is 0 if all files are correct, 1 if a file is wrong, and 2 if the result
    /// is unknown because a file could not be read or the check did not finish.
    Fsck(Box<Fsck>),

    /// Repair wrong files of a log
    ///
    /// Checks a log as `fsck` does. Rebuilds a wrong file from the tiles below it, or copies it
    /// from another place that holds the same log (`--from`), and only if the result leads to the
    /// signed root. Keeps the wrong file in `.lucarne/damaged`. May run while the server runs.
    Repair(Box<Repair>),

    /// Show or rebuild the lock: the last signed checkpoint of each log
    #[command(subcommand)]
    Lock(Lock),

    /// Show the journal: the rounds that are durable
    #[command(subcommand)]
    Journal(Journal),

    /// Generate the key of a log
    ///
    /// Writes 32 random bytes to a file of mode 0600, and prints the log ID and the public key.
    /// Never changes an existing file, but prints its log ID and public key. The key derivation is
    /// Sunlight's.
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

/// Files that are generated from the definition of the command line.
#[derive(Debug, Subcommand)]
pub enum Generate {
    /// Write the manual pages to a directory: one for each command
    ///
    /// Creates the directory if it does not exist. Replaces existing pages.
    Man {
        /// Directory for the pages
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },

    /// Print the completion script of a shell
    Completions {
        /// Shell that runs the script
        #[arg(value_enum, value_name = "SHELL")]
        shell: Shell,
    },
}

/// Shells with a completion script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    /// The Bourne Again Shell
    Bash,
    /// The Z shell
    Zsh,
    /// The friendly interactive shell
    Fish,
}

/// Path of the configuration.
#[derive(Debug, clap::Args)]
pub struct File {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,
}

/// Options of `lucarne signer`.
#[derive(Debug, clap::Args)]
pub struct Signer {
    /// Configuration file of the signer
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "signer.yaml",
        global = true
    )]
    pub config: PathBuf,

    /// Task to perform instead of signing.
    #[command(subcommand)]
    pub task: Option<SignerTask>,
}

/// Tasks that require a stopped signer.
#[derive(Debug, Subcommand)]
pub enum SignerTask {
    /// Allow the key of a new log to sign: the key must never have signed anything
    ///
    /// The first checkpoint has no entries. For an existing log, use `adopt`: the signer refuses
    /// its checkpoints otherwise.
    FirstUse {
        /// Origin of the log
        #[arg(value_name = "ORIGIN")]
        origin: String,
    },

    /// Allow the key of an existing log to sign from its newest checkpoint onwards
    ///
    /// Needed once, when the key of a running log moves to a signer, and after the signer's memory
    /// is lost. The checkpoint must be the newest that was ever published: stop the log, and use
    /// the checkpoint of the lock from `lucarne lock show`, or the published one.
    Adopt {
        /// File with the checkpoint
        #[arg(value_name = "FILE")]
        checkpoint: PathBuf,
    },
}

/// Commands for the lock.
#[derive(Debug, Subcommand)]
pub enum Lock {
    /// Show the lock's checkpoint of each log, with the published one
    ///
    /// Compares both, and the rounds of the journal between them, exactly as `serve` does at
    /// startup. Only reads; may run while the server runs.
    #[command(after_help = LOOKING_CODES)]
    Show(Look),

    /// Rebuild a lost lock from the log's own data
    ///
    /// Writes the newest checkpoint of data and journal to a lock that has no checkpoint of this
    /// log. Creates a missing lock first.
    ///
    /// Safe only if the data are the newest that ever existed: not restored from a backup, and not
    /// a copy. Refuses if the tiles, the journal, the index in the cache or an outside checkpoint
    /// are newer. Never overwrites a checkpoint, except with --replace-older or --never-published.
    Rebuild(Box<Rebuild>),
}

/// Commands for the journal.
#[derive(Debug, Subcommand)]
pub enum Journal {
    /// List the rounds of the journal and the state of each
    ///
    /// Prints whether each round follows the one before, and its state: published, signed, staged,
    /// or passed over. Only reads; may run while the server runs.
    #[command(after_help = LOOKING_CODES)]
    List(Look),
}

/// Exit codes of the commands that inspect logs.
const LOOKING_CODES: &str = "Exit codes: 0 all is well; 1 something is wrong (details on standard \
                             error); 2 something could not be checked.";

/// Selection of logs to inspect.
#[derive(Debug, clap::Args)]
pub struct Look {
    /// Short name of the log [default: all]
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Exit codes of `lucarne adopt`.
const ADOPT_CODES: &str = "Exit codes: 0 done, or stopped while following; 1 refused, and nothing \
                           was written; 2 something could not be checked.";

/// Options of `lucarne adopt`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Adopt {
    /// Short name of the log; optional if there is only one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Check and index the log while the old software still runs, until a signal. Writes only to
    /// the log's `cache`
    #[arg(long, conflicts_with = "check")]
    pub follow: bool,

    /// Check only, and write nothing
    #[arg(long, alias = "dry-run")]
    pub check: bool,

    /// Number of entries that TesseraCT's database has sequenced. For a log in a bucket whose
    /// database is not queried: `SELECT next FROM SeqCoord WHERE id = 0`
    #[arg(long, value_name = "NUMBER")]
    pub sequenced: Option<u64>,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,

    /// Flags that replace a configuration file.
    #[command(flatten)]
    pub flags: Flags,
}

/// Software that takes over the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Software {
    /// Sunlight, with an SQLite lock and a directory.
    Sunlight,
    /// TesseraCT for POSIX.
    Tesseract,
}

/// Options of `lucarne give-back`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct GiveBack {
    /// Short name of the log; optional if there is only one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Software that takes over the log
    #[arg(long, value_enum)]
    pub to: Software,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,

    /// Flags that replace a configuration file.
    #[command(flatten)]
    pub flags: Flags,
}

/// Options of `lucarne lock rebuild`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Rebuild {
    /// Short name of the log; optional if there is only one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Also compare with the checkpoint in this file or at this URL, in addition to the log's
    /// `known_checkpoints`. May be repeated
    #[arg(long, value_name = "URL|FILE")]
    pub known: Vec<String>,

    /// Replace the lock's checkpoint if it is damaged, or older than the log. A checkpoint from
    /// outside (--known) must confirm the new checkpoint
    #[arg(long)]
    pub replace_older: bool,

    /// Continue although this place with a known checkpoint does not respond. May be repeated
    #[arg(long, value_name = "URL|FILE")]
    pub without: Vec<String>,

    /// Go back to the checkpoint before a round that the lock signed and that a failing disk lost
    /// before any of it was published. Refuses unless storage, journal, index and a place that
    /// follows the log prove this
    #[arg(long)]
    pub never_published: bool,

    /// Flags that replace a configuration file.
    #[command(flatten)]
    pub flags: Flags,
}

/// Options of `lucarne serve`: a configuration file, or flags.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Serve {
    /// Configuration file [default: lucarne.yaml]
    #[arg(short, long, alias = "c", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Serve TLS with test certificates for every requested host name, issued by a CA that
    /// is created in DIR [default: testcert in the first log's cache]
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    testcert: Option<Option<PathBuf>>,

    /// Confirm that the clock is right and that today (UTC) is this day: logs start even if their
    /// last signature is more than a day old
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub confirm_clock: Option<Date>,

    /// Flags that replace a configuration file.
    #[command(flatten)]
    pub flags: Flags,
}

/// Options of `lucarne fsck`.
#[derive(Debug, clap::Args)]
pub struct Fsck {
    /// Short name of the log; optional if there is only one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Log outside the configuration: its directory, its bucket (s3://bucket/prefix?region=…), or
    /// the URL of its monitoring prefix
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["name", "config"])]
    pub at: Option<String>,

    /// Origin of the log [default: from its log.v3.json]
    #[arg(long, value_name = "NAME", requires = "at")]
    pub origin: Option<String>,

    /// Public key of the log: base64 of its DER, or a PEM file [default: from its log.v3.json]
    #[arg(long, value_name = "KEY|FILE", requires = "at")]
    pub log_public_key: Option<String>,

    /// Number of data tiles to read and hash concurrently [default: two for each core]
    #[arg(long, value_name = "N")]
    pub at_once: Option<NonZeroUsize>,

    /// File that records the progress of the check. The next check continues from there
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,

    /// Verify precertificates and chains only in data tiles that are stored uncompressed. In the
    /// others, the checksum of gzip detects damage, but not forgery
    #[arg(long)]
    pub skip_signatures: bool,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// Options of `lucarne repair`.
#[derive(Debug, clap::Args)]
pub struct Repair {
    /// Options of the check.
    #[command(flatten)]
    pub fsck: Fsck,

    /// Another place that holds the same log: a directory, a bucket, or the URL of a monitoring
    /// prefix. The files are verified against the signed root. May be repeated
    #[arg(long, value_name = "PLACE")]
    pub from: Vec<String>,

    /// Additional accepted roots, in PEM. A chain from another place must end in one of these roots
    /// or in a root of the configuration. May be repeated
    #[arg(long, value_name = "FILE")]
    pub roots: Vec<PathBuf>,

    /// Write nothing; list the repairs
    #[arg(long, conflicts_with = "state")]
    pub dry_run: bool,
}

/// Options of `lucarne keygen`.
#[derive(Debug, clap::Args)]
pub struct Keygen {
    /// Seed file to create
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
}

impl Serve {
    /// Returns `Some` if test certificates are requested, with the directory if one is named.
    /// Sunlight's flag is a switch: `true` and `false` are not directories.
    pub fn testcert(&self) -> Option<Option<&Path>> {
        let directory = self.testcert.as_ref()?.as_deref();
        match directory.and_then(Path::to_str) {
            Some("false") => None,
            Some("true") => Some(None),
            _ => Some(directory),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::{CommandFactory, Parser};

    use super::{Cli, Command};

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
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

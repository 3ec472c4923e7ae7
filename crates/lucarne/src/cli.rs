//! The command line.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use jiff::civil::Date;

use crate::commands::ca::Ca;
use crate::commands::check::Options as Check;
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
    after_help = "Exit codes: 0 done, or stopped on request; 1 a problem, which was said; 2 wrong \
                  usage; 130 stopped at once by a second signal.\n\n\
                  Start here: `lucarne demo`. Every key of the configuration file is in \
                  docs/reference/configuration.md."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// How log lines look
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "text",
        help_heading = "Logging"
    )]
    pub log_format: Format,

    /// What to log: a level (error, warn, info, debug, trace), or target=level,…
    /// [default: info; for demo, warn]
    #[arg(
        long = "log",
        global = true,
        value_name = "FILTER",
        env = "LUCARNE_LOG",
        help_heading = "Logging"
    )]
    pub log_filter: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one or many logs: submission and monitoring in one process
    ///
    /// SIGTERM and SIGINT stop taking submissions, finish the round, answer
    /// those who wait, and exit 0; a second one exits at once. SIGHUP reads
    /// roots and TLS files again (changed TLS files are noticed anyway).
    Serve(Box<Serve>),

    /// Read the configuration and everything it names, and say what is wrong
    ///
    /// Does all of `serve` short of starting, and prints every problem at once, with warnings of
    /// future trouble.
    Check(Check),

    /// Make the lock database, the directories and the logs that a file names
    ///
    /// Does nothing to what exists, and says what it did. Needed once for
    /// every log, unless the log's `inception` is the day of its first start.
    Init(File),

    /// Take over a log that Sunlight or TesseraCT left
    ///
    /// Looks at everything first, and writes nothing unless all of it is right: the directory may be
    /// written, the checkpoint is this key's, lock, staged rounds and storage agree, every file leads
    /// to the signed root, nobody signs any more. Then it makes the index, and the lock where there was none.
    /// With --follow before that, while the old software runs, what is left to do takes seconds.
    #[command(after_help = ADOPT_CODES)]
    Adopt(Box<Adopt>),

    /// Make a stopped log ready for Sunlight or TesseraCT
    ///
    /// Refuses a log of which more is signed than published, and one with a file that is wrong.
    /// For Sunlight nothing has to be written; for TesseraCT data tiles are unpacked, and its
    /// `.state/treeState` is brought up to date.
    GiveBack(Box<GiveBack>),

    /// Check every file of a log against its signed tree
    ///
    /// Reads all tiles and issuers of a log of the configuration, or of any static CT log in a
    /// directory, a bucket or behind a URL (`--at`), also while it runs, and writes nothing there.
    /// Exit code 0 if all is right, 1 if something is wrong, 2 if that cannot be told: something was
    /// not to be read, or the check did not come to its end.
    Fsck(Box<Fsck>),

    /// Put wrong files of a log right
    ///
    /// Checks a log as `fsck` does. A file that is wrong is made anew from what lies beneath it, or
    /// taken from another place that holds the same log (`--from`), and only if it leads to the
    /// signed root then. The wrong one is kept in `.lucarne/damaged`. May be run beside the server.
    Repair(Box<Repair>),

    /// The lock, which holds the last signed checkpoint of each log
    #[command(subcommand)]
    Lock(Lock),

    /// The journal, which holds the rounds that are durable
    #[command(subcommand)]
    Journal(Journal),

    /// Make the key of a log
    ///
    /// Writes 32 random bytes, mode 0600, and prints Log ID and public key.
    /// A file that exists is never changed: its Log ID and key are printed.
    /// The key derivation is Sunlight's.
    Keygen(Keygen),

    /// The keys of logs in a process of its own, which signs no fork
    ///
    /// Listens on a Unix socket for logs whose configuration names it (`signer:`). It remembers what it
    /// signed last and signs only what is shown to grow from that, and SCTs only of entries that are
    /// shown to be in it. Needs no network, and a user of its own. SIGTERM ends it at once: what left is
    /// remembered.
    Signer(Signer),

    /// A complete log in one command: keys, a CA, configuration, submissions
    Demo(Demo),

    /// Load tests: CT logs and S3 stores, from a plan or from flags
    #[command(subcommand)]
    Load(Load),

    /// A forward proxy that looks into TLS, and observes servers' certificates
    ///
    /// Makes its CA at the first start and says how clients come to trust it.
    /// SIGHUP reads CA and users again; SIGTERM and SIGINT finish what is open
    /// and exit 0, a second one exits at once.
    Proxy(Box<Proxy>),

    /// Look for faults in the SCTs of certificates before browsers do
    ///
    /// Verifies embedded SCTs by the keys of a log list and says what was done to those that do not
    /// verify, judges them by the policies of Chrome and Apple at a date, and compares a certificate with its
    /// precertificate, where both are given. What cannot be verified is never called good.
    #[command(after_help = crate::commands::lint::EXIT_CODES)]
    Lint(Lint),

    /// Follow a log's checkpoint: verify it, and say how the log grows
    #[command(after_help = crate::commands::watch::EXIT_CODES)]
    Watch(Box<Watch>),

    /// The authorities that load tests issue from
    #[command(subcommand)]
    Ca(Ca),
}

/// Where the configuration is.
#[derive(Debug, clap::Args)]
pub struct File {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,
}

/// A signer.
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

    /// What to do, other than to sign.
    #[command(subcommand)]
    pub task: Option<SignerTask>,
}

/// What is done while a signer does not run.
#[derive(Debug, Subcommand)]
pub enum SignerTask {
    /// Let the key of a new log sign: it has never signed anything
    ///
    /// Its first checkpoint is of no entry. A log that exists is refused later: see `adopt`.
    FirstUse {
        /// Origin of the log
        #[arg(value_name = "ORIGIN")]
        origin: String,
    },

    /// Let the key of a log that exists sign what grows from its newest checkpoint
    ///
    /// Needed once, when the key of a log that runs is given to a signer, and where its memory is lost.
    /// The checkpoint must be the newest that anybody has seen: stop the log and take the lock's, from
    /// `lucarne lock show`, or the published one.
    Adopt {
        /// File with the checkpoint
        #[arg(value_name = "FILE")]
        checkpoint: PathBuf,
    },
}

/// The commands about the lock.
#[derive(Debug, Subcommand)]
pub enum Lock {
    /// Show what the lock holds of each log, beside what is published
    ///
    /// Compares both, and the rounds of the journal between them, with the code by which a start
    /// does. Reads only, and may be run beside the server.
    #[command(after_help = LOOKING_CODES)]
    Show(Look),

    /// Make the lock of a log that has lost it, from the log's own data
    ///
    /// Puts the newest checkpoint that data and journal lead to into a lock that has none of this
    /// log; makes the lock first where there is none. Right only if the data are the newest that
    /// ever were: not restored from a backup, and no copy. Refuses where the tiles, the journal or
    /// the index in the cache know more, or anybody outside does, and never overwrites a checkpoint.
    Rebuild(Box<Rebuild>),
}

/// The commands about the journal.
#[derive(Debug, Subcommand)]
pub enum Journal {
    /// List the rounds of the journal, and where each lies
    ///
    /// Says of each round whether it follows the one before, and what became of it: published,
    /// signed, staged, or passed over. Reads only, and may be run beside the server.
    #[command(after_help = LOOKING_CODES)]
    List(Look),
}

/// The exit codes of the commands that look at logs.
const LOOKING_CODES: &str = "Exit codes: 0 all is well; 1 something is wrong, which was said; \
                             2 something could not be looked at.";

/// The logs that are looked at.
#[derive(Debug, clap::Args)]
pub struct Look {
    /// Short name of the log [default: all]
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// For programs: one object of JSON
    #[arg(long)]
    pub json: bool,
}

/// The exit codes of taking over.
const ADOPT_CODES: &str = "Exit codes: 0 done, or stopped while following; 1 refused, and nothing \
                           was written; 2 something could not be looked at.";

/// The log that is taken over.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Adopt {
    /// Short name of the log; can be left out if there is one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Check and index the log while the old software still runs, until a signal stops it: only
    /// the log's `cache` is written
    #[arg(long, conflicts_with = "check")]
    pub follow: bool,

    /// Look only, and write nothing
    #[arg(long, alias = "dry-run")]
    pub check: bool,

    /// Entries that TesseraCT's database says it has given places to, of a log in a bucket whose
    /// database is not asked: `SELECT next FROM SeqCoord WHERE id = 0`
    #[arg(long, value_name = "NUMBER")]
    pub sequenced: Option<u64>,

    /// For programs: an object of JSON per line
    #[arg(long)]
    pub json: bool,

    /// Flags that make a configuration by themselves.
    #[command(flatten)]
    pub flags: Flags,
}

/// The software that a log is given back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Software {
    /// Sunlight, with an SQLite lock and a directory.
    Sunlight,
    /// TesseraCT for POSIX.
    Tesseract,
}

/// The log that is given back.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct GiveBack {
    /// Short name of the log; can be left out if there is one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// The software that goes on with it
    #[arg(long, value_enum)]
    pub to: Software,

    /// For programs: an object of JSON per line
    #[arg(long)]
    pub json: bool,

    /// Flags that make a configuration by themselves.
    #[command(flatten)]
    pub flags: Flags,
}

/// The log whose lock is to be made.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Rebuild {
    /// Short name of the log; can be left out if there is one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Hold it against the checkpoint that is known there, too, beside the log's
    /// `known_checkpoints`; may be repeated
    #[arg(long, value_name = "URL|FILE")]
    pub known: Vec<String>,

    /// Replace the checkpoint that the lock has, if it is an older one of this log, or damaged. A
    /// checkpoint that is known outside (--known) must confirm what is put in its place
    #[arg(long)]
    pub replace_older: bool,

    /// Go on though that place, one of those, does not answer; may be repeated
    #[arg(long, value_name = "URL|FILE")]
    pub without: Vec<String>,

    /// Go back from a round that the lock has signed and that a failing disk has lost before any
    /// of it was published. Refuses unless storage, journal and index show that, and a place
    /// that follows the log
    #[arg(long)]
    pub never_published: bool,

    /// Flags that make a configuration by themselves.
    #[command(flatten)]
    pub flags: Flags,
}

/// A configuration file, or flags.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Serve {
    /// Configuration file [default: lucarne.yaml]
    #[arg(short, long, alias = "c", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// For tests: TLS with certificates for whatever host clients ask for, by a CA made in DIR
    /// [default: testcert in the first log's cache]
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    testcert: Option<Option<PathBuf>>,

    /// The clock is right, and it is this day (UTC): logs start though they signed last more than
    /// a day ago
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub confirm_clock: Option<Date>,

    /// Flags that make a configuration by themselves.
    #[command(flatten)]
    pub flags: Flags,
}

/// The log that is checked, and how.
#[derive(Debug, clap::Args)]
pub struct Fsck {
    /// Short name of the log; can be left out if there is one
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// A log that no configuration names: its directory, its bucket (s3://bucket/prefix?region=…), or
    /// the URL of its monitoring prefix
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["name", "config"])]
    pub at: Option<String>,

    /// Origin of the log [default: as in its log.v3.json]
    #[arg(long, value_name = "NAME", requires = "at")]
    pub origin: Option<String>,

    /// Public key of the log: base64 of its DER, or a PEM file [default: as in its log.v3.json]
    #[arg(long, value_name = "KEY|FILE", requires = "at")]
    pub log_public_key: Option<String>,

    /// Data tiles that are read and hashed at a time [default: two for each core]
    #[arg(long, value_name = "N")]
    pub at_once: Option<NonZeroUsize>,

    /// A file that keeps how far the check has got: the next one goes on from there
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,

    /// Verify precertificates and chains only in data tiles that are stored uncompressed. In the
    /// others, the checksum of gzip shows rot, but not forgery
    #[arg(long)]
    pub skip_signatures: bool,

    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// The log that is put right, and what with.
#[derive(Debug, clap::Args)]
pub struct Repair {
    /// The check.
    #[command(flatten)]
    pub fsck: Fsck,

    /// Another place that holds the same log: a directory, a bucket, the URL of a monitoring prefix.
    /// What it has is not believed, but held against the signed root. May be repeated
    #[arg(long, value_name = "PLACE")]
    pub from: Vec<String>,

    /// More accepted roots, in PEM: a chain from elsewhere must end in one of these or of the
    /// configuration. May be repeated
    #[arg(long, value_name = "FILE")]
    pub roots: Vec<PathBuf>,

    /// Write nothing; say what would be done
    #[arg(long, conflicts_with = "state")]
    pub dry_run: bool,
}

/// The file to make.
#[derive(Debug, clap::Args)]
pub struct Keygen {
    /// The seed file to make
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
}

impl Serve {
    /// Returns `Some` if certificates are made for tests, with the directory if
    /// one is named. Sunlight's flag is a switch: `true` and `false` are no
    /// directories.
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

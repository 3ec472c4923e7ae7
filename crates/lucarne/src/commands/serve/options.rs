//! Arguments of `lucarne serve`.

use std::path::{Path, PathBuf};

use jiff::civil::Date;

use crate::config::Flags;

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

impl Serve {
    /// Returns the options of a configuration file alone.
    pub(crate) fn file(config: PathBuf) -> Self {
        Serve {
            config: Some(config),
            testcert: None,
            confirm_clock: None,
            flags: Flags::default(),
        }
    }

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

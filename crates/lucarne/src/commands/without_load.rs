//! Stand-ins for the commands of the feature `load`.

use super::absent::left_out;

const FEATURE: &str = "load";

pub(crate) mod ca {
    use std::path::Path;
    use std::process::ExitCode;

    pub(crate) fn new(_directory: &Path) -> ExitCode {
        super::left_out("the authorities of load tests", super::FEATURE)
    }

    pub(crate) fn show(directory: &Path) -> ExitCode {
        new(directory)
    }
}

pub(crate) mod demo {
    use std::process::ExitCode;

    pub(crate) use crate::commands::absent::Anything as Options;
    use crate::logging::Logging;

    pub(crate) fn run(_options: &Options, _logging: &Logging) -> ExitCode {
        super::left_out("the demo", super::FEATURE)
    }
}

pub(crate) mod load {
    use std::ffi::OsString;
    use std::process::ExitCode;

    /// Stand-in for the load tests.
    #[derive(Debug, clap::Subcommand)]
    pub enum Load {
        /// Any subcommand.
        #[command(external_subcommand)]
        Any(Vec<OsString>),
    }

    pub(crate) fn run(_load: &Load) -> ExitCode {
        super::left_out("load tests", super::FEATURE)
    }
}

pub(crate) mod watch {
    use std::process::ExitCode;

    pub(crate) use crate::commands::absent::Anything as Options;

    pub(crate) const EXIT_CODES: &str = "Exit codes: 1 this build cannot watch; 2 wrong usage.";

    pub(crate) fn run(_options: &Options) -> ExitCode {
        super::left_out("watching logs", super::FEATURE)
    }
}

//! Stand-in for the command of the feature `proxy`.

use super::absent::left_out;

pub(crate) mod proxy {
    use std::process::ExitCode;

    pub(crate) use crate::commands::absent::Anything as Options;
    use crate::logging::Logging;

    impl Options {
        pub(crate) fn live(&self) -> bool {
            false
        }
    }

    pub(crate) fn run(_options: &Options, _logging: &Logging) -> ExitCode {
        super::left_out("the proxy", "proxy")
    }
}

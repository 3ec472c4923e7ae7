//! Parsing of the command line, with advice about configuration files.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, Parser};

use crate::cli::Cli;

/// Parses the arguments. Prints an error of usage, or the requested help, and exits.
pub fn parse(arguments: &[OsString]) -> Cli {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => advised(error, arguments).exit(),
    }
}

/// Adds advice to the error about an argument that may be the configuration file. Commands read
/// this file only with `-c`, because their other argument is the name of a log.
fn advised(mut error: Error, arguments: &[OsString]) -> Error {
    let word = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => word.clone(),
        _ => return error,
    };
    if !word.starts_with('-') && reads_configuration(arguments) {
        let tip = format!("to name the configuration file, use '-c {word}'");
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// Returns whether the command of the arguments has the option `--config`.
fn reads_configuration(arguments: &[OsString]) -> bool {
    let cli = Cli::command();
    let mut command = &cli;
    for word in arguments.iter().skip(1) {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let mut options = command.get_arguments();
    options.any(|option| option.get_long() == Some("config"))
}

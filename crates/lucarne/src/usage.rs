//! Parsing of the command line, with advice about configuration files.

use std::ffi::OsString;
use std::num::{ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, FromArgMatches};

use crate::cli::Cli;
use crate::examples::command_line;
use crate::logging::Format;
use crate::{journald, output};

/// Parses the arguments. Prints an error of usage, or the requested help, and exits.
pub fn parse(arguments: &[OsString]) -> Cli {
    let matches = command_line().try_get_matches_from(arguments);
    let error = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => return cli,
        Err(error) => advised(in_words(error), arguments),
    };
    let format = if wants_json(arguments) {
        Format::Json
    } else {
        Format::Text
    };
    let journal = journald::is_behind(std::io::stderr());
    if error.use_stderr() && (journal || format == Format::Json) {
        output::set_lines(format, journal);
        errln!("{}", error.to_string().trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Returns whether the arguments request JSON lines. The arguments may be invalid.
fn wants_json(arguments: &[OsString]) -> bool {
    let words = arguments.iter();
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().replace('_', "-"))
        .collect();
    let mut pairs = words.windows(2);
    pairs.any(|pair| pair == ["--log-format", "json"])
        || words.iter().any(|word| word == "--log-format=json")
}

/// Replaces the reason of the standard library why a text is not a number.
fn in_words(error: Error) -> Error {
    let source = std::error::Error::source(&error);
    let number = match source {
        Some(source) if source.is::<ParseIntError>() => "expected a whole number",
        Some(source) if source.is::<ParseFloatError>() => "expected a number",
        _ => return error,
    };
    let reason = source.map(ToString::to_string).unwrap_or_default();
    let text = error.to_string().replace(&reason, number);
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    Error::raw(error.kind(), text)
}

/// Adds advice to the error about an argument that may be the configuration file. Commands read
/// this file only with `-c`, because their other argument is the name of a log.
fn advised(mut error: Error, arguments: &[OsString]) -> Error {
    let word = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => word.clone(),
        _ => return error,
    };
    // Of names that are equally similar, clap suggests the last, which is the one with underscores.
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::SuggestedArg) {
        let flag = ContextValue::String(flag.replace('_', "-"));
        error.insert(ContextKind::SuggestedArg, flag);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_not_a_number_is_refused_in_words() {
        for (flag, value) in [("--rate", "many"), ("--rate", ""), ("--instances", "1.5")] {
            let words = ["lucarne", "demo", flag, value];
            let error = command_line().try_get_matches_from(words).unwrap_err();
            let text = in_words(error).to_string();
            let begin = format!("error: invalid value '{value}' for '{flag} <");
            assert!(text.starts_with(&begin), "{text}");
            assert!(text.contains(">': expected a whole number\n"), "{text}");
            assert!(text.ends_with("try '--help'.\n"), "{text}");
        }
    }

    #[test]
    fn a_suggested_flag_has_dashes() {
        for (line, flag) in [
            ("repair --dryrun", "--dry-run"),
            ("check --before", "--before-start"),
            ("serve --logformat", "--log-format"),
        ] {
            let words = ["lucarne"].into_iter().chain(line.split(' '));
            let words: Vec<_> = words.map(OsString::from).collect();
            let error = command_line().try_get_matches_from(&words).unwrap_err();
            let text = advised(error, &words).to_string();
            let tip = format!("tip: a similar argument exists: '{flag}'\n");
            assert!(text.contains(&tip), "{text}");
        }
    }

    #[test]
    fn json_is_recognized_in_invalid_arguments() {
        let wants = |line: &str| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            wants_json(&words)
        };
        assert!(wants("lucarne serve --log-format json --bogus"));
        assert!(wants("lucarne serve --bogus --log-format=json"));
        assert!(wants("lucarne serve --log_format json --bogus"));
        assert!(wants("lucarne serve --bogus --log_format=json"));
        assert!(!wants("lucarne serve --log-format text json"));
    }
}

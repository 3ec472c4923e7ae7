//! Flags with one or two dashes (`-origin=…`, `--origin=…`), as in Go programs such as TesseraCT
//! and Sunlight.

use std::collections::HashSet;
use std::ffi::OsString;

use clap::Arg;

use crate::examples::command_line;

/// Commands that accept the flags of these programs.
const TAKE_OVER: [&[&str]; 4] = [&["serve"], &["adopt"], &["give-back"], &["lock", "rebuild"]];

/// Returns the arguments, with two dashes before long flags of these commands. Other arguments stay
/// unchanged: `-cFILE`, and values that begin with a dash.
pub fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given: Vec<OsString> = given.collect();
    let command = |word: &OsString| TAKE_OVER.iter().any(|path| *word == path[0]);
    let Some(at) = given.iter().position(command) else {
        return given;
    };
    let names = names();
    let flags = given.iter_mut().skip(at + 1);
    for word in flags.take_while(|word| *word != "--") {
        let name = word.to_str().and_then(|word| word.strip_prefix('-'));
        let name = name.map(|rest| rest.split('=').next().unwrap_or(rest));
        if name.is_some_and(|name| names.contains(name)) {
            let mut doubled = OsString::from("-");
            doubled.push(&*word);
            *word = doubled;
        }
    }
    given
}

/// Returns the long names of the flags of these commands.
fn names() -> HashSet<String> {
    let mut names = HashSet::new();
    let cli = command_line();
    for path in TAKE_OVER {
        let command = path
            .iter()
            .try_fold(&cli, |command, name| command.find_subcommand(name));
        for arg in command
            .into_iter()
            .flat_map(|command| command.get_arguments())
        {
            names.extend(long_names(arg).filter(|name| name.len() > 1));
        }
    }
    names
}

fn long_names(arg: &Arg) -> impl Iterator<Item = String> {
    let aliases = arg.get_all_aliases().unwrap_or_default();
    let name = arg.get_long().into_iter();
    name.chain(aliases)
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let words = arguments(line.split(' ').map(Into::into));
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn one_dash_is_as_good_as_two() {
        for (given, taken) in [
            (
                "lucarne serve -origin=a.example/b -storage_dir data --private-key k",
                "lucarne serve --origin=a.example/b --storage_dir data --private-key k",
            ),
            (
                "lucarne --log warn lock rebuild -origin=o -not_after_start=-",
                "lucarne --log warn lock rebuild --origin=o --not_after_start=-",
            ),
            (
                "lucarne adopt -check -origin=o -storage_dir=s",
                "lucarne adopt --check --origin=o --storage_dir=s",
            ),
            (
                "lucarne give-back -to tesseract -private_key k",
                "lucarne give-back --to tesseract --private_key k",
            ),
            (
                "lucarne serve -testcert -c sunlight.yaml",
                "lucarne serve --testcert -c sunlight.yaml",
            ),
        ] {
            assert_eq!(rewritten(given), taken);
        }
    }

    #[test]
    fn what_is_no_flag_of_theirs_stays() {
        for line in [
            "lucarne serve -cfile.yaml -c=file.yaml --rate_limit_dedup -1 -h",
            "lucarne serve -- -origin",
            "lucarne watch -origin",
        ] {
            assert_eq!(rewritten(line), line);
        }
    }
}

//! `lucarne generate`: manual pages and shell completions.

use std::fs;
use std::path::Path;
use std::process::Command;

use lucarne_testkit::temp_dir;

use crate::common::{assert_has, lucarne};

/// Returns the command line with all global flags and names, without the commands `help`.
fn command_line() -> clap::Command {
    let mut cli = lucarne::examples::command_line().disable_help_subcommand(true);
    cli.build();
    cli
}

/// Returns the name of a command below `lucarne`.
fn named(command: &clap::Command) -> String {
    let name = command.get_bin_name().unwrap_or_default();
    name.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Asserts that the page of a command has its flags, and that each subcommand has a page. Returns
/// the number of pages.
fn assert_pages(command: &clap::Command, directory: &Path) -> usize {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let page = fs::read_to_string(directory.join(format!("{name}.1")));
    let page = page.unwrap_or_else(|error| panic!("{name}.1: {error}"));
    assert_has(&page, "\"lucarne 0.");
    // In roff, a backslash precedes each hyphen.
    let page = page.replace('\\', "");
    for argument in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        if let Some(flag) = argument.get_long() {
            assert!(page.contains(&format!("--{flag}")), "{name}.1: --{flag}");
        }
    }
    if !command.has_subcommands() {
        assert_has(&page, &format!("Examples:\n  lucarne {}", named(command)));
    }
    let mut pages = 1;
    for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        pages += assert_pages(subcommand, directory);
    }
    pages
}

#[test]
fn every_command_has_a_manual_page_with_its_flags() {
    let directory = temp_dir();
    // The second run replaces the pages.
    for _ in 0..2 {
        let (code, printed) = lucarne(directory.path(), &["generate", "man", "new/man1"]);
        assert_eq!((code, printed.as_str()), (0, ""));
    }
    let pages = directory.path().join("new/man1");
    let expected = assert_pages(&command_line(), &pages);
    assert!(expected > 20, "{expected}");
    assert_eq!(fs::read_dir(&pages).unwrap().count(), expected);
    for name in ["lucarne.1", "lucarne-serve.1", "lucarne-lock-rebuild.1"] {
        assert!(pages.join(name).is_file(), "{name}");
    }

    fs::write(directory.path().join("file"), "").unwrap();
    let (code, printed) = lucarne(directory.path(), &["generate", "man", "file"]);
    assert_eq!(code, 1);
    assert_has(&printed, "lucarne: creating file: ");
}

#[test]
fn completion_scripts_have_every_command() {
    let directory = temp_dir();
    let cli = command_line();
    for shell in ["bash", "zsh", "fish"] {
        let (code, script) = lucarne(directory.path(), &["generate", "completions", shell]);
        assert_eq!(code, 0, "{script}");
        for command in cli.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let name = command.get_name();
            assert!(script.contains(name), "{shell} has no `{name}`");
        }
        assert_has(&script, "log-format");
        for hidden in ["db-host", "slog-level", "num-mmd-verifiers"] {
            assert!(!script.contains(hidden), "{shell} has `{hidden}`");
        }
        let file = directory.path().join(shell);
        fs::write(&file, script).unwrap();
        // Fish and zsh are missing on many machines.
        if let Ok(checked) = Command::new(shell).arg("-n").arg(&file).output() {
            assert!(checked.status.success(), "{shell}: {checked:?}");
        }
    }
    let (code, printed) = lucarne(directory.path(), &["generate", "completions", "tcsh"]);
    assert_eq!(code, 2);
    assert_has(&printed, "bash, zsh, fish");
}

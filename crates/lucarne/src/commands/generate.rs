//! `lucarne generate`: manual pages and shell completions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, Subcommand};
use clap_complete::aot;
use clap_mangen::Man;

use super::failed;
use crate::version::VERSION;

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

/// Generates the files for the command line `cli`.
pub(crate) fn run(generate: &Generate, cli: Command) -> ExitCode {
    let result = match generate {
        Generate::Man { directory } => write_pages(cli, directory),
        Generate::Completions { shell } => {
            print_script(&cli, *shell);
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(format_args!("{error:#}")),
    }
}

fn write_pages(cli: Command, directory: &Path) -> Result<()> {
    let context = || format!("creating {}", directory.display());
    fs::create_dir_all(directory).with_context(context)?;
    // `help` has no options of its own.
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    write_page(&cli, directory)
}

/// Writes the page of a command and the pages of its subcommands.
fn write_page(command: &Command, directory: &Path) -> Result<()> {
    for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_page(subcommand, directory)?;
    }
    let page = Man::new(command.clone())
        .source(format!("lucarne {VERSION}"))
        .manual("Lucarne");
    let file = directory.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Copies a command without its hidden arguments and subcommands. Scripts only need names, values
/// and descriptions.
fn visible(command: &Command) -> Command {
    let name = command.get_name().to_owned();
    let about = command.get_about().cloned().unwrap_or_default();
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let inner = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let copy = Command::new(name).about(about).args(args.cloned());
    let copy = copy.subcommands(inner.map(visible));
    match command.get_version() {
        Some(_) => copy.version(VERSION),
        None => copy,
    }
}

fn print_script(cli: &Command, shell: Shell) {
    let mut cli = visible(cli);
    let shell = match shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let mut script = Vec::new();
    aot::generate(shell, &mut cli, "lucarne", &mut script);
    out!("{}", String::from_utf8_lossy(&script));
}

//! `lucarne generate`: manual pages and shell completions.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::aot;
use clap_mangen::Man;

use super::failed;
use crate::cli::{Cli, Generate, Shell};
use crate::version::VERSION;

pub(crate) fn run(generate: &Generate) -> ExitCode {
    let result = match generate {
        Generate::Man { directory } => write_pages(directory),
        Generate::Completions { shell } => {
            print_script(*shell);
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(format_args!("{error:#}")),
    }
}

fn write_pages(directory: &Path) -> Result<()> {
    let context = || format!("creating {}", directory.display());
    fs::create_dir_all(directory).with_context(context)?;
    // `help` has no options of its own.
    let mut cli = Cli::command().disable_help_subcommand(true);
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
    fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
}

fn print_script(shell: Shell) {
    let shell = match shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let mut script = Vec::new();
    aot::generate(shell, &mut Cli::command(), "lucarne", &mut script);
    out!("{}", String::from_utf8_lossy(&script));
}

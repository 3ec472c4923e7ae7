//! `lucarne config`: the settings of a configuration, and a description of its keys.

use std::process::ExitCode;

use anyhow::{Context, Result};
use lucarne_settings::read_text;

use super::config_file::File;
use super::looking::chosen;
use super::{failed, sound};
use crate::config::{Config, schema, shown};

/// Subcommands of `lucarne config`.
#[derive(Debug, clap::Subcommand)]
pub enum Task {
    /// Print the value of every key, and the line that it comes from
    ///
    /// Prints one line for each key of the process and of each log: the value, and its line in the
    /// file, or `default`. Never prints passwords or keys.
    Show(Show),

    /// Print a JSON Schema of the configuration file, for editors
    Schema(Schema),
}

/// Options of `lucarne config show`.
#[derive(Debug, clap::Args)]
pub struct Show {
    /// Short name of the log [default: all]
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file.
    #[command(flatten)]
    pub file: File,
}

/// Options of `lucarne config schema`.
#[derive(Debug, clap::Args)]
pub struct Schema {
    /// Program that reads the file
    #[arg(
        long = "for",
        value_enum,
        value_name = "PROGRAM",
        default_value = "serve"
    )]
    pub program: Program,
}

/// Programs with a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    /// `lucarne serve`
    Serve,
    /// `lucarne signer`
    Signer,
    /// `lucarne proxy`
    #[cfg(feature = "proxy")]
    Proxy,
}

pub(crate) fn run(task: &Task) -> ExitCode {
    match task {
        Task::Show(options) => show(options),
        Task::Schema(options) => {
            let schema = match options.program {
                Program::Serve => schema::server(),
                Program::Signer => schema::signer(),
                #[cfg(feature = "proxy")]
                Program::Proxy => super::proxy::schema(),
            };
            outln!("{schema:#}");
            ExitCode::SUCCESS
        }
    }
}

fn show(options: &Show) -> ExitCode {
    let (config, report) = Config::read(&options.file.config);
    let Some(config) = sound(config, &report) else {
        return failed("nothing was shown; correct the configuration first");
    };
    match lines(&config, options) {
        Ok(lines) => {
            outln!("{}", lines.join("\n"));
            ExitCode::SUCCESS
        }
        Err(error) => failed(format_args!("{error:#}")),
    }
}

fn lines(config: &Config, options: &Show) -> Result<Vec<String>> {
    let path = &options.file.config;
    let logs = chosen(config, options.name.as_deref())?;
    let context = || format!("reading {}", path.display());
    let yaml = read_text(path).with_context(context)?;
    Ok(shown::lines(&yaml, path, config, &logs))
}

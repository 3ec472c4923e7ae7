//! Common parts of the commands that inspect logs: selection of logs, output of findings, exit
//! code.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use lucarne_log::FoundCheckpoint;
use serde_json::{Value, json};

use super::{failed, sound};
use crate::config::{Config, LogSettings, rfc3339};
use crate::runtime;

/// Exit codes of the commands that inspect logs.
pub(crate) const LOOKING_CODES: &str = "\
    Exit codes: 0 all is well; 1 something is wrong, or the configuration is invalid (details on \
    standard error); 2 something could not be checked.";

/// Selection of logs to inspect.
#[derive(Debug, clap::Args)]
pub struct Look {
    /// Short name of the log [default: all]
    #[arg(value_name = "SHORTNAME")]
    pub name: Option<String>,

    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "lucarne.yaml")]
    pub config: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Verdict of an inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    Wrong,
    /// The log could not be read.
    Unseen,
}

impl Verdict {
    /// Returns the code of the verdict in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Wrong => "wrong",
            Verdict::Unseen => "unseen",
        }
    }
}

/// The report about one log, for people and for programs.
pub(crate) struct Report {
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Report {
    /// Returns the report on a log that could not be read.
    pub(crate) fn unseen(log: &LogSettings, error: impl std::fmt::Display) -> Report {
        let name = &log.shortname.value;
        Report {
            verdict: Verdict::Unseen,
            text: format!("log {name}\n  ✗ cannot be inspected: {error}\n"),
            json: json!({"name": name, "error": error.to_string()}),
        }
    }
}

/// Inspects the selected logs, prints a report on each log, and returns the exit code of the worst
/// report.
pub(crate) fn run(options: &Look, look: impl AsyncFn(&Config, &LogSettings) -> Report) -> ExitCode {
    let (config, report) = Config::read(&options.config);
    let Some(config) = sound(config, &report) else {
        return failed("nothing was read; correct the configuration first");
    };
    let logs = match chosen(&config, options.name.as_deref()) {
        Ok(logs) => logs,
        Err(error) => {
            failed(error);
            return exit_code(Verdict::Unseen);
        }
    };
    let looked = runtime::run(async {
        let mut reports = Vec::new();
        for log in logs {
            reports.push(look(&config, log).await);
        }
        Ok(reports)
    });
    match looked {
        Ok(reports) => print(reports, options.json),
        Err(error) => {
            failed(error);
            exit_code(Verdict::Unseen)
        }
    }
}

fn print(reports: Vec<Report>, json: bool) -> ExitCode {
    let verdicts = [Verdict::Wrong, Verdict::Unseen];
    let is_there = |verdict: &Verdict| reports.iter().any(|report| report.verdict == *verdict);
    let worst = verdicts.into_iter().find(is_there).unwrap_or(Verdict::Fine);
    if json {
        let logs = reports.into_iter().map(|mut report| {
            report.json["verdict"] = report.verdict.word().into();
            report.json
        });
        outln!("{}", json!({"logs": logs.collect::<Vec<_>>()}));
    } else {
        let texts: Vec<String> = reports.into_iter().map(|report| report.text).collect();
        out!("{}", texts.join("\n"));
    }
    exit_code(worst)
}

fn exit_code(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Fine => ExitCode::SUCCESS,
        Verdict::Wrong => ExitCode::FAILURE,
        Verdict::Unseen => ExitCode::from(2),
    }
}

/// Returns the named log, or all logs.
pub(crate) fn chosen<'c>(config: &'c Config, name: Option<&str>) -> Result<Vec<&'c LogSettings>> {
    match name {
        None => Ok(config.logs.iter().collect()),
        Some(name) => Ok(vec![named(config, name)?]),
    }
}

/// Returns the named log, or the only log.
pub(crate) fn the_one<'c>(config: &'c Config, name: Option<&str>) -> Result<&'c LogSettings> {
    match (name, &config.logs[..]) {
        (Some(name), _) => named(config, name),
        (None, [log]) => Ok(log),
        (None, []) => bail!("no log is configured"),
        (None, _) => bail!("several logs are configured: name one of {}", names(config)),
    }
}

fn named<'c>(config: &'c Config, name: &str) -> Result<&'c LogSettings> {
    let found = config.logs.iter().find(|log| log.shortname.value == name);
    found.ok_or_else(|| anyhow::anyhow!("there is no log `{name}`; expected: {}", names(config)))
}

/// Lists the names of all logs, for messages.
fn names(config: &Config) -> String {
    let names = config.logs.iter().map(|log| log.shortname.value.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// Formats a checkpoint as indented lines.
pub(crate) fn lines(found: Option<&FoundCheckpoint>) -> String {
    let Some(found) = found else {
        return "    none\n".to_owned();
    };
    let mut lines = String::new();
    if let Some((size, root)) = &found.head {
        lines += &format!("    size       {size}\n    root       {root}\n");
    }
    lines += &match &found.signed {
        Ok(at) => format!(
            "    signed     {}, verified with the log's key\n",
            rfc3339(*at)
        ),
        Err(why) => format!("    signature  ✗ not this log's: {why}\n"),
    };
    lines
}

/// Formats a checkpoint as JSON.
pub(crate) fn value(found: Option<&FoundCheckpoint>) -> Value {
    found.map_or(Value::Null, |found| {
        json!({
            "size": found.head.map(|(size, _)| size),
            "root": found.head.map(|(_, root)| root.to_string()),
            "timestamp_ms": found.signed.as_ref().ok(),
            "verified": found.signed.is_ok(),
            "problem": found.signed.as_ref().err().map(ToString::to_string),
        })
    })
}

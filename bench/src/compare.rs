//! Compares two logs: runs the same load on them in turn.

mod contender;
mod figures;
mod variables;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use contender::{Contender, Given, Running};
use figures::Figures;
use lucarne_load::Summary;

use crate::{Common, authorities};

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Two files that describe how to start a log: see bench/logs
    #[arg(required = true, num_args = 2, value_name = "LOG.toml")]
    logs: Vec<PathBuf>,
    /// Number of rounds; each figure is the median of its rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Arguments of `lucarne load`: `run plan.yaml`, or a scenario with its flags
    #[arg(last = true, value_name = "ARGUMENTS OF lucarne load")]
    load: Vec<String>,
}

/// Load without arguments: RSA certificates, at a rate that any log sustains.
const DEFAULT_LOAD: [&str; 5] = ["ct-write", "--rate", "250", "--duration", "20s"];

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let [one, other] = &options.logs[..] else {
        bail!(
            "expected two files that describe logs, found {}",
            options.logs.len()
        );
    };
    let logs = [Contender::read(one)?, Contender::read(other)?];
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    let mut load = options.load.clone();
    if load.is_empty() {
        load = DEFAULT_LOAD.map(str::to_owned).to_vec();
    }
    let comparison = Comparison::new(common, load)?;
    let mut figures = [Vec::new(), Vec::new()];
    for round in 1..=options.rounds {
        for (log, figures) in logs.iter().zip(&mut figures) {
            eprintln!("round {round} of {}: {}", options.rounds, log.name);
            figures.push(comparison.measure(log)?);
        }
    }
    let [ours, theirs] = figures.map(|rounds| Figures::median(&rounds));
    println!(
        "\nlucarne load {}\nmedian of {} rounds taken in turn",
        comparison.load.join(" "),
        options.rounds
    );
    figures::print([&logs[0].name, &logs[1].name], [&ours, &theirs]);
    Ok(())
}

/// Values that are the same for both logs.
struct Comparison<'a> {
    common: &'a Common,
    lucarne: PathBuf,
    /// Directory with the CAs that issue the submissions.
    authorities: PathBuf,
    roots: PathBuf,
    load: Vec<String>,
}

impl<'a> Comparison<'a> {
    fn new(common: &'a Common, load: Vec<String>) -> Result<Self> {
        let lucarne = std::path::absolute(&common.binary)?;
        let store = std::path::absolute(&common.store)?;
        let authorities = authorities::open(&lucarne, &store)?;
        let roots = authorities.join("roots.pem");
        Ok(Self {
            common,
            lucarne,
            authorities,
            roots,
            load,
        })
    }

    /// Sets up one log and runs one load.
    fn measure(&self, log: &Contender) -> Result<Figures> {
        let given = Given {
            lucarne: &self.lucarne,
            roots: &self.roots,
            core: self.common.server_core,
        };
        let running = log.start(&given)?;
        let (size, before) = (running.size()?, running.usage()?);
        let summary = self.load(&running).with_context(|| {
            let printed = running.output();
            format!("{}: the load failed; the log printed:\n{printed}", log.name)
        })?;
        let (after, entries) = (running.usage()?, running.size()? - size);
        let used = before.zip(after);
        Figures::new(&summary, entries, used)
            .with_context(|| format!("{}: cannot compute the figures", log.name))
    }

    /// Runs `lucarne load` against the log, and reads its summary.
    fn load(&self, log: &Running) -> Result<Summary> {
        let file = self.common.store.join("compare.json");
        let _ = std::fs::remove_file(&file);
        let mut command = Command::new(&self.lucarne);
        command
            .arg("load")
            .args(&self.load)
            .arg("--no-ui")
            .arg("--summary")
            .arg(&file);
        // A plan reads these variables as `${NAME}`.
        for (name, value) in log.target.variables() {
            command.env(name, value);
        }
        command.env("CT_ROOTS", &self.authorities);
        if self.load.first().is_some_and(|first| first != "run") {
            command.args(log.target.flags(&self.load[0]));
            if self.load[0] != "ct-read" {
                command.arg("--roots").arg(&self.authorities);
            }
        }
        let output = command
            .output()
            .with_context(|| format!("cannot run {command:?}"))?;
        // 99: a threshold was crossed; the table shows the figures.
        if !matches!(output.status.code(), Some(0 | 99)) {
            bail!(
                "{command:?} failed ({}):\n{}{}",
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        read(&file)
    }
}

fn read(file: &Path) -> Result<Summary> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("cannot parse {}", file.display()))
}

//! The output of a run: what is told of it, and where.

use std::path::{Path, PathBuf};

use lucarne_load::report::{self, baseline};
use lucarne_load::summary::SCHEMA;
use lucarne_load::{Summary, Verdict};

use crate::commands::atomic;

/// The place of a file that is standard output.
const STDOUT: &str = "-";

/// The form of the summary at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Style {
    /// For people who know k6
    #[default]
    K6,
    /// For people, and scripts, that know vegeta
    Vegeta,
}

/// The output of a run, and where it goes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct Flags {
    /// One line a second on standard error instead of the live view; so it is without a terminal
    #[arg(long)]
    pub no_ui: bool,

    /// Say nothing while it runs
    #[arg(short, long)]
    pub quiet: bool,

    /// The files, and how the summary looks.
    #[command(flatten)]
    pub report: Report,
}

/// The output at the end.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct Report {
    /// How the text at the end looks
    #[arg(long, value_enum, default_value_t)]
    pub report: Style,

    /// Write all figures as JSON: what `load merge` and --baseline read; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,

    /// Write the text at the end to a file as well
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,

    /// Write a report with plots: one file that needs no other
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Compare with the summary of an earlier run, and fail if this one is worse
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// How many times worse than the baseline passes
    #[arg(long, value_name = "FACTOR", default_value_t = 1.1, value_parser = factor)]
    pub max_regression: f64,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = lucarne_settings::values::decimal(1.0, 1e6)(text);
    factor.map_err(|why| format!("it {why}"))
}

impl Report {
    /// The baseline, which is read before the run: what is wrong with it
    /// should be known then.
    pub(super) fn baseline(&self) -> Result<Option<Summary>, String> {
        self.baseline.as_deref().map(read).transpose()
    }

    /// Finds what cannot be written afterwards before a run, which may take hours.
    pub(super) fn writable(&self) -> Result<(), String> {
        let mut seen: Vec<&Path> = Vec::new();
        for path in self.files() {
            let shown = path.display();
            atomic::probe(path).map_err(|error| format!("{shown} cannot be written: {error}"))?;
            if seen.contains(&path) {
                return Err(format!("{shown} is to be two things at once"));
            }
            seen.push(path);
        }
        Ok(())
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.summary, &self.text, &self.html]
            .into_iter()
            .flatten();
        files.map(PathBuf::as_path).filter(|file| **file != *STDOUT)
    }

    /// Prints and writes everything; the verdict of the whole.
    pub(super) fn write(
        &self,
        summary: &mut Summary,
        baseline: Option<&Summary>,
        verdict: Verdict,
    ) -> Verdict {
        let mut verdict = verdict;
        let mut text = match self.report {
            Style::K6 => report::text(summary),
            Style::Vegeta => report::vegeta(summary),
        };
        if let Some(old) = baseline {
            let comparison = baseline::compare(old, summary, self.max_regression);
            text.push_str(&format!("\n{comparison}"));
            verdict = match (comparison.passed(), verdict) {
                (true, Verdict::Unjudged) => Verdict::Passed,
                (true, verdict) => verdict,
                (false, verdict) => verdict.worse(Verdict::Crossed),
            };
        }
        summary.verdict = verdict;
        let files = [
            (&self.summary, to_json as Render),
            (&self.html, report::html),
        ];
        let elsewhere = [&self.summary, &self.html]
            .iter()
            .any(|file| file.as_deref() == Some(Path::new(STDOUT)));
        let told = say(&text, elsewhere);
        let mut failures: Vec<String> = told.err().into_iter().collect();
        for (file, render) in files {
            let Some(path) = file else { continue };
            failures.extend(place(path, &render(summary)).err());
        }
        if let Some(path) = &self.text {
            failures.extend(place(path, &format!("{}\n", text.trim_end())).err());
        }
        for failure in &failures {
            errln!("lucarne: {failure}");
        }
        match failures.is_empty() {
            true => verdict,
            false => verdict.worse(Verdict::OutputFailed),
        }
    }
}

/// Renders the content of a file.
type Render = fn(&Summary) -> String;

fn to_json(summary: &Summary) -> String {
    // Neither maps with odd keys nor anything that could fail is in it.
    serde_json::to_string(summary).unwrap_or_default() + "\n"
}

/// Reads the summary of an earlier run.
pub(super) fn read(path: &Path) -> Result<Summary, String> {
    let name = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let summary: Result<Summary, _> = serde_json::from_str(&text);
    let not = |why: String| format!("{name} is not a summary that --summary has written: {why}");
    match summary {
        Ok(summary) if summary.schema == SCHEMA => Ok(summary),
        Ok(summary) => Err(not(format!(
            "its schema is `{}`, not `{SCHEMA}`",
            summary.schema
        ))),
        Err(error) => Err(not(error.to_string())),
    }
}

fn say(text: &str, elsewhere: bool) -> Result<(), String> {
    use std::io::Write;
    let written = match elsewhere {
        true => writeln!(std::io::stderr(), "{text}"),
        false => {
            let mut stdout = std::io::stdout().lock();
            writeln!(stdout, "{text}").and_then(|()| stdout.flush())
        }
    };
    written.map_err(|error| format!("standard output cannot be written: {error}"))
}

/// Writes a file, or to standard output for `-`.
pub(super) fn place(path: &Path, text: &str) -> Result<(), String> {
    if path == Path::new(STDOUT) {
        return say(text.trim_end(), false);
    }
    atomic::write(path, text)
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

//! Output of a run.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lucarne_load::report::{self, baseline};
use lucarne_load::summary::ImpossibleFigure;
use lucarne_load::{Summary, Verdict};
use lucarne_net::printable_lines;

use super::exit_code::{exit, misconfigured};
use crate::commands::{FlagError, atomic};
use crate::output::terminal_closed;

/// File name that stands for standard output.
pub(super) const STDOUT: &str = "-";

/// Format of the summary at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Style {
    /// Format of k6
    #[default]
    K6,
    /// Format of vegeta
    Vegeta,
}

/// Output during a run and after it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct Flags {
    /// Print one line per second on standard error instead of the live view; default without a
    /// terminal
    #[arg(long)]
    pub no_ui: bool,

    /// Print nothing during the run
    #[arg(short, long)]
    pub quiet: bool,

    /// Metrics of the run in progress.
    #[command(flatten)]
    pub live: Live,

    /// Output after the run.
    #[command(flatten)]
    pub report: Report,
}

/// Receivers of the metrics of a run in progress.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct Live {
    /// Serve the metrics of the run for Prometheus at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,

    /// Export the metrics of the run to the OpenTelemetry collector at URL, such as
    /// http://localhost:4318; only in builds with the feature `otlp`
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
}

/// Output after a run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct Report {
    /// Format of the summary text
    #[arg(long, value_enum, default_value_t)]
    pub report: Style,

    /// Write all figures as JSON to FILE, for `load merge` and --baseline; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,

    /// Write the summary text to FILE as well
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,

    /// Write a report with plots to FILE, a single self-contained file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Compare with the summary of an earlier run, and fail if this run is worse
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Tolerated factor between this run and the baseline
    #[arg(long, value_name = "FACTOR", default_value_t = 1.1, value_parser = factor)]
    pub max_regression: f64,
}

fn factor(text: &str) -> Result<f64, FlagError> {
    Ok(lucarne_settings::values::decimal(1.0, 1e6)(text)?)
}

/// Reasons why a summary cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SummaryError {
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is not a summary that --summary has written: {source}", .path.display())]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{}: {source}: use the file that --summary wrote", .path.display())]
    Impossible {
        path: PathBuf,
        source: ImpossibleFigure,
    },
}

/// Reasons why the output cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutputError {
    #[error("{} cannot be written: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("standard output cannot be written: {0}")]
    Stdout(#[source] io::Error),
    #[error("{} is given for two outputs: use a separate file for each", .0.display())]
    Twice(PathBuf),
}

impl OutputError {
    fn file(path: &Path, source: io::Error) -> Self {
        OutputError::File {
            path: path.to_owned(),
            source,
        }
    }
}

impl Report {
    /// Reads the baseline. The caller does this before the run, so that an error is reported early.
    pub(super) fn baseline(&self) -> Result<Option<Summary>, SummaryError> {
        self.baseline.as_deref().map(read).transpose()
    }

    /// Reads the baseline, and tests whether all files can be written. Reports an error and returns
    /// its exit code.
    pub(super) fn before_run(&self) -> Result<Option<Summary>, ExitCode> {
        let baseline = self.baseline().map_err(misconfigured)?;
        self.writable().map_err(|why| {
            crate::commands::failed(format_args!("{why}; nothing was run"));
            exit(Verdict::OutputFailed)
        })?;
        Ok(baseline)
    }

    /// Tests before the run, which may take hours, whether all files can be written.
    fn writable(&self) -> Result<(), OutputError> {
        let mut seen: Vec<&Path> = Vec::new();
        for path in self.files() {
            writable(path)?;
            if seen.contains(&path) {
                return Err(OutputError::Twice(path.to_owned()));
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

    /// Writes all files, prints the text if `print`, and returns the final verdict.
    pub(super) fn write(
        &self,
        summary: &mut Summary,
        baseline: Option<&Summary>,
        verdict: Verdict,
        print: bool,
    ) -> Verdict {
        let mut verdict = verdict;
        let mut text = match self.report {
            Style::K6 => report::text(summary),
            Style::Vegeta => report::vegeta(summary),
        };
        if let Some(old) = baseline {
            let comparison = baseline::compare(old, summary, self.max_regression);
            text.push_str(&format!("\n{comparison}"));
            comparison.record(summary);
            verdict = match (comparison.passed(), verdict) {
                (true, Verdict::Unjudged) => Verdict::Passed,
                (true, verdict) => verdict,
                (false, verdict) => verdict.worse(Verdict::Crossed),
            };
        }
        summary.verdict = verdict;
        let elsewhere = [&self.summary, &self.html]
            .iter()
            .any(|file| file.as_deref() == Some(Path::new(STDOUT)));
        let mut failures = Vec::new();
        if print {
            failures.extend(say(&text, elsewhere).err());
        }
        let files = [
            (&self.summary, to_json as Render),
            (&self.html, report::html),
        ];
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
        if failures.is_empty() {
            verdict
        } else {
            verdict.worse(Verdict::OutputFailed)
        }
    }
}

/// Tests whether a file can be written; `-` stands for standard output.
pub(super) fn writable(path: &Path) -> Result<(), OutputError> {
    if path == Path::new(STDOUT) {
        return Ok(());
    }
    atomic::probe(path).map_err(|error| OutputError::file(path, error))
}

/// Function that renders the contents of a file.
type Render = fn(&Summary) -> String;

pub(super) fn to_json(summary: &Summary) -> String {
    // A summary contains only types that serde_json can always serialize.
    printable_lines(&serde_json::to_string(summary).unwrap_or_default()) + "\n"
}

/// Reads the summary of an earlier run.
pub(super) fn read(path: &Path) -> Result<Summary, SummaryError> {
    let text = std::fs::read_to_string(path).map_err(|source| SummaryError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let summary: Summary = serde_json::from_str(&text).map_err(|source| SummaryError::Json {
        path: path.to_owned(),
        source,
    })?;
    summary.check().map_err(|source| SummaryError::Impossible {
        path: path.to_owned(),
        source,
    })?;
    Ok(summary)
}

pub(super) fn say(text: &str, elsewhere: bool) -> Result<(), OutputError> {
    if elsewhere {
        print(io::stderr().lock(), text)
    } else {
        print(io::stdout().lock(), text)
    }
}

/// Prints a text, which may contain texts of the target. The summary of a run is complete if its
/// terminal was closed during the run.
fn print(mut out: impl Write + AsFd, text: &str) -> Result<(), OutputError> {
    match writeln!(out, "{}", printable_lines(text)).and_then(|()| out.flush()) {
        Err(error) if !terminal_closed(&out, &error) => Err(OutputError::Stdout(error)),
        _ => Ok(()),
    }
}

/// Writes a file; `-` stands for standard output.
pub(super) fn place(path: &Path, text: &str) -> Result<(), OutputError> {
    if path == Path::new(STDOUT) {
        return say(text.trim_end(), false);
    }
    atomic::write(path, text).map_err(|error| OutputError::file(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(directory: &Path, summary: &str, html: &str) -> Report {
        Report {
            report: Style::K6,
            summary: Some(directory.join(summary)),
            text: None,
            html: Some(directory.join(html)),
            baseline: None,
            max_regression: 1.1,
        }
    }

    #[test]
    fn outputs_that_cannot_be_written_are_refused_before_the_run() {
        let directory = tempfile::tempdir().unwrap();
        let writable = |summary, html| report(directory.path(), summary, html).writable();
        writable("a.json", "a.html").unwrap();
        let twice = writable("a", "a").unwrap_err();
        assert!(matches!(twice, OutputError::Twice(_)), "{twice}");
        let path = directory.path().join("a");
        let expected = format!(
            "{} is given for two outputs: use a separate file for each",
            path.display()
        );
        assert_eq!(twice.to_string(), expected);
        let lacking = writable("none/a.json", "a.html").unwrap_err();
        assert!(
            matches!(&lacking, OutputError::File { source, .. } if source.kind() == io::ErrorKind::NotFound),
            "{lacking}"
        );
    }

    #[test]
    fn names_do_not_end_the_lines_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let in_directory = |name| directory.path().join(name);
        let report = Report {
            text: Some(in_directory("a.txt")),
            ..report(directory.path(), "a.json", "a.html")
        };
        let name = "a\u{2028}b\u{202e}c\u{85}d";
        let mut summary = Summary {
            name: name.into(),
            ..Summary::default()
        };
        report.write(&mut summary, None, Verdict::Passed, false);
        for file in ["a.txt", "a.json", "a.html"] {
            let text = std::fs::read_to_string(in_directory(file)).unwrap();
            assert!(text.contains("a\\u2028b\\u202ec\\u0085d"), "{file}: {text}");
            assert!(!text.contains(['\u{2028}', '\u{202e}', '\u{85}']), "{file}");
        }
        let json = std::fs::read(in_directory("a.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["name"], name);
    }

    #[test]
    fn files_that_are_no_summary_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("summary.json");
        let error = read(&path).unwrap_err();
        assert!(matches!(error, SummaryError::Unreadable { .. }), "{error}");
        std::fs::write(&path, "{}").unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, SummaryError::Json { .. }), "{error}");
    }
}

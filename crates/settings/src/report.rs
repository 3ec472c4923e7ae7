//! All problems and warnings, in file order.

use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum number of lines about findings with one consequence.
const MOST_LINES: usize = 100;
/// Maximum length of a line in characters. A value of the file may be longer.
const LONGEST_LINE: usize = 2000;

/// A problem or warning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Line of the configuration file; `None` for command line flags, and for problems of the file
    /// as a whole.
    pub line: Option<usize>,
    /// The affected key, such as `logs[rome2026h1].period`; may be empty.
    pub key: String,
    /// The problem and the remedy.
    pub message: String,
}

/// The consequence of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The server does not start.
    Problem,
    /// The log does not start. Other logs start.
    LogProblem,
    /// A store or a server is unavailable. The dependent part starts as soon as the store or server
    /// responds.
    Unavailable,
    /// No consequence at startup.
    Warning,
}

/// Flags, each with its key.
type Flags = &'static [(&'static str, &'static str)];

/// The source of the values.
#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    Unnamed,
    File(PathBuf),
    Flags(Flags),
}

/// The findings about a file.
#[derive(Clone, Debug, Default)]
pub struct Report {
    source: Source,
    problems: Vec<Finding>,
    log_problems: Vec<Finding>,
    unavailable: Vec<Finding>,
    warnings: Vec<Finding>,
}

impl Report {
    /// Creates a report on a configuration file; `None` for command line flags.
    pub fn on(file: Option<&Path>) -> Self {
        Report {
            source: file.map_or(Source::Unnamed, |file| Source::File(file.to_path_buf())),
            ..Report::default()
        }
    }

    /// Creates a report on flags that are read as a file. Each flag has a key: the flag at index
    /// `n` is the place of values on line `n + 1`.
    pub fn on_flags(flags: Flags) -> Self {
        Report {
            source: Source::Flags(flags),
            ..Report::default()
        }
    }

    /// Adds a problem that prevents the start.
    pub fn problem(
        &mut self,
        line: Option<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add(Severity::Problem, line, key, message);
    }

    /// Adds a warning about a problem that may occur later.
    pub fn warning(
        &mut self,
        line: Option<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add(Severity::Warning, line, key, message);
    }

    /// Adds a finding with its consequence, in file order. Equal findings count once: a wrong value
    /// in `defaults` is found again for each log.
    pub fn add(
        &mut self,
        severity: Severity,
        line: Option<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
    ) {
        let findings = match severity {
            Severity::Problem => &mut self.problems,
            Severity::LogProblem => &mut self.log_problems,
            Severity::Unavailable => &mut self.unavailable,
            Severity::Warning => &mut self.warnings,
        };
        let (key, message) = (key.into(), message.into());
        let mut finding = Finding { line, key, message };
        if let Source::Flags(flags) = self.source {
            finding.name_flags(flags);
        }
        if let Err(place) = findings.binary_search(&finding) {
            findings.insert(place, finding);
        }
    }

    /// Returns the findings with this consequence, in file order.
    pub fn findings(&self, severity: Severity) -> &[Finding] {
        match severity {
            Severity::Problem => &self.problems,
            Severity::LogProblem => &self.log_problems,
            Severity::Unavailable => &self.unavailable,
            Severity::Warning => &self.warnings,
        }
    }

    /// Returns the problems in file order.
    pub fn problems(&self) -> &[Finding] {
        &self.problems
    }

    /// Returns the warnings in file order.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// Returns every problem as a line `file:line: key: message`.
    pub fn problem_lines(&self) -> Vec<String> {
        self.lines(Severity::Problem)
    }

    /// Returns every warning as a line `file:line: key: message`.
    pub fn warning_lines(&self) -> Vec<String> {
        self.lines(Severity::Warning)
    }

    /// Returns the findings with this consequence as lines `file:line: key: message`: the first
    /// ones, and the number of omitted ones. A file of another program has a problem on each line.
    pub fn lines(&self, severity: Severity) -> Vec<String> {
        let findings = self.findings(severity);
        let shown = findings.iter().take(MOST_LINES);
        let mut lines: Vec<_> = shown.map(|finding| self.line_of(finding)).collect();
        let more = findings.len() - lines.len();
        if more > 0 {
            let kind = match severity {
                Severity::Warning => "warnings",
                _ => "problems",
            };
            let message = format!("{more} more {kind}");
            lines.push(self.line_of(&Finding {
                line: None,
                key: String::new(),
                message,
            }));
        }
        lines
    }

    fn line_of(&self, finding: &Finding) -> String {
        let mut line = match (&self.source, finding.line) {
            (Source::File(file), Some(line)) => format!("{}:{line}: {finding}", file.display()),
            (Source::File(file), None) => format!("{}: {finding}", file.display()),
            (Source::Unnamed | Source::Flags(_), _) => finding.to_string(),
        };
        if let Some((end, _)) = line.char_indices().nth(LONGEST_LINE) {
            line.truncate(end);
            line.push('…');
        }
        line
    }
}

impl Finding {
    /// Replaces the line and the keys by flags.
    fn name_flags(&mut self, flags: &[(&str, &str)]) {
        let name = self.key.rsplit('.').next().unwrap_or_default();
        let index = self.line.take().and_then(|line| line.checked_sub(1));
        let at = index.and_then(|index| flags.get(index));
        if let Some(flag) = at.map_or_else(|| flag_of(flags, name), |(flag, _)| Some(*flag)) {
            self.key = format!("--{flag}");
        }
        // A message may begin with a value.
        let value = self
            .message
            .strip_prefix('`')
            .and_then(|rest| rest.find('`'));
        let mut rest = self.message.split_off(value.map_or(0, |end| end + 2));
        for (flag, key) in flags {
            rest = rest.replace(&format!("`{key}`"), &format!("--{flag}"));
        }
        self.message.push_str(&rest);
    }
}

/// Returns the first flag of a key.
pub fn flag_of<'f>(flags: &[(&'f str, &str)], key: &str) -> Option<&'f str> {
    let flag = flags.iter().find(|(_, of)| *of == key);
    flag.map(|(flag, _)| *flag)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}", self.message)
        } else {
            write!(f, "{}: {}", self.key, self.message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded() {
        let mut report = Report::on(Some(Path::new("lucarne.yaml")));
        for line in 1..=MOST_LINES {
            report.problem(Some(line), "x", "unknown key");
        }
        assert_eq!(report.problem_lines().len(), MOST_LINES);
        for line in 1..=300_000 {
            report.problem(Some(line), "x", "unknown key");
        }
        let lines = report.problem_lines();
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert_eq!(lines[MOST_LINES], "lucarne.yaml: 299900 more problems");
        assert_eq!(report.problems().len(), 300_000);
        report.warning(None, "x", "ü".repeat(1 << 20));
        let warnings = report.warning_lines();
        assert_eq!(warnings[0].chars().count(), LONGEST_LINE + 1);
        assert!(warnings[0].ends_with("ü…"));
    }
}

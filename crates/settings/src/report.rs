//! Everything found wrong, and everything worth a warning, in file order.

use std::fmt;
use std::path::{Path, PathBuf};

/// One problem or warning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Line of the configuration file; none for command line flags, and for
    /// what concerns the file as a whole.
    pub line: Option<usize>,
    /// The key at fault, such as `logs[rome2026h1].period`; may be empty.
    pub key: String,
    /// The problem with it, and what to do.
    pub message: String,
}

/// The consequence of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing starts.
    Problem,
    /// One log does not start; the others do.
    LogProblem,
    /// Something starts once a store or a server responds.
    Unavailable,
    /// Everything starts.
    Warning,
}

/// The findings about a file.
#[derive(Clone, Debug, Default)]
pub struct Report {
    file: Option<PathBuf>,
    problems: Vec<Finding>,
    log_problems: Vec<Finding>,
    unavailable: Vec<Finding>,
    warnings: Vec<Finding>,
}

impl Report {
    /// A report on a configuration file; `None` for command line flags.
    pub fn on(file: Option<&Path>) -> Self {
        Report {
            file: file.map(Path::to_path_buf),
            ..Report::default()
        }
    }

    /// Something that keeps the whole from starting.
    pub fn problem(
        &mut self,
        line: Option<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add(Severity::Problem, line, key, message);
    }

    /// Something that will bite later.
    pub fn warning(
        &mut self,
        line: Option<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add(Severity::Warning, line, key, message);
    }

    /// Adds a finding with its consequence, in file order. Equal findings count once: a wrong
    /// value in `defaults` is found once for each log.
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
        let finding = Finding { line, key, message };
        if let Err(place) = findings.binary_search(&finding) {
            findings.insert(place, finding);
        }
    }

    /// The findings with this consequence, in file order.
    pub fn findings(&self, severity: Severity) -> &[Finding] {
        match severity {
            Severity::Problem => &self.problems,
            Severity::LogProblem => &self.log_problems,
            Severity::Unavailable => &self.unavailable,
            Severity::Warning => &self.warnings,
        }
    }

    /// The problems, in file order.
    pub fn problems(&self) -> &[Finding] {
        &self.problems
    }

    /// The warnings, in file order.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// Every problem, one a line, as `file:line: key: message`.
    pub fn problem_lines(&self) -> Vec<String> {
        self.lines(Severity::Problem)
    }

    /// Every warning, in the same form.
    pub fn warning_lines(&self) -> Vec<String> {
        self.lines(Severity::Warning)
    }

    /// The findings with this consequence, in the same form.
    pub fn lines(&self, severity: Severity) -> Vec<String> {
        let findings = self.findings(severity).iter();
        findings.map(|finding| self.line_of(finding)).collect()
    }

    fn line_of(&self, finding: &Finding) -> String {
        match (&self.file, finding.line) {
            (Some(file), Some(line)) => format!("{}:{line}: {finding}", file.display()),
            (Some(file), None) => format!("{}: {finding}", file.display()),
            (None, _) => finding.to_string(),
        }
    }
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

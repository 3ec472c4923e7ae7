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

/// The findings about a file.
#[derive(Clone, Debug, Default)]
pub struct Report {
    file: Option<PathBuf>,
    problems: Vec<Finding>,
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
        add(&mut self.problems, line, key.into(), message.into());
    }

    /// Something that will bite later.
    pub fn warning(
        &mut self,
        line: Option<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
    ) {
        add(&mut self.warnings, line, key.into(), message.into());
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
        self.lines(&self.problems)
    }

    /// Every warning, in the same form.
    pub fn warning_lines(&self) -> Vec<String> {
        self.lines(&self.warnings)
    }

    fn lines(&self, findings: &[Finding]) -> Vec<String> {
        findings
            .iter()
            .map(|finding| self.line_of(finding))
            .collect()
    }

    fn line_of(&self, finding: &Finding) -> String {
        match (&self.file, finding.line) {
            (Some(file), Some(line)) => format!("{}:{line}: {finding}", file.display()),
            (Some(file), None) => format!("{}: {finding}", file.display()),
            (None, _) => finding.to_string(),
        }
    }
}

/// Keeps file order, and says nothing twice (a wrong value in `defaults` is
/// met once for each log).
fn add(findings: &mut Vec<Finding>, line: Option<usize>, key: String, message: String) {
    let finding = Finding { line, key, message };
    if let Err(place) = findings.binary_search(&finding) {
        findings.insert(place, finding);
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

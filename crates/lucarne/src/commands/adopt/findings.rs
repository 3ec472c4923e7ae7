//! Findings of a preflight check, printed one per line: as text, or as JSON.

use std::process::ExitCode;

use lucarne_log::Fatal;
use serde_json::{Value, json};

/// Exit code if a check could not be carried out.
const UNKNOWN: u8 = 2;

/// Verdict of a check; the order is from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    #[default]
    Right,
    /// This process cannot check the condition, but an unmet condition does no harm.
    Noted,
    /// The check could not be carried out.
    Unknown,
    Refused,
}

impl Verdict {
    /// Returns the code of the verdict in JSON.
    fn word(self) -> &'static str {
        match self {
            Verdict::Right => "right",
            Verdict::Noted => "noted",
            Verdict::Unknown => "untold",
            Verdict::Refused => "refused",
        }
    }
}

/// Printer of findings that keeps the worst verdict.
pub(crate) struct Findings {
    json: bool,
    worst: Verdict,
}

impl Findings {
    pub(crate) fn new(json: bool) -> Self {
        let worst = Verdict::default();
        Findings { json, worst }
    }

    /// Prints a verdict, and keeps the worst verdict. `what` is a stable code.
    pub(crate) fn add(&mut self, what: &str, verdict: Verdict, why: &str) {
        let sign = match verdict {
            Verdict::Right => '✓',
            Verdict::Noted => '·',
            Verdict::Unknown => '?',
            Verdict::Refused => '✗',
        };
        self.worst = self.worst.max(verdict);
        self.line(
            &format!("{sign} {what}: {why}"),
            &json!({ "check": what, "verdict": verdict.word(), "detail": why }),
        );
    }

    pub(crate) fn right(&mut self, what: &str, why: &str) {
        self.add(what, Verdict::Right, why);
    }

    pub(crate) fn refused(&mut self, what: &str, why: &str) {
        self.add(what, Verdict::Refused, why);
    }

    /// Prints an error of the log itself.
    pub(crate) fn fatal(&mut self, what: &str, fatal: &Fatal) {
        let verdict = if fatal.is_verdict() {
            Verdict::Refused
        } else {
            Verdict::Unknown
        };
        self.add(what, verdict, &fatal.to_string());
    }

    /// Prints a remark.
    pub(crate) fn note(&self, detail: &str) {
        self.line(detail, &json!({ "note": detail }));
    }

    /// Returns whether no finding prevents the next step.
    pub(crate) fn stand(&self) -> bool {
        self.worst <= Verdict::Noted
    }

    /// Prints the successful result in one line.
    pub(crate) fn end(&self, verdict: &str, detail: &str, entries: u64) -> ExitCode {
        let json = json!({ "verdict": verdict, "entries": entries, "detail": detail });
        self.line(detail, &json);
        ExitCode::SUCCESS
    }

    /// Prints the failure to standard error, like the errors of all commands, and as JSON if
    /// requested.
    pub(crate) fn fail(&self, detail: &str) -> ExitCode {
        errln!("lucarne: {detail}");
        let code = match self.worst {
            Verdict::Refused => ExitCode::FAILURE,
            _ => ExitCode::from(UNKNOWN),
        };
        if self.json {
            let verdict = self.worst.max(Verdict::Unknown).word();
            self.line("", &json!({ "verdict": verdict, "detail": detail }));
        }
        code
    }

    fn line(&self, text: &str, json: &Value) {
        if self.json {
            outln!("{json}");
        } else {
            outln!("{text}");
        }
    }
}

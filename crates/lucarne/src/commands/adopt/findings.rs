//! The findings of a preflight: to people in lines, to programs in JSON, a line each.

use std::process::ExitCode;

use lucarne_log::Fatal;
use serde_json::{Value, json};

/// Exit code if something could not be looked at.
const UNTOLD: u8 = 2;

/// The verdict of a check, the worst last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    #[default]
    Right,
    /// Nobody can look at it, and nothing is lost if it is wrong.
    Noted,
    /// It could not be looked at.
    Untold,
    Refused,
}

impl Verdict {
    /// As one word, for programs.
    fn word(self) -> &'static str {
        match self {
            Verdict::Right => "right",
            Verdict::Noted => "noted",
            Verdict::Untold => "untold",
            Verdict::Refused => "refused",
        }
    }
}

/// The verdicts, each of which is printed when it is there.
pub(crate) struct Findings {
    json: bool,
    worst: Verdict,
}

impl Findings {
    pub(crate) fn new(json: bool) -> Self {
        let worst = Verdict::default();
        Findings { json, worst }
    }

    /// Prints a verdict, and keeps the worst. `what` is its code, which stays what it is.
    pub(crate) fn add(&mut self, what: &str, verdict: Verdict, why: &str) {
        let sign = match verdict {
            Verdict::Right => '✓',
            Verdict::Noted => '·',
            Verdict::Untold => '?',
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

    /// Prints what the log says of itself.
    pub(crate) fn fatal(&mut self, what: &str, fatal: &Fatal) {
        let verdict = match fatal.is_verdict() {
            true => Verdict::Refused,
            false => Verdict::Untold,
        };
        self.add(what, verdict, &fatal.to_string());
    }

    /// Prints something that is worth knowing.
    pub(crate) fn note(&self, detail: &str) {
        self.line(detail, &json!({ "note": detail }));
    }

    /// Returns whether nothing speaks against going on.
    pub(crate) fn stand(&self) -> bool {
        self.worst <= Verdict::Noted
    }

    /// Ends well, with one line that says what was done.
    pub(crate) fn end(&self, verdict: &str, detail: &str, entries: u64) -> ExitCode {
        let json = json!({ "verdict": verdict, "entries": entries, "detail": detail });
        self.line(detail, &json);
        ExitCode::SUCCESS
    }

    /// Ends badly: what is said of it goes to standard error as well, where the errors
    /// of all commands are.
    pub(crate) fn fail(&self, detail: &str) -> ExitCode {
        errln!("lucarne: {detail}");
        let code = match self.worst {
            Verdict::Refused => ExitCode::FAILURE,
            _ => ExitCode::from(UNTOLD),
        };
        if self.json {
            let verdict = self.worst.max(Verdict::Untold).word();
            self.line("", &json!({ "verdict": verdict, "detail": detail }));
        }
        code
    }

    fn line(&self, text: &str, json: &Value) {
        match self.json {
            true => outln!("{json}"),
            false => outln!("{text}"),
        }
    }
}

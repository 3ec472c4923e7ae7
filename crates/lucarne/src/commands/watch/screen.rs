//! Output of `lucarne watch`.

use std::io::{IsTerminal, Write};

use serde_json::json;

use super::history::Sight;
use crate::output::clear_line;

/// Columns of the sparkline on a terminal.
pub(super) const SPARK: usize = 24;

/// Printer of checks: JSON lines, or text on a terminal or elsewhere.
pub(super) struct Screen {
    json: bool,
    terminal: bool,
}

impl Screen {
    /// Creates the printer for standard output.
    pub(super) fn new(json: bool) -> Self {
        Screen {
            json,
            terminal: !json && std::io::stdout().is_terminal(),
        }
    }

    /// Prints a check. An unchanged checkpoint only updates the last line of a terminal.
    pub(super) fn sight(&self, sight: &Sight, spark: &str) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            if sight.new {
                writeln!(out, "{}", json_line(sight))?;
            }
            return out.flush();
        }
        let line = line(sight);
        match (self.terminal, sight.new) {
            (true, true) => write!(out, "\r\x1b[K{line}  {spark}\n")?,
            (true, false) => {
                write!(out, "\r\x1b[K{:>10}  {}", "", waiting(sight))?;
            }
            (false, true) => writeln!(out, "{line}")?,
            (false, false) => {}
        }
        out.flush()
    }

    /// Ends the last line of a terminal. A requested stop is a success.
    pub(super) fn stopped(&self) -> std::process::ExitCode {
        if self.terminal {
            outln!();
        }
        std::process::ExitCode::SUCCESS
    }

    /// Prints a problem.
    pub(super) fn trouble(&self, why: &str) {
        if self.terminal {
            clear_line();
        }
        errln!("lucarne: {why}");
    }
}

fn waiting(sight: &Sight) -> String {
    format!("unchanged, {} old", seconds(sight.age_ms))
}

/// Formats a check as text: size, growth, interval, age, rate.
pub(super) fn line(sight: &Sight) -> String {
    let growth = sight
        .growth
        .map_or(String::new(), |growth| format!("+{growth}"));
    let interval = sight.interval_ms.map_or(String::new(), |interval| {
        format!("after {}", seconds(interval))
    });
    let line = format!(
        "{:>12}  {growth:>8}  {interval:<12}  {:>8} old  {:>8.1}/s",
        sight.size,
        seconds(sight.age_ms),
        sight.rate
    );
    line.trim_end().to_owned()
}

/// Formats a check as a JSON object.
pub(super) fn json_line(sight: &Sight) -> String {
    json!({
        "size": sight.size,
        "growth": sight.growth,
        "intervalMs": sight.interval_ms,
        "ageMs": sight.age_ms,
        "timestamp": sight.timestamp,
        "perSecond": sight.rate,
    })
    .to_string()
}

/// Formats milliseconds as seconds with one decimal; from ten minutes on, as minutes.
pub(super) fn seconds(ms: u64) -> String {
    match ms {
        0..600_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => format!("{} min", ms / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_its_json() {
        let sight = Sight {
            size: 1_234_567,
            growth: Some(512),
            interval_ms: Some(1000),
            age_ms: 340,
            timestamp: 1_767_225_600_000,
            rate: 512.0,
            new: true,
        };
        assert_eq!(
            line(&sight),
            "     1234567      +512  after 1.0 s      0.3 s old     512.0/s"
        );
        let json: serde_json::Value = serde_json::from_str(&json_line(&sight)).unwrap();
        assert_eq!(json["growth"], 512);
        assert_eq!(json["ageMs"], 340);
    }
}

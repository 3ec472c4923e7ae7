//! Report of a check, printed one finding per line: as text, or as JSON.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use lucarne_log::{Cure, Finding, Problem, Refusal, Unwritten};
use lucarne_net::counted;
use lucarne_storage::Removed;
use serde_json::json;

use crate::output::clear_line;

/// Interval of progress lines on a terminal, and elsewhere.
const EVERY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Printer of findings, which counts them.
pub(super) struct Report {
    json: bool,
    terminal: bool,
    began: Instant,
    printed: Instant,
    /// Number of wrong files.
    pub(super) wrong: u64,
    /// Number of files and items that could not be read.
    pub(super) unread: u64,
    /// Number of entries with an older timestamp than an earlier entry.
    pub(super) disordered: u64,
    /// Number of files that were repaired.
    repaired: u64,
    /// Whether repairs are only listed.
    dry_run: bool,
}

impl Report {
    pub(super) fn new(json: bool, dry_run: bool) -> Self {
        Report {
            json,
            terminal: std::io::stderr().is_terminal(),
            began: Instant::now(),
            printed: Instant::now(),
            wrong: 0,
            unread: 0,
            disordered: 0,
            repaired: 0,
            dry_run,
        }
    }

    /// Reports a wrong or unreadable file.
    pub(super) fn finding(&mut self, finding: &Finding) {
        match finding.problem {
            Problem::Unreadable(_) => self.unread += 1,
            _ => self.wrong += 1,
        }
        self.line(&finding.to_string(), &described(finding));
    }

    /// Reports a repaired file.
    pub(super) fn cure(&mut self, cure: &Cure) {
        self.repaired += 1;
        let (finding, from) = (&cure.finding, &cure.from);
        let done = if self.dry_run {
            "can be repaired"
        } else {
            "repaired"
        };
        let mut line = format!("{done} from {from}: {finding}");
        if let Some(kept) = &cure.kept {
            line += &format!("; it is kept as {kept}");
        }
        let mut json = described(finding);
        json["repaired_from"] = from.as_str().into();
        json["kept"] = cure.kept.as_deref().into();
        self.line(&line, &json);
    }

    /// Reports a damaged round that was removed from the journal.
    pub(super) fn removed(&mut self, removed: &Removed) {
        self.repaired += 1;
        let Removed { file, kept } = removed;
        self.line(
            &format!("removed from the journal: {file}: damaged, but not needed; kept as {kept}"),
            &json!({ "path": file, "problem": "round", "kept": kept }),
        );
    }

    /// Reports a damaged round that a repair removes from the journal.
    pub(super) fn removable(&mut self, file: &str) {
        self.repaired += 1;
        self.line(
            &format!("can be removed from the journal: {file}: damaged, and not needed"),
            &json!({ "path": file, "problem": "round", "kept": null }),
        );
    }

    /// Prints an offered file that the repair rejected.
    pub(super) fn refusal(&self, refusal: &Refusal) {
        let Refusal {
            path,
            from,
            problem,
        } = refusal;
        self.note(&format!("not taken from {from}: {path}: {problem}"));
    }

    /// Prints a right file that could not be written.
    pub(super) fn unwritten(&self, unwritten: &Unwritten) {
        let Unwritten { path, problem } = unwritten;
        self.note(&format!("not written: {path}: {problem}"));
    }

    /// Reports the result of a repair.
    pub(super) fn mended(&mut self, mended: Result<Cure, Finding>) {
        match mended {
            Ok(cure) => self.cure(&cure),
            Err(finding) => self.finding(&finding),
        }
    }

    /// Reports a problem that is not in a file.
    pub(super) fn wrong(&mut self, problem: &'static str, detail: &str) {
        self.wrong += 1;
        self.line(detail, &json!({ "problem": problem, "detail": detail }));
    }

    /// Reports an item that could not be read.
    pub(super) fn unread(&mut self, problem: &'static str, detail: &str) {
        self.unread += 1;
        self.line(detail, &json!({ "problem": problem, "detail": detail }));
    }

    /// Prints a remark.
    pub(super) fn note(&self, detail: &str) {
        self.line(&format!("note: {detail}"), &json!({ "note": detail }));
    }

    /// Reports entries that are not in the order of time, if there are any.
    pub(super) fn disorder(&self) {
        if self.disordered > 0 {
            let count = self.disordered;
            self.note(&format!(
                "{count} entries have an older timestamp than an earlier entry, as hashed in the \
                 tree"
            ));
        }
    }

    /// Reports that the check ended early, because the last `tiles` data tiles have no right file.
    pub(super) fn absent(&self, tiles: u64, last: u64, size: u64) {
        let left = size - last;
        self.note(&format!(
            "the check ended at entry {last}: no file of the last {tiles} data tiles is right. \
             {left} entries were not checked: restore the files first, or find out whether the \
             log ever had {size} entries. With --state, the next check continues after these tiles"
        ));
    }

    /// Prints the progress at regular intervals.
    pub(super) fn progress(&mut self, checked: u64, first: u64, of: u64, bytes: u64) {
        let every = if self.terminal { EVERY.0 } else { EVERY.1 };
        if self.printed.elapsed() < every {
            return;
        }
        self.printed = Instant::now();
        let rate = Rate::of(checked - first, bytes, self.began.elapsed());
        let left = (of - checked) as f64 / rate.entries.max(1.0);
        let of = counted(of, "entry");
        let line = format!("{checked} of {of}, {rate}, {} left", time(left));
        if self.terminal {
            clear_line();
            err!("{line}");
        } else {
            noteln!("{line}");
        }
    }

    /// Prints the result in one line.
    pub(super) fn end(&mut self, verdict: &str, checked: (u64, u64), bytes: u64, of: u64) {
        let (first, last) = checked;
        let took = self.began.elapsed();
        let rate = Rate::of(last - first, bytes, took);
        self.line(
            &format!(
                "{verdict}: {}{} wrong, {} unreadable; {last} of {} checked in {}, {rate}",
                self.repairs(),
                self.wrong,
                self.unread,
                counted(of, "entry"),
                time(took.as_secs_f64())
            ),
            &json!({
                "verdict": verdict,
                "repaired": self.repaired,
                "wrong": self.wrong,
                "unread": self.unread,
                "entries": last,
                "size": of,
                "bytes": bytes,
                "seconds": took.as_secs_f64(),
            }),
        );
    }

    /// Returns the number of files that are wrong now.
    pub(super) fn still_wrong(&self) -> u64 {
        if self.dry_run {
            self.wrong + self.repaired
        } else {
            self.wrong
        }
    }

    /// Formats the number of repaired files for the last line.
    fn repairs(&self) -> String {
        match (self.repaired, self.dry_run) {
            (0, _) => String::new(),
            (repaired, true) => format!("{repaired} to be repaired, "),
            (repaired, false) => format!("{repaired} repaired, "),
        }
    }

    fn line(&self, text: &str, json: &serde_json::Value) {
        if self.terminal {
            clear_line();
        }
        if self.json {
            outln!("{json}");
        } else {
            outln!("{text}");
        }
    }
}

/// Formats a finding as JSON.
fn described(finding: &Finding) -> serde_json::Value {
    json!({
        "path": finding.path,
        "offset": finding.offset,
        "entry": finding.entry,
        "problem": finding.problem.code(),
        "detail": finding.detail(),
    })
}

struct Rate {
    entries: f64,
    bytes: f64,
}

impl Rate {
    fn of(entries: u64, bytes: u64, took: Duration) -> Self {
        let seconds = took.as_secs_f64().max(1e-9);
        Rate {
            entries: entries as f64 / seconds,
            bytes: bytes as f64 / seconds,
        }
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.0} entries/s, {:.1} MB/s",
            self.entries,
            self.bytes / 1e6
        )
    }
}

/// Formats seconds as seconds, minutes or hours.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

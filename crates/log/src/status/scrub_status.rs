//! The state of a scrubber.

use lucarne_tlog::Tile;
use lucarne_x509::text::counted;
use parking_lot::Mutex;

use crate::status::state::Check;

/// The state of a scrubber, for `/health` and the status page.
#[derive(Debug, Default)]
pub(crate) struct ScrubStatus(pub(crate) Mutex<Status>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    /// Number of entries that this pass has checked, and number of entries of the whole pass;
    /// `None` between two passes.
    pub(crate) pass: Option<(u64, u64)>,
    /// The time when the last complete pass ended, in Unix milliseconds; `None` if no pass has
    /// ended yet.
    pub(crate) ended_ms: Option<u64>,
    /// Number of samples since startup; 0 if passes are complete.
    pub(crate) samples: u64,
    /// Number of findings of the last complete pass, or of all samples.
    pub(crate) findings: u64,
    /// The reason why files cannot be checked now.
    pub(crate) away: Option<String>,
    /// The names tiles that are wrong and were not restored, by data tile, with their problems.
    names: Vec<(Tile, String)>,
}

/// Maximum number of names tiles in the list.
const MOST_NAMES: usize = 5;

impl ScrubStatus {
    /// Adds a names tile that is wrong and was not restored.
    pub(crate) fn note_names(&self, data: Tile, problem: String) {
        let names = &mut self.0.lock().names;
        names.retain(|(noted, _)| *noted != data);
        if names.len() < MOST_NAMES {
            names.push((data, problem));
        }
    }

    /// Returns the names tiles that are wrong and were not restored, with their problems.
    pub(crate) fn names(&self) -> Vec<(Tile, String)> {
        self.0.lock().names.clone()
    }

    /// Removes a names tile that is right.
    pub(crate) fn forget_names(&self, data: Tile) {
        self.0.lock().names.retain(|(noted, _)| *noted != data);
    }

    /// Formats the status as a health check. The list of damaged files is a separate check.
    pub(crate) fn check(&self, now_ms: u64) -> Check {
        let status = self.0.lock().clone();
        let found = match status.findings {
            0 => "nothing wrong".to_owned(),
            findings => counted(findings, "problem"),
        };
        let last = match (status.samples, status.ended_ms) {
            (0, None) => "no pass has ended yet".into(),
            (0, Some(ended_ms)) => {
                let hours = now_ms.saturating_sub(ended_ms) as f64 / 3_600_000.0;
                format!("the last whole pass ended {hours:.1} h ago and found {found}")
            }
            (samples, _) => {
                let samples = counted(samples, "random tile");
                format!("{samples} and listings: found {found}")
            }
        };
        let pass = status.pass.map_or(String::new(), |(checked, of)| {
            format!(
                "; {checked} of {} checked in this pass",
                counted(of, "entry")
            )
        });
        Check {
            name: "scrub",
            ok: status.away.is_none(),
            detail: match status.away {
                None => format!("{last}{pass}"),
                Some(problem) => format!("nothing can be checked: {problem}; {last}{pass}"),
            },
        }
    }
}

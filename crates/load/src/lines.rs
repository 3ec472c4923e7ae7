//! Progress as one line per second, for logs and pipes.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use crate::report::format::{clock, duration, printable, short};
use crate::snapshot::{LATE, Phase, ScenarioRow};
use crate::{Running, Snapshot};

/// Interval between checks for a new snapshot.
const LOOK: Duration = Duration::from_millis(50);

/// Writes [`line()`] to `out` for each second of the run, until it ends.
///
/// # Errors
///
/// If writing to `out` fails. The run continues.
pub fn lines(running: &Running, out: &mut impl Write) -> io::Result<()> {
    let mut snapshots = running.snapshots();
    let mut told = None;
    loop {
        let over = running.is_over();
        match snapshots.has_changed() {
            Ok(true) => {
                let snapshot = snapshots.borrow_and_update().clone();
                // A phase without new data is written once.
                let now = (snapshot.phase, snapshot.elapsed.as_secs());
                if told != Some(now) {
                    told = Some(now);
                    writeln!(out, "{}", line(&snapshot))?;
                    out.flush()?;
                }
            }
            _ if over => return Ok(()),
            _ => thread::sleep(LOOK),
        }
    }
}

/// Formats a second: `12s/1m00s write 500/s p50=8.1ms p99=20.3ms | read 300/s …`.
///
/// The fixed parts come first; failures, dropped arrivals and crossed thresholds follow if there
/// are any.
pub fn line(snapshot: &Snapshot) -> String {
    let time = format!(
        "{}/{}",
        clock(snapshot.elapsed.as_secs_f64()),
        clock(snapshot.planned.as_secs_f64())
    );
    let phase = match snapshot.phase {
        Phase::Preparing => return format!("{time} preparing"),
        Phase::Waiting => return format!("{time} waiting for the start"),
        Phase::Finishing => return format!("{time} auditing"),
        Phase::Over => return format!("{time} over"),
        Phase::Stopping => " stopping",
        Phase::Running => "",
    };
    let rows: Vec<String> = snapshot.scenarios.iter().map(scenario).collect();
    let mut text = format!("{time}{phase} {}", rows.join(" | "));
    let errors: u64 = snapshot.errors.iter().map(|error| error.count).sum();
    if errors > 0 {
        text.push_str(&format!(" | {errors} errors"));
        if let Some(most) = snapshot.errors.first() {
            text.push_str(&format!(", most of them {}", most.kind));
        }
    }
    let crossed = snapshot
        .thresholds
        .iter()
        .filter(|t| !t.passed && t.samples > 0)
        .count();
    if crossed > 0 {
        let word = if crossed == 1 {
            "threshold"
        } else {
            "thresholds"
        };
        text.push_str(&format!(" | {crossed} {word} crossed"));
    }
    printable(&text)
}

fn scenario(row: &ScenarioRow) -> String {
    let rate = row.figures.requests.max(row.iterations);
    let mut text = format!("{} {}/s", row.name, short(rate));
    if row.asked > 0.0 && row.achieved < 0.98 * row.asked {
        text.push_str(&format!(
            " (started {} of {}/s)",
            short(row.achieved),
            short(row.asked)
        ));
    }
    if !row.figures.max.is_zero() {
        let ms = |latency: Duration| duration(latency.as_secs_f64() * 1e3);
        text.push_str(&format!(
            " p50={} p99={} max={}",
            ms(row.figures.p50),
            ms(row.figures.p99),
            ms(row.figures.max)
        ));
    }
    text.push_str(&format!(" busy={}/{}", row.busy, row.users));
    if row.start_delay >= LATE {
        let ms = duration(row.start_delay.as_secs_f64() * 1e3);
        text.push_str(&format!(" start delay p99={ms} (this machine)"));
    }
    for (count, what) in [
        (row.figures.failures, "failed/s"),
        (row.dropped as f64, "dropped"),
        (row.failed_checks as f64, "failed checks"),
    ] {
        if count > 0.0 {
            text.push_str(&format!(" {} {what}", short(count)));
        }
    }
    text
}

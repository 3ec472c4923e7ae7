//! Text lines of the live view.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::model::Model;
use crate::report::format::{clock, cut, printable, short};
use crate::report::threshold::observed;
use crate::snapshot::Phase;

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the phase, the elapsed and the planned time.
pub(super) fn headline(model: &Model, width: usize) -> Line<'static> {
    let snapshot = &model.snapshot;
    let (elapsed, planned) = (
        snapshot.elapsed.as_secs_f64(),
        snapshot.planned.as_secs_f64(),
    );
    let phase = match snapshot.phase {
        Phase::Preparing => "preparing",
        Phase::Waiting => "waiting for the start",
        Phase::Running => "running",
        Phase::Stopping => "stopping",
        Phase::Finishing => "auditing",
        Phase::Over => "over",
    };
    let text = format!(" {phase}  {} / {}  ", clock(elapsed), clock(planned));
    let room = width.saturating_sub(text.chars().count() + 6);
    let share = if planned > 0.0 {
        (elapsed / planned).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let full = (share * room as f64).round() as usize;
    let bar = match room {
        8.. => format!(
            "{}{} {:>3.0}%",
            "█".repeat(full),
            "░".repeat(room - full),
            share * 100.0
        ),
        _ => format!("{:.0}%", share * 100.0),
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Line::from(vec![
        Span::styled(text, bold),
        Span::styled(bar, tint(model, Color::Blue)),
    ])
}

/// Returns a title line: bold words, and a suffix.
pub(super) fn title(words: &str, rest: &str, width: usize) -> Line<'static> {
    let room = width.saturating_sub(words.chars().count() + 2);
    Line::from(vec![
        Span::styled(
            format!(" {words} "),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Span::styled(cut(rest, room), Style::new().add_modifier(Modifier::DIM)),
    ])
}

/// Returns the name of the shown scenario, or "all scenarios".
pub(super) fn subject(model: &Model) -> String {
    match model
        .chosen
        .and_then(|index| model.snapshot.scenarios.get(index))
    {
        Some(row) => printable(&row.name),
        None if model.snapshot.scenarios.len() == 1 => printable(&model.snapshot.scenarios[0].name),
        None => "all scenarios".to_owned(),
    }
}

/// Draws bars of the newest values, `height` lines high, the highest line first.
pub(super) fn bars(
    values: impl ExactSizeIterator<Item = f64>,
    width: usize,
    height: usize,
) -> Vec<String> {
    let skip = values.len().saturating_sub(width);
    let values: Vec<f64> = values.skip(skip).collect();
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let line = |level: usize| {
        let bar = |value: &f64| {
            let eighths = (value / most * (height * 8) as f64).round() as usize;
            BARS[eighths.saturating_sub(level * 8).min(8)]
        };
        values.iter().map(bar).collect()
    };
    (0..height).rev().map(line).collect()
}

/// Returns kinds of errors, the most frequent first.
pub(super) fn errors(model: &Model, width: usize, height: usize) -> Vec<Line<'static>> {
    let errors = &model.snapshot.errors;
    let total: u64 = errors.iter().map(|error| error.count).sum();
    let failed: u64 = model
        .snapshot
        .scenarios
        .iter()
        .map(|row| row.failed_checks)
        .sum();
    let about = match (total, failed) {
        (0, 0) => "none".to_owned(),
        (total, 0) => short(total as f64),
        (total, failed) => format!(
            "{}, and {} failed checks",
            short(total as f64),
            short(failed as f64)
        ),
    };
    let mut lines = vec![title("errors", &about, width)];
    for error in errors.iter().take(height.saturating_sub(1)) {
        let count = short(error.count as f64);
        let text = format!(" {count:>7}  {}  {}", error.kind, error.example());
        lines.push(Line::styled(
            cut(&printable(&text), width),
            tint(model, Color::Red),
        ));
    }
    lines.truncate(height);
    lines
}

/// Returns the thresholds, crossed thresholds first.
pub(super) fn thresholds(model: &Model, width: usize, height: usize) -> Vec<Line<'static>> {
    let thresholds = &model.snapshot.thresholds;
    let crossed = |sampled: bool| {
        thresholds
            .iter()
            .filter(move |t| !t.passed && (t.samples > 0) == sampled)
    };
    let held = thresholds.iter().filter(|threshold| threshold.passed);
    let count = held.clone().count();
    let mut lines = vec![title(
        "thresholds",
        &format!("{count} of {} hold", thresholds.len()),
        width,
    )];
    let sorted = crossed(true).chain(held).chain(crossed(false));
    for threshold in sorted.take(height.saturating_sub(1)) {
        let seen = observed(threshold);
        let seen = seen.unwrap_or_else(|| "no samples yet".to_owned());
        // A threshold without samples is not crossed yet.
        let (mark, colour) = match (threshold.passed, threshold.samples) {
            (true, _) => ('✓', Color::Green),
            (false, 0) => ('·', Color::Yellow),
            (false, _) => ('✗', Color::Red),
        };
        let text = format!(
            " {mark} {}: {}  {seen}",
            threshold.metric, threshold.expression
        );
        lines.push(Line::styled(
            cut(&printable(&text), width),
            tint(model, colour),
        ));
    }
    lines.truncate(height);
    lines
}

/// Returns the effect of the last key, or the list of keys.
pub(super) fn footer(model: &Model, width: usize) -> Line<'static> {
    let keys = " + - reads  > < writes  w W users  ↑ ↓ choose  ? help  q stop";
    let few = " ? help  q stop";
    let text = match (model.message.is_empty(), width) {
        (false, _) => format!(" {}", model.message),
        (true, 62..) => keys.to_owned(),
        (true, _) => few.to_owned(),
    };
    Line::styled(cut(&text, width), Style::new().add_modifier(Modifier::DIM))
}

/// Returns a style with this colour, if colours are enabled.
pub(super) fn tint(model: &Model, colour: Color) -> Style {
    if model.colour {
        Style::new().fg(colour)
    } else {
        Style::new()
    }
}

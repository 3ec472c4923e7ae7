//! Table of scenarios, with as many columns as fit.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::model::Model;
use crate::report::format::{cut, duration, pad, pad_left, printable, short};
use crate::snapshot::{LATE, ScenarioRow};

/// Smallest and largest width of names.
const NAME: (usize, usize) = (8, 30);

struct Column {
    head: &'static str,
    width: usize,
    /// Columns with a high rank are dropped first if there is no room.
    rank: u8,
    text: fn(&ScenarioRow) -> String,
    /// Returns whether the figure indicates a problem.
    bad: fn(&ScenarioRow) -> bool,
}

const fn column(
    head: &'static str,
    width: usize,
    rank: u8,
    text: fn(&ScenarioRow) -> String,
) -> Column {
    Column {
        head,
        width,
        rank,
        text,
        bad: |_| false,
    }
}

const fn bad(column: Column, bad: fn(&ScenarioRow) -> bool) -> Column {
    Column { bad, ..column }
}

fn ms(duration_: std::time::Duration) -> String {
    if duration_.is_zero() {
        "–".to_owned()
    } else {
        duration(duration_.as_secs_f64() * 1e3)
    }
}

const COLUMNS: [Column; 15] = [
    column("asked/s", 8, 4, |row| {
        if row.asked > 0.0 {
            short(row.asked)
        } else {
            "–".to_owned()
        }
    }),
    bad(column("start/s", 8, 5, |row| short(row.achieved)), |row| {
        row.achieved < 0.98 * row.asked
    }),
    column("req/s", 7, 0, |row| short(row.requests)),
    bad(column("fail/s", 7, 1, |row| short(row.failures)), |row| {
        row.failures > 0.0
    }),
    bad(
        column("drop", 6, 7, |row| short(row.dropped as f64)),
        |row| row.dropped > 0,
    ),
    column("busy", 6, 6, |row| short(row.busy as f64)),
    column("users", 6, 8, |row| short(row.users as f64)),
    bad(
        column("wait", 6, 11, |row| short(row.waiting as f64)),
        |row| row.waiting > 0,
    ),
    bad(column("delay", 7, 12, |row| ms(row.start_delay)), |row| {
        row.start_delay >= LATE
    }),
    column("p50", 7, 3, |row| ms(row.p50)),
    column("p90", 7, 9, |row| ms(row.p90)),
    column("p99", 7, 2, |row| ms(row.p99)),
    column("max", 7, 10, |row| ms(row.max)),
    bad(
        column("✗ checks", 9, 13, |row| short(row.failed_checks as f64)),
        |row| row.failed_checks > 0,
    ),
    column("in/s", 8, 14, |row| short(row.bytes_in)),
];

/// Returns the head and at most `height - 1` rows, `width` wide.
pub(super) fn table(model: &Model, width: usize, height: usize) -> Vec<Line<'static>> {
    let rows = &model.snapshot.scenarios;
    let longest = rows
        .iter()
        .map(|row| row.name.chars().count())
        .max()
        .unwrap_or(0);
    // Names are shortened before important columns are dropped.
    let least = (longest + 1).min(NAME.1).min(width / 4).max(NAME.0);
    let columns = fitting(width.saturating_sub(least + 2));
    let taken: usize = columns.iter().map(|column| column.width).sum();
    let most = width.saturating_sub(taken + 2).min(NAME.1);
    let name = (longest + 1).clamp(NAME.0.min(most), most.max(NAME.0.min(most)));
    let head: String = columns
        .iter()
        .map(|column| pad_left(column.head, column.width))
        .collect();
    let head = cut(&format!("  {}{head}", pad("scenario", name)), width);
    let mut lines = vec![Line::styled(head, Style::new().add_modifier(Modifier::DIM))];
    let all = height.saturating_sub(1);
    // A line with the number of hidden rows takes the place of one row.
    let room = if rows.len() > all {
        all.saturating_sub(1)
    } else {
        all
    };
    // The chosen row is always visible.
    let first = model
        .chosen
        .map_or(0, |chosen| (chosen + 1).saturating_sub(room));
    for (index, row) in rows.iter().enumerate().skip(first).take(room) {
        lines.push(line(model, index, row, name, &columns));
    }
    if rows.len() > room {
        lines.push(Line::raw(format!("  … {} more: ↑ ↓", rows.len() - room)));
    }
    lines
}

fn line(
    model: &Model,
    index: usize,
    row: &ScenarioRow,
    name: usize,
    columns: &[&Column],
) -> Line<'static> {
    let chosen = model.chosen == Some(index);
    let mark = if chosen { "▶ " } else { "  " };
    let title = pad(&cut(&printable(&row.name), name.saturating_sub(1)), name);
    let weight = if chosen {
        Modifier::BOLD
    } else {
        Modifier::empty()
    };
    let mut spans = vec![Span::styled(
        format!("{mark}{title}"),
        Style::new().add_modifier(weight),
    )];
    for column in columns {
        let text = pad_left(&(column.text)(row), column.width);
        let style = match ((column.bad)(row), model.colour) {
            (true, true) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            (true, false) => Style::new().add_modifier(Modifier::BOLD),
            (false, _) => Style::new(),
        };
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

/// Returns the most important columns that fit, in their order.
fn fitting(room: usize) -> Vec<&'static Column> {
    let mut ranked: Vec<&Column> = COLUMNS.iter().collect();
    ranked.sort_by_key(|column| column.rank);
    let mut left = room;
    let mut lowest = 0;
    for column in ranked {
        if column.width > left {
            break;
        }
        left -= column.width;
        lowest = column.rank + 1;
    }
    COLUMNS
        .iter()
        .filter(|column| column.rank < lowest)
        .collect()
}

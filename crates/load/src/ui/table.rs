//! Table of scenarios and their parts, with as many columns as fit.

use std::time::Duration;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use self::Figure::{Requests, Scenario};
use super::model::Model;
use crate::report::format::{cut, cut_middle, duration, pad, pad_left, printable, short, width};
use crate::snapshot::{LATE, PartRow, RequestFigures, ScenarioRow};

/// Smallest and largest width of names.
const NAME: (usize, usize) = (8, 30);

struct Column {
    head: &'static str,
    width: usize,
    /// Columns with a high rank are dropped first if there is no room.
    rank: u8,
    figure: Figure,
}

/// Text of a cell, and whether the figure indicates a problem.
type Cell = (String, bool);

enum Figure {
    /// Only scenarios have the figure.
    Scenario(fn(&ScenarioRow) -> Cell),
    /// Scenarios and their parts have the figure.
    Requests(fn(&RequestFigures) -> Cell),
}

const fn column(head: &'static str, width: usize, rank: u8, figure: Figure) -> Column {
    Column {
        head,
        width,
        rank,
        figure,
    }
}

fn ms(duration_: Duration) -> Cell {
    let text = if duration_.is_zero() {
        "–".to_owned()
    } else {
        duration(duration_.as_secs_f64() * 1e3)
    };
    (text, false)
}

fn count(value: u64) -> Cell {
    (short(value as f64), false)
}

/// Any count above zero indicates a problem.
fn problems(value: f64) -> Cell {
    (short(value), value > 0.0)
}

const COLUMNS: [Column; 15] = [
    column("asked/s", 8, 4, Scenario(asked)),
    column("start/s", 8, 5, Scenario(started)),
    column("req/s", 7, 0, Requests(|it| (short(it.requests), false))),
    column("fail/s", 7, 1, Requests(|it| problems(it.failures))),
    column("drop", 6, 7, Scenario(|row| problems(row.dropped as f64))),
    column("busy", 6, 6, Scenario(|row| count(row.busy))),
    column("users", 6, 8, Scenario(|row| count(row.users))),
    column("wait", 6, 11, Scenario(|row| problems(row.waiting as f64))),
    column("delay", 7, 12, Scenario(delay)),
    column("p50", 7, 3, Requests(|it| ms(it.p50))),
    column("p90", 7, 9, Requests(|it| ms(it.p90))),
    column("p99", 7, 2, Requests(|it| ms(it.p99))),
    column("max", 7, 10, Requests(|it| ms(it.max))),
    column("✗ checks", 9, 13, Scenario(failed)),
    column("in/s", 8, 14, Requests(|it| (short(it.bytes_in), false))),
];

fn asked(row: &ScenarioRow) -> Cell {
    let by_rate = row.asked > 0.0;
    let text = by_rate.then(|| short(row.asked));
    (text.unwrap_or_else(|| "–".to_owned()), false)
}

fn started(row: &ScenarioRow) -> Cell {
    (short(row.achieved), row.achieved < 0.98 * row.asked)
}

fn delay(row: &ScenarioRow) -> Cell {
    (ms(row.start_delay).0, row.start_delay >= LATE)
}

fn failed(row: &ScenarioRow) -> Cell {
    problems(row.failed_checks as f64)
}

/// Returns the head and at most `height - 1` rows, `width` wide.
pub(super) fn table(model: &Model, width: usize, height: usize) -> Vec<Line<'static>> {
    let rows = &model.snapshot.scenarios;
    let all = height.saturating_sub(1);
    let parts = Parts::of(model, all.saturating_sub(rows.len()));
    let (columns, name) = layout(rows, &parts, width);
    let head: String = columns
        .iter()
        .map(|column| pad_left(column.head, column.width))
        .collect();
    let head = cut(&format!("  {}{head}", pad("scenario", name)), width);
    let mut lines = vec![Line::styled(head, Style::new().add_modifier(Modifier::DIM))];
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
        let chosen = model.chosen == Some(index);
        let mark = if chosen { "▶ " } else { "  " };
        let style = if chosen {
            Style::new().add_modifier(Modifier::BOLD)
        } else {
            Style::new()
        };
        let title = pad(&cut(&printable(&row.name), name.saturating_sub(1)), name);
        let title = Span::styled(format!("{mark}{title}"), style);
        let cells = columns.iter().map(|column| column.of_scenario(row));
        lines.push(line(title, cells, model.colour));
        for part in parts.shown(index, row) {
            // Names of parts often have the same beginning.
            let title = cut_middle(&printable(&part.name), name.saturating_sub(2));
            let title = Span::raw(format!("   {}", pad(&title, name.saturating_sub(1))));
            let cells = columns.iter().map(|column| column.of_part(part));
            lines.push(line(title, cells, model.colour));
        }
    }
    if rows.len() > room {
        lines.push(Line::raw(format!("  … {} more: ↑ ↓", rows.len() - room)));
    }
    lines
}

/// Returns the columns that fit, and the width of the names.
fn layout(rows: &[ScenarioRow], parts: &Parts, whole: usize) -> (Vec<&'static Column>, usize) {
    let widths = rows.iter().enumerate().flat_map(|(index, row)| {
        let parts = parts.shown(index, row).iter();
        let parts = parts.map(|part| 1 + width(&part.name));
        parts.chain([width(&row.name)])
    });
    let longest = widths.max().unwrap_or(0);
    // Names are shortened before important columns are dropped.
    let least = (longest + 1).min(NAME.1).min(whole / 4).max(NAME.0);
    let columns = fitting(whole.saturating_sub(least + 2));
    let taken: usize = columns.iter().map(|column| column.width).sum();
    let most = whole.saturating_sub(taken + 2).min(NAME.1);
    let name = (longest + 1).clamp(NAME.0.min(most), most.max(NAME.0.min(most)));
    (columns, name)
}

/// The parts that the table shows.
struct Parts {
    /// The scenario whose parts are shown; `None` for all scenarios.
    of: Option<usize>,
    /// Maximum number of parts of a scenario.
    most: usize,
}

impl Parts {
    /// Divides `room` lines among the scenarios that show their parts.
    fn of(model: &Model, room: usize) -> Self {
        let of = model.chosen;
        let scenarios = model.snapshot.scenarios.iter();
        let split = scenarios.filter(|row| !row.parts.is_empty()).count();
        let most = room / of.map_or(split, |_| 1).max(1);
        Parts { of, most }
    }

    fn shown<'r>(&self, index: usize, row: &'r ScenarioRow) -> &'r [PartRow] {
        if self.of.is_none_or(|chosen| chosen == index) {
            &row.parts[..self.most.min(row.parts.len())]
        } else {
            &[]
        }
    }
}

impl Column {
    fn of_scenario(&self, row: &ScenarioRow) -> Cell {
        let (text, bad) = match self.figure {
            Scenario(figure) => figure(row),
            Requests(figure) => figure(&row.figures),
        };
        (pad_left(&text, self.width), bad)
    }

    fn of_part(&self, part: &PartRow) -> Cell {
        let (text, bad) = match self.figure {
            Scenario(_) => Cell::default(),
            Requests(figure) => figure(&part.figures),
        };
        (pad_left(&text, self.width), bad)
    }
}

fn line(title: Span<'static>, cells: impl Iterator<Item = Cell>, colour: bool) -> Line<'static> {
    let cells = cells.map(|(text, bad)| {
        let style = match (bad, colour) {
            (true, true) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            (true, false) => Style::new().add_modifier(Modifier::BOLD),
            (false, _) => Style::new(),
        };
        Span::styled(text, style)
    });
    [title].into_iter().chain(cells).collect()
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

//! Layout of the live view.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

use super::heat::Heat;
use super::keys::HELP;
use super::model::{Model, Past};
use super::{BUCKETS, parts, table};
use crate::heat::heat_bounds;
use crate::report::format::{pad, short};

/// Minimum width for errors and thresholds next to each other.
const WIDE: u16 = 110;

/// Draws everything that fits.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    let heights = Heights::of(area, model);
    let [head, table, throughput, heat, below, footer] = Layout::vertical([
        Constraint::Length(2.min(area.height)),
        Constraint::Length(heights.table),
        Constraint::Length(heights.throughput),
        Constraint::Min(0),
        Constraint::Length(heights.below),
        Constraint::Length(1),
    ])
    .areas(area);
    let width = usize::from(area.width);
    lines(frame, head, vec![parts::headline(model, width)]);
    lines(
        frame,
        table,
        table::table(model, width, table.height.into()),
    );
    let past = model.shown();
    draw_throughput(frame, throughput, model, &past);
    draw_heat(frame, heat, model, &past);
    draw_below(frame, below, model, &heights);
    lines(frame, footer, vec![parts::footer(model, width)]);
    if model.help {
        draw_help(frame, area);
    }
}

/// The most lines that the heat strip fills: a title, and a line for each bucket.
const HEAT: u16 = BUCKETS as u16 + 1;

/// Heights of the parts in lines. The heat strip takes the lines that the other parts leave, up to
/// [`HEAT`] lines. The bars of the throughput take all further lines.
struct Heights {
    table: u16,
    throughput: u16,
    below: u16,
    errors: u16,
}

impl Heights {
    fn of(area: Rect, model: &Model) -> Self {
        let left = area.height.saturating_sub(3);
        let count = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let scenarios = &model.snapshot.scenarios;
        let rows: usize = scenarios.iter().map(|row| 1 + row.parts.len()).sum();
        let table = count(rows).saturating_add(2).min(left / 3 + 2);
        let throughput = match left {
            0..16 => 0,
            16..30 => 3,
            30..45 => 5,
            _ => 9,
        };
        let most = left.saturating_sub(table + throughput) / 2;
        let errors = count(model.snapshot.errors.len()).saturating_add(1);
        let thresholds = match model.snapshot.thresholds.len() {
            0 => 0,
            some => count(some).saturating_add(1),
        };
        let side_by_side = area.width >= WIDE;
        let wanted = if side_by_side {
            errors.max(thresholds)
        } else {
            errors.saturating_add(thresholds)
        };
        let below = wanted.min(most);
        let heat = left.saturating_sub(table + throughput + below);
        let throughput = throughput + heat.saturating_sub(HEAT);
        // Errors matter more, but must not hide all thresholds.
        let spare = thresholds.min(below / 2);
        let errors = if side_by_side {
            below
        } else {
            errors.min(below - spare)
        };
        Heights {
            table,
            throughput,
            below,
            errors,
        }
    }
}

fn lines(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>) {
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_throughput(frame: &mut Frame<'_>, area: Rect, model: &Model, past: &Past) {
    if area.height < 2 {
        return;
    }
    let width = usize::from(area.width);
    let most = past.requests.iter().copied().fold(0.0, f64::max);
    let now = past.requests.back().copied().unwrap_or(0.0);
    let about = format!(
        "{} · {}/s now, {}/s at most",
        parts::subject(model),
        short(now),
        short(most)
    );
    let indent = usize::from(INDENT);
    let bars = parts::bars(
        past.requests.iter().copied(),
        width.saturating_sub(indent),
        usize::from(area.height) - 1,
    );
    let mut shown = vec![parts::title("requests", &about, width)];
    let style = parts::tint(model, Color::Cyan);
    shown.extend(
        bars.into_iter()
            .map(|bar| Line::styled(format!("{}{bar}", " ".repeat(indent)), style)),
    );
    lines(frame, area, shown);
}

/// Aligns the bars with the columns of the heat strip.
const INDENT: u16 = super::heat::LABELS;

fn draw_heat(frame: &mut Frame<'_>, area: Rect, model: &Model, past: &Past) {
    if area.height < 2 {
        return;
    }
    let [top, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let about = format!(
        "{} · a column a second, the darker the more",
        parts::subject(model)
    );
    lines(
        frame,
        top,
        vec![parts::title("latency", &about, area.width.into())],
    );
    let heat = Heat {
        columns: &past.heat,
        bounds: &lower_bounds(),
        colour: model.colour,
    };
    frame.render_widget(heat, rest);
}

/// Returns the lower bound of each bucket in milliseconds.
fn lower_bounds() -> [f64; BUCKETS] {
    let uppers = heat_bounds().map(|bound| bound.as_secs_f64() * 1e3);
    std::array::from_fn(|bucket| if bucket == 0 { 0.0 } else { uppers[bucket - 1] })
}

fn draw_below(frame: &mut Frame<'_>, area: Rect, model: &Model, heights: &Heights) {
    let [errors, thresholds] = if area.width >= WIDE {
        Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area)
    } else {
        Layout::vertical([Constraint::Length(heights.errors), Constraint::Min(0)]).areas(area)
    };
    lines(
        frame,
        errors,
        parts::errors(model, errors.width.into(), errors.height.into()),
    );
    if !model.snapshot.thresholds.is_empty() {
        let (width, height) = (thresholds.width.into(), thresholds.height.into());
        lines(frame, thresholds, parts::thresholds(model, width, height));
    }
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let text: Vec<Line<'static>> = HELP
        .iter()
        .map(|(keys, meaning)| Line::raw(format!(" {} {meaning} ", pad(keys, 4))))
        .collect();
    let width = text.iter().map(Line::width).max().unwrap_or(0) as u16 + 2;
    let height = text.len() as u16 + 2;
    let [area] = Layout::horizontal([Constraint::Length(width)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    let [area] = Layout::vertical([Constraint::Length(height)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    frame.render_widget(Clear, area);
    let block = Block::bordered()
        .title(" keys ")
        .border_style(Style::new().add_modifier(Modifier::BOLD));
    frame.render_widget(Paragraph::new(text).block(block), area);
}

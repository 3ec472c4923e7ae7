//! Heat strip: a column per second, fast responses at the bottom, slow responses at the top, more
//! responses in darker cells.

use std::collections::VecDeque;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::widgets::Widget;

use super::BUCKETS;
use crate::report::format;

/// Columns for the labels on the left.
pub(super) const LABELS: u16 = 7;
/// Shades from few to many, distinct without colour.
const SHADES: [&str; 5] = ["·", "░", "▒", "▓", "█"];
const COLOURS: [Color; 5] = [
    Color::Blue,
    Color::Cyan,
    Color::Green,
    Color::Yellow,
    Color::Red,
];

/// Draws the newest columns that fit.
pub(super) struct Heat<'a> {
    /// Responses per bucket in one second, the oldest column first.
    pub(super) columns: &'a VecDeque<[u32; BUCKETS]>,
    /// Lower bounds of the buckets, in milliseconds.
    pub(super) bounds: &'a [f64; BUCKETS],
    pub(super) colour: bool,
}

impl Widget for Heat<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let labels = if area.width > 3 * LABELS { LABELS } else { 0 };
        let width = usize::from(area.width.saturating_sub(labels));
        if area.height == 0 || width == 0 {
            return;
        }
        let skip = self.columns.len().saturating_sub(width);
        let visible: Vec<_> = self.columns.iter().skip(skip).collect();
        let rows = rows(&visible, usize::from(area.height));
        let most = rows
            .iter()
            .flat_map(|row| visible.iter().map(|column| total(column, row)))
            .max()
            .unwrap_or(0);
        for (above, row) in rows.iter().rev().enumerate() {
            let y = area.y + above as u16;
            if labels > 0 {
                let label = match self.bounds[row.start] {
                    0.0 => format!("<{:>5} ", format::duration(self.bounds[1])),
                    lowest => format!("{:>6} ", format::duration(lowest)),
                };
                buffer.set_string(area.x, y, label, Style::new());
            }
            for (i, column) in visible.iter().enumerate() {
                let Some(level) = level(total(column, row), most) else {
                    continue;
                };
                let style = if self.colour {
                    Style::new().fg(COLOURS[level])
                } else {
                    Style::new()
                };
                buffer.set_string(area.x + labels + i as u16, y, SHADES[level], style);
            }
        }
    }
}

fn total(column: &[u32; BUCKETS], row: &std::ops::Range<usize>) -> u64 {
    column[row.clone()]
        .iter()
        .map(|&count| u64::from(count))
        .sum()
}

/// Returns the buckets of each line, lowest first: all used buckets, spread over the lines as
/// evenly as possible, and unused buckets around them if lines would be left.
fn rows(columns: &[&[u32; BUCKETS]], height: usize) -> Vec<std::ops::Range<usize>> {
    let used = |bucket: &usize| columns.iter().any(|column| column[*bucket] > 0);
    let lowest = (0..BUCKETS).find(used).unwrap_or(0);
    let highest = (0..BUCKETS).rev().find(used).unwrap_or(BUCKETS - 1);
    let height = height.min(BUCKETS);
    let shown = (highest - lowest + 1).max(height);
    // Unused lines go above the used buckets, because latency grows more often than it shrinks.
    let first = lowest.min(BUCKETS - shown);
    let edge = |row: usize| first + row * shown / height;
    (0..height).map(|row| edge(row)..edge(row + 1)).collect()
}

/// Returns the shade of a cell on a logarithmic scale, so that a few slow responses among many are
/// visible.
fn level(count: u64, most: u64) -> Option<usize> {
    if count == 0 {
        return None;
    }
    let share = (count as f64).ln_1p() / (most.max(1) as f64).ln_1p();
    Some(((share * SHADES.len() as f64) as usize).min(SHADES.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(filled: &[(usize, u32)]) -> [u32; BUCKETS] {
        let mut column = [0; BUCKETS];
        for &(bucket, count) in filled {
            column[bucket] = count;
        }
        column
    }

    #[test]
    fn every_used_bucket_is_in_one_line() {
        for (low, high) in [(0, 23), (3, 4), (20, 23), (0, 0), (23, 23), (5, 16)] {
            let filled = column(&[(low, 1), (high, 1)]);
            for height in 1..40 {
                let rows = rows(&[&filled], height);
                assert_eq!(rows.len(), height.min(BUCKETS), "{low}..{high} in {height}");
                assert!(rows.iter().all(|row| !row.is_empty() && row.end <= BUCKETS));
                for bucket in [low, high] {
                    let holding = rows.iter().filter(|row| row.contains(&bucket)).count();
                    assert_eq!(holding, 1, "{low}..{high} in {height}: {rows:?}");
                }
            }
        }
    }

    #[test]
    fn one_slow_answer_among_a_million_is_seen() {
        assert_eq!(level(0, 1_000_000), None);
        assert_eq!(level(1, 1_000_000), Some(0));
        assert_eq!(level(1_000_000, 1_000_000), Some(4));
        assert_eq!(level(1, 1), Some(4));
    }
}

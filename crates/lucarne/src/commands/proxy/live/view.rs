//! Layout of the live view. The view needs 80 columns; a narrower terminal cuts columns from the
//! right.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lucarne_load::ui::Key;

use lucarne_mint::store::StoreStats;
use lucarne_net::printable;
use lucarne_proxy::{HostRow, Proxy, Record, RecordFilter, Totals};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Selection of the table and its rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// Shows requests instead of hosts.
    pub(super) requests: bool,
    pub(super) filter: String,
    /// Whether keys change the filter.
    editing: bool,
    /// Number of requests above the first row.
    pub(super) from: usize,
}

impl Selection {
    /// Applies a key. Returns whether the key has a meaning here.
    pub(super) fn takes(&mut self, key: Key) -> bool {
        let filter = self.filter.clone();
        match key {
            Key::Control('c' | 'd') => return false,
            Key::Control('m' | 'j') if self.editing => self.editing = false,
            Key::Control('h') if self.editing => _ = self.filter.pop(),
            Key::Esc if self.editing => (self.filter, self.editing) = (String::new(), false),
            Key::Char(letter) if self.editing => self.filter.push(letter),
            Key::Char('/') => (self.requests, self.editing) = (true, true),
            Key::Char('r') | Key::Tab => self.requests = !self.requests,
            Key::Down | Key::Char('j') => self.from = (self.from + 1).min(999),
            Key::Up | Key::Char('k') => self.from = self.from.saturating_sub(1),
            _ => return false,
        }
        if self.filter != filter || !self.requests {
            self.from = 0;
        }
        true
    }

    /// Describes the keys.
    fn keys(&self) -> String {
        let filter = &self.filter;
        if self.editing {
            format!(" filter: {filter}_   enter done   esc none")
        } else if self.requests {
            format!(" q stop   r hosts   / filter: {filter}   ↑↓ scroll")
        } else {
            " q stop   r requests   / filter".to_owned()
        }
    }
}

/// The state of the proxy at the time of a frame.
pub(super) struct Picture {
    pub(super) title: String,
    pub(super) totals: Totals,
    pub(super) store: StoreStats,
    pub(super) hosts: Vec<HostRow>,
    pub(super) records: Vec<Arc<Record>>,
    pub(super) selection: Selection,
    /// Requests per second since the previous snapshot.
    pub(super) rate: f64,
    pub(super) colour: bool,
    taken: Instant,
}

impl Picture {
    /// Takes a snapshot of the proxy.
    pub(super) fn of(
        proxy: &Proxy,
        title: &str,
        colour: bool,
        selection: &Selection,
        before: Option<&Picture>,
    ) -> Self {
        let recorder = proxy.recorder().filter(|_| selection.requests);
        let filter = RecordFilter::parse(&selection.filter);
        let totals = proxy.totals();
        let rate = before.map_or(0.0, |before| {
            let requests = totals.requests.saturating_sub(before.totals.requests);
            requests as f64 / before.taken.elapsed().as_secs_f64().max(0.001)
        });
        Picture {
            title: title.to_owned(),
            totals,
            store: proxy.store_stats(),
            hosts: proxy.hosts(),
            records: recorder.map_or(Vec::new(), |recorder| recorder.recent(&filter)),
            selection: selection.clone(),
            rate,
            colour,
            taken: Instant::now(),
        }
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, picture: &Picture) {
    let areas = Layout::vertical([
        Constraint::Length(4),
        Constraint::Min(2),
        Constraint::Length(1),
    ]);
    let [head, table, foot] = areas.areas(frame.area());
    frame.render_widget(Paragraph::new(heading(picture)), head);
    let rows = usize::from(table.height);
    let width = usize::from(table.width);
    let lines = if picture.selection.requests {
        requests(picture, width, rows)
    } else {
        hosts(picture, width, rows)
    };
    frame.render_widget(Paragraph::new(lines), table);
    let dim = Style::new().add_modifier(Modifier::DIM);
    let keys = picture.selection.keys();
    frame.render_widget(Paragraph::new(Line::styled(keys, dim)), foot);
}

fn heading(picture: &Picture) -> Vec<Line<'static>> {
    let (totals, store) = (&picture.totals, &picture.store);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    vec![
        Line::from(vec![
            Span::styled(" lucarne proxy ", bold),
            Span::raw(picture.title.clone()),
        ]),
        Line::raw(format!(
            " connections {}   requests {} ({:.0}/s)   intercepted {}   tunnelled {}",
            totals.open, totals.requests, picture.rate, totals.intercepted, totals.tunnelled,
        )),
        certificates(store, totals.distrusted, picture.colour),
        Line::raw(""),
    ]
}

fn certificates(store: &StoreStats, distrusted: u64, colour: bool) -> Line<'static> {
    let made = store.generated;
    let hits = store.hits + store.disk_hits + store.coalesced;
    let mut spans = vec![Span::raw(format!(
        " certificates made {made} ({} mean, {} longest)   hits {hits}   errors {}",
        time(store.generation.mean()),
        time(store.generation.longest),
        store.errors,
    ))];
    if distrusted > 0 {
        let red = Style::new().fg(Color::Red);
        let style = if colour { red } else { Style::new() };
        spans.push(Span::styled(
            format!("   {distrusted} clients do not trust the CA"),
            style,
        ));
    }
    Line::from(spans)
}

/// Formats the most recent hosts. Hosts without a row are counted.
fn hosts(picture: &Picture, width: usize, rows: usize) -> Vec<Line<'static>> {
    // The five other columns take 47 characters.
    let name = width.saturating_sub(47).max(12);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let head = format!(
        " {:<name$} {:<9} {:>7} {:>9} {:>6} {:>9}",
        "host", "", "conns", "requests", "failed", "certif."
    );
    let mut lines = vec![Line::styled(cut(&head, width), bold)];
    let room = rows.saturating_sub(1);
    for row in picture.hosts.iter().take(room) {
        lines.push(line(row, name, width, picture.colour));
    }
    if let (Some(more @ 1..), Some(last)) =
        (picture.hosts.len().checked_sub(room), lines.last_mut())
    {
        *last = Line::raw(format!(" … and {} more hosts", more + 1));
    }
    lines
}

/// Formats the last requests.
fn requests(picture: &Picture, width: usize, rows: usize) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let head = format!(
        " {:<8} {:<15} {:<9} {:>8} request",
        "time", "client", "", "took"
    );
    let mut lines = vec![Line::styled(cut(&head, width), bold)];
    let shown = picture.records.iter().skip(picture.selection.from);
    lines.extend(shown.take(rows.saturating_sub(1)).map(|record| {
        let text = format!(
            " {:<8} {:<15} {:<9} {:>8} {} {} {}",
            record.clock(),
            record.client.ip(),
            record.action.name(),
            time(Duration::from_secs_f64(record.duration_ms / 1e3)),
            record.outcome(),
            record.method,
            record.url,
        );
        let style = match (picture.colour, record.error) {
            (true, Some(_)) => Style::new().fg(Color::Yellow),
            _ => Style::new(),
        };
        Line::styled(cut(&printable(&text), width), style)
    }));
    lines
}

fn line(row: &HostRow, name: usize, width: usize, colour: bool) -> Line<'static> {
    let what = if row.intercepted { "intercept" } else { "pass" };
    let took = match row.minted_us {
        0 => "-".to_owned(),
        us => time(Duration::from_micros(us)),
    };
    let text = format!(
        " {:<name$} {what:<9} {:>7} {:>9} {:>6} {took:>9}",
        cut(&row.host, name),
        row.connections,
        row.requests,
        row.failures,
    );
    let style = match (colour, row.failures) {
        (true, 1..) => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    };
    Line::styled(cut(&text, width), style)
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() > width {
        text.chars()
            .take(width.saturating_sub(1))
            .chain(['…'])
            .collect()
    } else {
        text.to_owned()
    }
}

fn time(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..1000 => format!("{us} µs"),
        us @ 1000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        us => format!("{:.1} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn row(host: &str, requests: u64, minted_us: u64) -> HostRow {
        HostRow {
            host: host.to_owned(),
            intercepted: minted_us > 0,
            connections: 3,
            requests,
            failures: 1,
            minted_us,
            last_ms: 0,
        }
    }

    fn drawn(width: u16, height: u16, hosts: Vec<HostRow>) -> Vec<String> {
        let picture = Picture {
            title: "127.0.0.1:3128".to_owned(),
            totals: Totals {
                open: 2,
                requests: 1_234_567,
                intercepted: 40,
                tunnelled: 2,
                distrusted: 1,
            },
            store: StoreStats::default(),
            hosts,
            records: Vec::new(),
            selection: Selection::default(),
            rate: 12.0,
            colour: true,
            taken: Instant::now(),
        };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &picture)).unwrap();
        let buffer = terminal.backend().buffer();
        let lines = buffer.content.chunks(usize::from(width));
        lines
            .map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>())
            .collect()
    }

    #[test]
    fn eighty_columns_hold_every_figure() {
        let long = format!("{}.example.com", "a".repeat(60));
        let screen = drawn(
            80,
            10,
            vec![
                row("www.example.com", 42, 350),
                row(&long, 9_999_999, 51_000),
            ],
        );
        let text = screen.join("\n");
        for expected in [
            "127.0.0.1:3128",
            "1234567",
            "www.example.com",
            "350 µs",
            "51.0 ms",
            "9999999",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        assert!(text.contains('…'), "{text}");
    }

    #[test]
    fn hosts_that_find_no_room_are_counted() {
        let hosts = (0..20)
            .map(|n| row(&format!("h{n}.example"), n, 1))
            .collect();
        let text = drawn(80, 10, hosts).join("\n");
        assert!(
            text.contains("h2.example") && !text.contains("h5.example"),
            "{text}"
        );
        assert!(text.contains("more hosts"), "{text}");
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_fail() {
        for (width, height) in [(1, 1), (20, 3), (30, 5)] {
            drawn(width, height, vec![row("www.example.com", 1, 1)]);
        }
    }
}

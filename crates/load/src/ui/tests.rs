//! The view on terminals of several sizes, and the effect of keys on a run.

use std::sync::Arc;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::keys::{Action, Direction, Load};
use super::model::{Model, Steering};
use super::view;
use crate::Snapshot;
use crate::controls::Control;
use crate::executor::Adjustable;
use crate::lines::line;
use crate::report::sample;
use crate::snapshot::{PartRow, Phase, RequestFigures, ScenarioRow};

fn scenario(name: &str, rate: u64, median: f64, dropped: u64) -> ScenarioRow {
    let point = sample::row(rate, median, dropped / 2, dropped);
    let ms = Duration::from_micros;
    ScenarioRow {
        name: name.into(),
        kind: format!("ct-{name}"),
        asked: rate as f64,
        achieved: (rate - dropped) as f64,
        iterations: point.iterations as f64,
        users: point.users.into(),
        busy: point.busy.into(),
        dropped,
        figures: RequestFigures {
            requests: point.requests as f64,
            failures: point.failures as f64,
            p50: ms(point.p50),
            p90: ms(point.p90),
            p99: ms(point.p99),
            max: ms(point.max),
            ..RequestFigures::default()
        },
        heat: point.heat,
        ..ScenarioRow::default()
    }
}

fn snapshot(second: u64) -> Snapshot {
    let stall = (20..23).contains(&second);
    let write = if stall {
        scenario("write", 500, 700.0, 40)
    } else {
        scenario("write", 500, 9.0, 0)
    };
    Snapshot {
        elapsed: Duration::from_secs(second),
        planned: Duration::from_secs(60),
        phase: Phase::Running,
        scenarios: vec![write, scenario("read", 300, 2.0, 0)],
        errors: if second > 20 {
            sample::errors()
        } else {
            vec![]
        },
        thresholds: sample::thresholds(),
        metrics: None,
        summary: None,
    }
}

/// Returns a model after `seconds`.
fn model(seconds: u64, colour: bool) -> Model {
    let mut model = Model::new(colour);
    (1..=seconds).for_each(|second| model.see(Arc::new(snapshot(second))));
    model
}

fn screen(model: &Model, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, model)).unwrap();
    terminal
}

fn text(model: &Model, width: u16, height: u16) -> String {
    screen(model, width, height).backend().to_string()
}

#[test]
fn at_80_columns() {
    insta::assert_snapshot!("view_80x24", text(&model(42, false), 80, 24));
}

#[test]
fn at_200_columns() {
    insta::assert_snapshot!("view_200x60", text(&model(42, true), 200, 60));
}

#[test]
fn at_40_columns() {
    insta::assert_snapshot!("view_40x20", text(&model(42, false), 40, 20));
}

/// Returns a model of two scenarios, the first with parts.
fn parts() -> Model {
    let mut split = snapshot(1);
    let names = ["GET /api/v1/users", "GET /api/v1/orders", "POST /login"];
    let part = |(name, rate): (&&str, u64)| PartRow {
        name: (*name).to_owned(),
        figures: scenario(name, rate, 5.0, 0).figures,
    };
    let rates = [300, 150, 50];
    split.scenarios[0].parts = names.iter().zip(rates).map(part).collect();
    split.scenarios[0].parts[2].figures.failures = 50.0;
    let mut model = Model::new(false);
    model.see(Arc::new(split));
    model
}

#[test]
fn parts_have_rows_below_their_scenario() {
    insta::assert_snapshot!("parts_40x20", text(&parts(), 40, 20));
    let wide = text(&parts(), 80, 24);
    let rows = ["write", "GET /api", "GET /api", "POST /login", "read"];
    let mut lines = wide.lines().skip_while(|line| !line.contains("scenario"));
    lines.next();
    for (line, row) in lines.zip(rows) {
        assert!(line.contains(row), "{row}:\n{wide}");
    }
}

/// Scenarios come before parts, and parts of the chosen scenario before other parts.
#[test]
fn parts_leave_room_for_scenarios() {
    let mut model = parts();
    let small = text(&model, 40, 8);
    assert!(small.contains("write") && small.contains("read"), "{small}");
    assert!(!small.contains("GE…"), "{small}");
    model.chosen = Some(1);
    let read = text(&model, 40, 20);
    assert!(!read.contains("GE…"), "{read}");
    model.chosen = Some(0);
    let write = text(&model, 40, 20);
    assert!(
        write.contains("▶ write") && write.contains("GE…"),
        "{write}"
    );
}

/// A high terminal is filled: no line below the heat strip is empty.
#[test]
fn no_lines_are_left_empty() {
    for height in 20..100 {
        let shown = text(&model(42, false), 200, height);
        let lines: Vec<&str> = shown.lines().map(|line| line.trim_matches('"')).collect();
        let heat = lines.iter().position(|line| line.starts_with(" latency"));
        let errors = lines.iter().position(|line| line.starts_with(" errors"));
        let strip = &lines[heat.unwrap()..errors.unwrap()];
        let empty = strip.iter().filter(|line| line.trim().is_empty()).count();
        assert_eq!(empty, 0, "{height} lines:\n{shown}");
    }
}

#[test]
fn the_help_lies_above() {
    let mut model = model(5, false);
    model.act(Action::Help, &mut Fake::default());
    insta::assert_snapshot!("help", text(&model, 80, 24));
}

#[test]
fn no_size_panics() {
    let mut many = snapshot(30);
    many.scenarios = (0..50)
        .map(|i| scenario(&format!("scenario-{i}"), 10, 3.0, 0))
        .collect();
    let mut crowded = Model::new(true);
    crowded.see(Arc::new(many));
    crowded.chosen = Some(49);
    let mut helped = model(30, true);
    helped.help = true;
    for model in [Model::new(true), model(42, false), crowded, helped] {
        for width in [1, 2, 7, 8, 20, 40, 79, 80, 109, 110, 300] {
            for height in [1, 2, 3, 5, 8, 13, 24, 60] {
                text(&model, width, height);
            }
        }
    }
}

#[test]
fn the_chosen_scenario_is_seen_among_many() {
    let mut many = snapshot(30);
    many.scenarios = (0..50)
        .map(|i| scenario(&format!("scenario-{i}"), 10, 3.0, 0))
        .collect();
    let mut model = Model::new(false);
    model.see(Arc::new(many));
    model.chosen = Some(33);
    assert!(
        text(&model, 80, 24).contains("▶ scenario-33"),
        "{}",
        text(&model, 80, 24)
    );
}

#[test]
fn without_colour_there_is_none() {
    let coloured = |model: &Model| {
        let terminal = screen(model, 80, 24);
        let cells = terminal.backend().buffer().content().to_vec();
        cells
            .iter()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(coloured(&model(42, true)));
    assert!(!coloured(&model(42, false)));
    assert!(super::colours(None) && super::colours(Some("".into())));
    assert!(!super::colours(Some("1".into())));
}

/// A run that only records its calls.
#[derive(Default)]
struct Fake {
    controls: Vec<Control>,
    stops: u32,
}

impl Steering for Fake {
    fn list(&self) -> Vec<Control> {
        self.controls.clone()
    }

    fn scale(&mut self, index: usize, factor: f64) {
        self.controls[index].asked *= factor;
    }

    fn set(&mut self, index: usize, value: f64) {
        self.controls[index].asked = value;
    }

    fn stop(&mut self) {
        self.stops += 1;
    }
}

fn hammer() -> Fake {
    let control = |kind: &str, adjustable, asked| Control {
        scenario: kind.trim_start_matches("ct-").into(),
        kind: kind.into(),
        adjustable,
        asked,
        factor: 1.0,
    };
    Fake {
        controls: vec![
            control("ct-write", Adjustable::Rate, 500.0),
            control("ct-read", Adjustable::Rate, 300.0),
            control("ct-read-full", Adjustable::Vus, 1.0),
        ],
        stops: 0,
    }
}

fn asked(fake: &Fake) -> [f64; 3] {
    std::array::from_fn(|index| fake.controls[index].asked.round())
}

#[test]
fn keys_turn_what_they_turned_in_the_hammer() {
    use Direction::{Down, Up};
    let (mut model, mut run) = (model(3, false), hammer());
    model.act(Action::Scale(Load::Writes, Up), &mut run);
    assert_eq!(asked(&run), [550.0, 300.0, 1.0]);
    assert_eq!(model.message, "write 550/s");
    model.act(Action::Scale(Load::Reads, Up), &mut run);
    assert_eq!(asked(&run), [550.0, 330.0, 2.0]);
    model.act(Action::Scale(Load::Vus, Down), &mut run);
    model.act(Action::Scale(Load::Vus, Down), &mut run);
    assert_eq!(asked(&run), [550.0, 330.0, 0.0]);
    model.act(Action::Scale(Load::Vus, Up), &mut run);
    assert_eq!(asked(&run), [550.0, 330.0, 1.0]);
}

#[test]
fn the_chosen_scenario_is_turned_alone() {
    let (mut model, mut run) = (model(3, false), hammer());
    model.act(Action::Choose(Direction::Up), &mut run);
    assert_eq!(model.chosen, Some(0));
    model.act(Action::Scale(Load::Reads, Direction::Down), &mut run);
    assert_eq!(asked(&run), [455.0, 300.0, 1.0]);
    model.act(Action::Scale(Load::Vus, Direction::Up), &mut run);
    assert!(model.message.contains("no users"), "{}", model.message);
    model.act(Action::Choose(Direction::Down), &mut run);
    assert_eq!(model.chosen, None, "above the first are all");
    model.act(Action::Choose(Direction::Down), &mut run);
    assert_eq!(model.chosen, Some(1), "and before those the last");
}

#[test]
fn a_load_turned_off_comes_back() {
    let (mut model, mut run) = (model(3, false), hammer());
    run.controls[0].asked = 0.0;
    model.act(Action::Scale(Load::Writes, Direction::Up), &mut run);
    assert_eq!(run.controls[0].asked, 1.0);
}

#[test]
fn escape_closes_the_help_and_nothing_else() {
    let (mut model, mut run) = (model(3, false), hammer());
    model.act(Action::Help, &mut run);
    model.act(Action::Close, &mut run);
    assert!(!model.help);
    model.act(Action::Close, &mut run);
    assert_eq!((model.help, run.stops), (false, 0));
}

#[test]
fn stopping_twice_is_said_twice() {
    let (mut model, mut run) = (model(3, false), hammer());
    model.act(Action::Stop, &mut run);
    assert!(
        model.message.contains("again to cut them off"),
        "{}",
        model.message
    );
    model.act(Action::Stop, &mut run);
    assert_eq!((run.stops, model.message.as_str()), (2, "stopping at once"));
}

#[test]
fn what_a_key_did_is_said_for_a_while() {
    let (mut model, mut run) = (model(3, false), hammer());
    model.act(Action::Scale(Load::Writes, Direction::Up), &mut run);
    model.see(Arc::new(snapshot(4)));
    assert_eq!(model.message, "write 550/s");
    (5..15).for_each(|second| model.see(Arc::new(snapshot(second))));
    assert_eq!(model.message, "");
}

#[test]
fn history_is_bounded() {
    let model = model(2_000, false);
    assert!(
        model
            .past
            .iter()
            .all(|past| past.heat.len() <= 600 && past.requests.len() <= 600)
    );
}

#[test]
fn a_line_a_second() {
    insta::assert_snapshot!(line(&snapshot(10)), @"10s/1m00s write 500/s p50=8.99ms p99=38ms max=82.1ms busy=5/20 | read 300/s p50=1.99ms p99=8.28ms max=15.5ms busy=1/20 | 1 threshold crossed");
    insta::assert_snapshot!(line(&snapshot(21)), @"21s/1m00s write 460/s (started 460 of 500/s) p50=699ms p99=2.87s max=6.21s busy=350/80 20 failed/s 40 dropped | read 300/s p50=1.99ms p99=8.28ms max=15.5ms busy=1/20 | 36 errors, most of them timeout | 1 threshold crossed");
    let preparing = Snapshot {
        planned: Duration::from_secs(60),
        ..Snapshot::default()
    };
    assert_eq!(line(&preparing), "0s/1m00s preparing");
}

//! Keys of the live view. `+ - > < w W` have the same effect as in the CT hammer.

use super::keyboard::Key;

/// Action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Changes a kind of load by one step.
    Scale(Load, Direction),
    /// Chooses the next or the previous scenario. Before the first and after the last scenario, all
    /// scenarios are chosen.
    Choose(Direction),
    /// Shows or hides the list of keys.
    Help,
    /// Closes the window above the view, if there is one.
    Close,
    /// Stops the run. Running iterations may finish; a second stop cuts off these iterations.
    Stop,
}

/// Scenarios that a key changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The chosen scenario. If none is chosen, the scenarios that do not write, or all scenarios if
    /// all of them write.
    Reads,
    /// All scenarios that write, or all scenarios if none writes. The choice has no effect.
    Writes,
    /// Users of the chosen scenario, or of all scenarios if none is chosen.
    Vus,
}

/// Direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// More, or the next scenario.
    Up,
    /// Less, or the previous scenario.
    Down,
}

/// Keys with their help texts.
pub const HELP: [(&str, &str); 8] = [
    ("+ -", "rate of reads up, down (of the chosen scenario)"),
    ("> <", "rate of writes up, down"),
    ("w W", "more, fewer users"),
    ("↑ ↓", "choose a scenario"),
    ("q", "stop gracefully; again: at once"),
    ("^C", "same as q"),
    ("?", "show or hide this list"),
    ("Esc", "hide this list"),
];

/// Returns the action of `key`, or `None` for other keys.
pub fn action(key: Key) -> Option<Action> {
    use Direction::{Down, Up};
    let action = match key {
        // `=` is `+` without shift on most keyboards, and `,` and `.` are `<` and `>`.
        Key::Char('+' | '=') => Action::Scale(Load::Reads, Up),
        Key::Char('-' | '_') => Action::Scale(Load::Reads, Down),
        Key::Char('>' | '.') => Action::Scale(Load::Writes, Up),
        Key::Char('<' | ',') => Action::Scale(Load::Writes, Down),
        Key::Char('w') => Action::Scale(Load::Vus, Up),
        Key::Char('W') => Action::Scale(Load::Vus, Down),
        Key::Down | Key::Tab | Key::Char('j') => Action::Choose(Up),
        Key::Up | Key::BackTab | Key::Char('k') => Action::Choose(Down),
        Key::Char('?' | 'h') => Action::Help,
        Key::Char('q') | Key::Control('c' | 'd') => Action::Stop,
        Key::Esc => Action::Close,
        _ => return None,
    };
    Some(action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hammers_keys_mean_what_they_meant() {
        use Direction::{Down, Up};
        let cases = [
            ('+', Load::Reads, Up),
            ('-', Load::Reads, Down),
            ('>', Load::Writes, Up),
            ('<', Load::Writes, Down),
            ('w', Load::Vus, Up),
            ('W', Load::Vus, Down),
        ];
        for (key, load, direction) in cases {
            let meant = action(Key::Char(key));
            assert_eq!(meant, Some(Action::Scale(load, direction)), "{key}");
        }
    }

    #[test]
    fn both_ways_out_stop() {
        assert_eq!(action(Key::Char('q')), Some(Action::Stop));
        assert_eq!(action(Key::Control('c')), Some(Action::Stop));
        assert_eq!(action(Key::Control('k')), None);
        assert_eq!(action(Key::Char('c')), None);
        assert_eq!(action(Key::Esc), Some(Action::Close));
    }
}

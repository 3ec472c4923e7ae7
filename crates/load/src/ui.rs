//! Live view of a run.
//!
//! [`live`] draws the terminal once a second, changes the load by keys, and returns at the end of
//! the run. For logs and pipes there is [`lines`](crate::lines::lines).

mod heat;
mod keyboard;
mod keys;
mod model;
mod parts;
mod table;
mod view;

use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;

pub use self::keyboard::{Key, Keyboard};
pub use self::keys::{Action, Direction, HELP, Load, action};
use self::model::{Model, Steering};
use crate::Running;
use crate::controls::Control;
pub(crate) use crate::heat::HEAT as BUCKETS;

/// Longest delay before a key is handled.
const ATTENTION: Duration = Duration::from_millis(100);

/// Takes over the terminal until the run ends: draws each snapshot, and handles the keys of
/// [`HELP`]. The first `q` or Ctrl-C stops gracefully, the second stops at once.
///
/// The variable `NO_COLOR` disables colours.
///
/// # Errors
///
/// If there is no terminal, or it was closed. The run continues.
pub fn live(running: &Running) -> io::Result<()> {
    on_terminal(|terminal, keyboard| show(running, terminal, keyboard))
}

/// Takes over the terminal while `show` runs. The terminal is restored in any case, even after a
/// panic.
///
/// # Errors
///
/// If there is no terminal, and the errors of `show`.
pub fn on_terminal<T>(
    show: impl FnOnce(&mut DefaultTerminal, &Keyboard) -> io::Result<T>,
) -> io::Result<T> {
    let keyboard = Keyboard::open()?;
    let mut terminal = ratatui::try_init()?;
    let screen = Screen;
    let shown = show(&mut terminal, &keyboard);
    drop(screen);
    if terminal.show_cursor().is_err() {
        // The terminal was closed. The destructor would panic, because it cannot print its error.
        std::mem::forget(terminal);
    }
    // After a later panic, the hook of ratatui would restore the terminal again, or abort the
    // process if the terminal was closed.
    drop(std::panic::take_hook());
    shown
}

/// Restores the terminal to its state before [`on_terminal`], for code that ends the process.
pub fn restore() {
    // A failure means that the terminal was closed.
    let _ = ratatui::try_restore();
}

/// The terminal, restored when dropped.
struct Screen;

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn show(running: &Running, terminal: &mut DefaultTerminal, keyboard: &Keyboard) -> io::Result<()> {
    let mut snapshots = running.snapshots();
    let mut model = Model::new(colours(std::env::var_os("NO_COLOR")));
    model.see(running.snapshot());
    loop {
        terminal.draw(|frame| view::draw(frame, &model))?;
        if running.is_over() {
            return Ok(());
        }
        if let Some(key) = keyboard.next(ATTENTION)?
            && let Some(action) = keys::action(key)
        {
            model.act(action, &mut Wheel(running));
        }
        // An error means that there are no further snapshots: `is_over` ends the loop.
        if snapshots.has_changed().unwrap_or(false) {
            let snapshot = snapshots.borrow_and_update().clone();
            model.see(snapshot);
        }
    }
}

/// Returns whether colours are enabled: `NO_COLOR` is unset or empty (<https://no-color.org>).
fn colours(no_color: Option<std::ffi::OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty())
}

/// Controls a run in progress.
struct Wheel<'a>(&'a Running);

impl Steering for Wheel<'_> {
    fn list(&self) -> Vec<Control> {
        self.0.controls().list()
    }

    fn scale(&mut self, index: usize, factor: f64) {
        self.0.controls().scale(index, factor);
    }

    fn set(&mut self, index: usize, value: f64) {
        self.0.controls().set(index, value);
    }

    fn stop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests;

//! The view of a run while it goes on.
//!
//! [`live`] draws the terminal once a second and turns the load by keys, and returns when the run
//! is over. For logs and pipes there are [`lines`](crate::lines::lines).

mod heat;
mod keys;
mod model;
mod parts;
mod table;
mod view;

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEventKind};

pub use self::keys::{Action, Direction, HELP, Load, action};
use self::model::{Model, Steering};
use crate::Running;
use crate::controls::Control;
pub(crate) use crate::heat::HEAT as BUCKETS;

/// The longest that a key may wait to be noticed.
const ATTENTION: Duration = Duration::from_millis(100);

/// Takes over the terminal until the run is over: draws each snapshot, and obeys the keys of
/// [`HELP`]. The first `q` or Ctrl-C stops gracefully, the second one at once.
///
/// Colours are left out where `NO_COLOR` says so.
///
/// # Errors
///
/// Fails if there is no terminal, or it goes away. The terminal is put back as it was, also
/// then, and also if the program panics.
pub fn live(running: &Running) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let screen = Screen;
    let shown = show(running, &mut terminal);
    drop(screen);
    shown
}

/// Puts the terminal back as it was before [`live`]: for those who end the process under it.
pub fn restore() {
    // There is nothing to be done about a terminal that has gone away.
    let _ = ratatui::try_restore();
}

/// The terminal, ours until dropped.
struct Screen;

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn show(running: &Running, terminal: &mut ratatui::DefaultTerminal) -> io::Result<()> {
    let mut snapshots = running.snapshots();
    let mut model = Model::new(colours(std::env::var_os("NO_COLOR")));
    model.see(running.snapshot());
    loop {
        terminal.draw(|frame| view::draw(frame, &model))?;
        if running.is_over() {
            return Ok(());
        }
        if event::poll(ATTENTION)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && let Some(action) = keys::action(&key)
        {
            model.act(action, &mut Wheel(running));
        }
        // An error means that no more will come: `is_over` tells.
        if snapshots.has_changed().unwrap_or(false) {
            let snapshot = snapshots.borrow_and_update().clone();
            model.see(snapshot);
        }
    }
}

/// By <https://no-color.org>: set, and not empty.
fn colours(no_color: Option<std::ffi::OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty())
}

/// Turns a run that is under way.
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

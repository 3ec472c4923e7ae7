//! Terminal output of the demo.

use std::path::Path;

use crate::output::{colours, print_raw};

/// Prints a line with the colours of [`Screen::paint`].
macro_rules! show {
    ($($words:tt)*) => { print_raw(&format!("{}\n", format_args!($($words)*))) };
}

/// Printer, with colours if the terminal supports them.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    colour: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        Screen {
            colour: colours(&std::io::stdout()),
        }
    }

    /// Surrounds `text` with an SGR code.
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(super) fn title(self, directory: &Path) {
        let (name, place) = (self.paint("1;36", "◖ Lucarne"), directory.display());
        show!("\n  {name} {}\n", self.faint(&format!("demo in {place}")));
    }

    /// Prints one completed step.
    pub(super) fn done(self, what: &str, detail: &str) {
        show!(
            "  {} {what:<11} {}",
            self.paint("32", "✓"),
            self.faint(detail)
        );
    }

    /// Prints a heading for [`line`](Self::line)s or [`command`](Self::command)s.
    pub(super) fn heading(self, text: &str) {
        show!("\n  {}", self.strong(text));
    }

    /// Prints a name and a URL.
    pub(super) fn line(self, name: &str, url: &str) {
        show!("    {name:<12} {}", self.paint("4;36", url));
    }

    /// Prints a command to copy.
    pub(super) fn command(self, command: &str, comment: &str) {
        show!(
            "    {}\n    {}\n",
            self.faint(&format!("# {comment}")),
            command
        );
    }

    pub(super) fn end(self) {
        show!("  {}", self.faint("Ctrl-C finishes the round and stops."));
    }

    pub(super) fn trouble(self, error: &anyhow::Error) {
        errln!("  ✗ {error:#}");
    }
}

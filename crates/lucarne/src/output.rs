//! Standard output and standard error of commands.
//!
//! `println!` panics if the output cannot be written. Here, a closed pipe is not an error, because
//! its reader needs no more output. A closed terminal is not an error for the same reason. Any
//! other failure is reported once, and the command fails.

use std::ffi::OsStr;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use lucarne_net::printable_lines;
use rustix::fs::FileType;
use rustix::io::Errno;
use tracing::Level;

use crate::journald::priority;
use crate::logging::Format;

/// Whether writing to standard output has failed.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Prints on standard output.
macro_rules! out {
    ($($words:tt)*) => { $crate::output::print(format_args!($($words)*)) };
}

/// Prints a line on standard output.
macro_rules! outln {
    () => { $crate::output::print_line(format_args!("")) };
    ($($words:tt)*) => { $crate::output::print_line(format_args!($($words)*)) };
}

/// Prints on standard error.
macro_rules! err {
    ($($words:tt)*) => { $crate::output::print_error(format_args!($($words)*)) };
}

/// Prints an error on standard error, as a log line.
macro_rules! errln {
    ($($words:tt)*) => {
        $crate::output::print_log_line(tracing::Level::ERROR, format_args!($($words)*))
    };
}

/// Prints a warning on standard error, as a log line.
macro_rules! warnln {
    ($($words:tt)*) => {
        $crate::output::print_log_line(tracing::Level::WARN, format_args!($($words)*))
    };
}

/// Prints a note on standard error, as a log line.
macro_rules! noteln {
    ($($words:tt)*) => {
        $crate::output::print_log_line(tracing::Level::INFO, format_args!($($words)*))
    };
}

/// Prints on standard output. The text may come from a server or from a file, so its control
/// characters are escaped.
pub(crate) fn print(words: Arguments<'_>) {
    print_raw(&printable_lines(&words.to_string()));
}

/// Prints a text of this program with its colours.
pub(crate) fn print_raw(text: &str) {
    let mut stdout = io::stdout().lock();
    note(
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush()),
    );
}

pub(crate) fn print_line(words: Arguments<'_>) {
    print(format_args!("{words}\n"));
}

/// Prints on standard error, like [`print`]. A failure cannot be reported anywhere.
pub(crate) fn print_error(words: Arguments<'_>) {
    let text = printable_lines(&words.to_string());
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Clears the last line of the terminal of standard error.
pub(crate) fn clear_line() {
    let _ = io::stderr().lock().write_all(b"\r\x1b[K");
}

/// Form of log lines, and whether they need a priority for the journal.
static LINES: OnceLock<(Format, bool)> = OnceLock::new();

/// Sets the form of the lines on standard error. Only the first call has an effect.
pub(crate) fn set_lines(format: Format, journal: bool) {
    let _ = LINES.set((format, journal));
}

/// Prints a line on standard error in the form of log lines. The filter of log lines does not
/// apply, and the line does not wait in the queue, so that the last line of a process is printed.
pub(crate) fn print_log_line(level: Level, words: Arguments<'_>) {
    let (format, journal) = LINES.get().copied().unwrap_or_default();
    let text = log_line(level, &words.to_string(), format, journal);
    print_error(format_args!("{text}\n"));
}

fn log_line(level: Level, text: &str, format: Format, journal: bool) -> String {
    let text = match format {
        Format::Text => text.to_owned(),
        Format::Json => serde_json::json!({
            "timestamp": jiff::Timestamp::now().to_string(),
            "level": level.as_str(),
            "message": text,
        })
        .to_string(),
    };
    if !journal {
        return text;
    }
    let prioritized = |line| format!("<{}>{line}", priority(level));
    text.lines().map(prioritized).collect::<Vec<_>>().join("\n")
}

fn note(written: io::Result<()>) {
    let Err(error) = written else {
        return;
    };
    let closed = error.kind() == ErrorKind::BrokenPipe || terminal_closed(io::stdout(), &error);
    if !closed && !FAILED.swap(true, Ordering::Relaxed) {
        errln!("lucarne: standard output cannot be written: {error}");
    }
}

/// Returns whether `error`, of a write to `output`, means that the terminal was closed.
pub(crate) fn terminal_closed(output: impl AsFd, error: &io::Error) -> bool {
    // `isatty` is false for a closed terminal.
    let is_device = rustix::fs::fstat(output)
        .is_ok_and(|file| FileType::from_raw_mode(file.st_mode) == FileType::CharacterDevice);
    is_device && Errno::from_io_error(error) == Some(Errno::IO)
}

/// Returns whether `output` may have colours: it is a terminal, and `NO_COLOR` is not set.
pub(crate) fn colours(output: &impl IsTerminal) -> bool {
    output.is_terminal() && permits_colours(std::env::var_os("NO_COLOR").as_deref())
}

/// Any value of `NO_COLOR` but the empty one disables colours, see <https://no-color.org>.
fn permits_colours(no_color: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty)
}

/// Returns the exit code of a command that ended with `code`: a failure if some of its output was
/// not written.
pub(crate) fn exit_code(code: ExitCode) -> ExitCode {
    if FAILED.load(Ordering::Relaxed) {
        ExitCode::FAILURE
    } else {
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_process_has_the_form_of_the_others() {
        let text = "lucarne: a\u{2028}b:\n  c";
        let line = |format, journal| log_line(Level::ERROR, text, format, journal);
        assert_eq!(line(Format::Text, false), text);
        let journal = "<3>lucarne: a\u{2028}b:\n<3>  c";
        assert_eq!(line(Format::Text, true), journal);
        let json = line(Format::Json, true);
        let json = json.strip_prefix("<3>").unwrap();
        assert!(!json.contains('\n'), "{json}");
        let json: serde_json::Value = serde_json::from_str(&printable_lines(json)).unwrap();
        assert_eq!(
            (&json["level"], &json["message"]),
            (&"ERROR".into(), &text.into())
        );
        let at = json["timestamp"].as_str().unwrap();
        assert!(at.parse::<jiff::Timestamp>().is_ok(), "{at}");
    }

    #[test]
    fn no_color_forbids_colours() {
        assert!(permits_colours(None) && permits_colours(Some(OsStr::new(""))));
        assert!(!permits_colours(Some(OsStr::new("1"))));
        assert!(!permits_colours(Some(OsStr::new("0"))));
    }
}

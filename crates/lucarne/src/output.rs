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
use std::sync::atomic::{AtomicBool, Ordering};

use lucarne_net::printable_lines;
use rustix::fs::FileType;
use rustix::io::Errno;

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

/// Prints a line on standard error.
macro_rules! errln {
    ($($words:tt)*) => { $crate::output::print_error_line(format_args!($($words)*)) };
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

pub(crate) fn print_error_line(words: Arguments<'_>) {
    print_error(format_args!("{words}\n"));
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
    fn no_color_forbids_colours() {
        assert!(permits_colours(None) && permits_colours(Some(OsStr::new(""))));
        assert!(!permits_colours(Some(OsStr::new("1"))));
        assert!(!permits_colours(Some(OsStr::new("0"))));
    }
}

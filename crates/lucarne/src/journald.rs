//! Priorities of log lines for the journal of systemd.
//!
//! The journal reads the level of a line from a prefix such as `<3>` (sd-daemon(3)), which the
//! journal removes. Then `journalctl -p err` finds the errors.

use std::fmt;
use std::os::fd::AsFd;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Returns whether the journal reads `output`: `JOURNAL_STREAM` has its device and inode. The
/// variable alone is not enough, because a command of the service may write to a file.
pub(crate) fn is_behind(output: impl AsFd) -> bool {
    let (Ok(stream), Ok(file)) = (std::env::var("JOURNAL_STREAM"), rustix::fs::fstat(output))
    else {
        return false;
    };
    names(&stream, file.st_dev, file.st_ino)
}

fn names(stream: &str, device: u64, inode: u64) -> bool {
    stream == format!("{device}:{inode}")
}

/// A format of log lines, with priorities if `journal`.
pub(crate) struct Prioritized<F> {
    pub(crate) journal: bool,
    pub(crate) format: F,
}

impl<S, N, F> FormatEvent<S, N> for Prioritized<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.journal {
            write!(out, "<{}>", priority(*event.metadata().level()))?;
        }
        self.format.format_event(context, out, event)
    }
}

/// Returns the priority of syslog(3).
pub(crate) fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_have_priorities_only_in_the_journal() {
        for (journal, prefixes) in [(true, ["<3>{", "<4>{", "<6>{"]), (false, ["{"; 3])] {
            let lines = Lines::default();
            let writer = lines.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_writer(move || writer.clone())
                .json()
                .map_event_format(|format| Prioritized { journal, format })
                .finish();
            tracing::subscriber::with_default(subscriber, || {
                tracing::error!("a disk failed");
                tracing::warn!("a disk is slow");
                tracing::info!("a round");
            });
            let text = String::from_utf8(lines.0.lock().clone()).unwrap();
            assert_eq!(text.lines().count(), prefixes.len());
            for (line, prefix) in text.lines().zip(prefixes) {
                assert!(line.starts_with(prefix), "{line}");
            }
        }
    }

    #[test]
    fn another_file_than_the_journal_is_recognized() {
        assert!(names("8:1234", 8, 1234));
        for stream in ["8:1235", "9:1234", "8", "", "8:1234:"] {
            assert!(!names(stream, 8, 1234), "{stream}");
        }
    }
}

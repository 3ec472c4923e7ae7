//! Writer of lines that never blocks its callers.
//!
//! Lines are appended to a buffer, and a separate thread writes them. If the reader of the output
//! stalls, the buffer fills; further lines are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lucarne_net::printable_coloured;
use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// Maximum size of the log's buffer in bytes. The thread may hold the same amount.
const CAPACITY: usize = 4 << 20;
/// Maximum time to write the remaining lines at the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// Input side of the buffer.
#[derive(Clone)]
pub(crate) struct LineWriter(Arc<Shared>);

/// Counter of dropped lines.
#[derive(Clone)]
pub(crate) struct DroppedLines(Arc<Shared>);

/// Guard that waits on drop, for at most [`FAREWELL`], until all lines are written.
pub(crate) struct Flush(Arc<Shared>);

struct Shared {
    buffer: Mutex<Buffer>,
    /// Maximum size of the buffer in bytes.
    capacity: usize,
    /// Signals new lines, or the end of the input.
    filled: Condvar,
    /// Signals that all lines are written after the end of the input.
    finished: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Buffer {
    lines: Vec<u8>,
    closed: bool,
    finished: bool,
}

impl LineWriter {
    /// Starts the thread that writes the log to `out`.
    ///
    /// # Errors
    /// If the system cannot create the thread.
    pub(crate) fn start(out: impl Write + Send + 'static) -> io::Result<(Self, Flush)> {
        Self::named("lucarne-log", CAPACITY, out)
    }

    /// Starts a thread with this name, with a buffer of `capacity` bytes.
    ///
    /// # Errors
    /// If the system cannot create the thread.
    pub(crate) fn named(
        name: &str,
        capacity: usize,
        out: impl Write + Send + 'static,
    ) -> io::Result<(Self, Flush)> {
        let shared = Arc::new(Shared {
            buffer: Mutex::default(),
            capacity,
            filled: Condvar::new(),
            finished: Condvar::new(),
            dropped: AtomicU64::new(0),
        });
        let writing = shared.clone();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || writing.write_out(out))?;
        Ok((Self(shared.clone()), Flush(shared)))
    }

    /// Appends bytes that end with a line break, or drops all of them.
    pub(crate) fn push(&self, line: &[u8]) {
        self.0.push(line);
    }

    /// Returns the counter of dropped lines.
    pub(crate) fn dropped(&self) -> DroppedLines {
        DroppedLines(self.0.clone())
    }
}

impl DroppedLines {
    /// Returns the number of lines dropped so far.
    pub(crate) fn get(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for DroppedLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DroppedLines").field(&self.get()).finish()
    }
}

impl Shared {
    /// Appends a line, or drops the whole line.
    fn push(&self, line: &[u8]) {
        let mut buffer = self.buffer.lock();
        if buffer.lines.len() + line.len() > self.capacity {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        buffer.lines.extend_from_slice(line);
        drop(buffer);
        self.filled.notify_one();
    }

    fn write_out(&self, mut out: impl Write) {
        let mut lines = Vec::new();
        loop {
            let mut buffer = self.buffer.lock();
            self.filled
                .wait_while(&mut buffer, |it| it.lines.is_empty() && !it.closed);
            if buffer.lines.is_empty() {
                buffer.finished = true;
                self.finished.notify_all();
                return;
            }
            std::mem::swap(&mut buffer.lines, &mut lines);
            drop(buffer);
            // An error of standard error cannot be reported; other outputs count their own.
            let _ = out.write_all(&lines).and_then(|()| out.flush());
            lines.clear();
        }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let mut buffer = self.0.buffer.lock();
        buffer.closed = true;
        self.0.filled.notify_one();
        self.0
            .finished
            .wait_while_for(&mut buffer, |it| !it.finished, FAREWELL);
    }
}

/// The subscriber writes each line with one call. A line may have a name from a certificate, so
/// its control characters and the line separators of Unicode are escaped.
impl Write for &LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(printable_coloured(&String::from_utf8_lossy(line)).as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = &'a LineWriter;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    /// Writer that blocks each write until the test releases it, then forwards the bytes.
    struct Gate {
        open: mpsc::Receiver<()>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.open.recv();
            let _ = self.written.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gate() -> (Gate, mpsc::Sender<()>, mpsc::Receiver<Vec<u8>>) {
        let (opens, open) = mpsc::channel();
        let (written, writes) = mpsc::channel();
        (Gate { open, written }, opens, writes)
    }

    #[test]
    fn what_is_queued_at_the_end_is_written() {
        let (gate, opens, writes) = gate();
        drop(opens); // all writes proceed
        let (writer, flush) = LineWriter::start(gate).unwrap();
        for n in 0..1_000 {
            writeln!(&writer, "line {n}").unwrap();
        }
        drop(flush);
        let all = String::from_utf8(writes.try_iter().flatten().collect()).unwrap();
        assert_eq!(all.lines().count(), 1_000);
        assert!(all.starts_with("line 0\n") && all.ends_with("line 999\n"));
        assert_eq!(writer.dropped().get(), 0);
    }

    #[test]
    fn a_name_adds_no_line() {
        let (gate, opens, writes) = gate();
        drop(opens);
        let (writer, flush) = LineWriter::start(gate).unwrap();
        writeln!(&writer, "{{\"name\":\"a\u{2028}b\u{85}c\"}}").unwrap();
        drop(flush);
        let line = String::from_utf8(writes.try_iter().flatten().collect()).unwrap();
        assert_eq!(line, "{\"name\":\"a\\u2028b\\u0085c\"}\n");
    }

    #[test]
    fn while_nobody_reads_lines_are_dropped_whole_and_counted() {
        let (gate, opens, writes) = gate();
        let (writer, flush) = LineWriter::start(gate).unwrap();
        let line = [b"x".repeat(1_023), b"\n".to_vec()].concat();
        let sent = 3 * CAPACITY / line.len();
        let begun = Instant::now();
        for _ in 0..sent {
            (&writer).write_all(&line).unwrap();
        }
        let dropped = writer.dropped().get() as usize;
        // One buffer is full, and the thread has at most one more.
        assert!(
            dropped >= sent / 3 && dropped <= 2 * sent / 3,
            "{dropped} of {sent}"
        );
        // A stalled reader does not block the exit of the process.
        drop(flush);
        assert!(begun.elapsed() >= FAREWELL, "it waited");
        drop(opens);
        let kept: Vec<u8> = writes.iter().flatten().collect();
        assert_eq!(kept.len() / line.len(), sent - dropped);
        assert!(kept.chunks(line.len()).all(|it| it == line));
    }
}

//! A writer of lines that nobody waits for.
//!
//! Lines are appended to a buffer, and a thread of its own writes out what is in
//! it. While whoever reads them stalls, the buffer fills, and what does not fit
//! is dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// The bytes that may wait to be written. As many again are with the writer.
const CAPACITY: usize = 4 << 20;
/// The longest wait at the end for what is still to be written.
const FAREWELL: Duration = Duration::from_secs(1);

/// The end of the buffer that lines go in at.
#[derive(Clone)]
pub(crate) struct LineWriter(Arc<Shared>);

/// The number of lines that were dropped.
#[derive(Clone)]
pub(crate) struct DroppedLines(Arc<Shared>);

/// Waits when it is dropped, but not for ever, until all lines are written.
pub(crate) struct Flush(Arc<Shared>);

struct Shared {
    buffer: Mutex<Buffer>,
    /// Something is to be written, or nothing more will come.
    filled: Condvar,
    /// All is written, and nothing more will come.
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
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn start(out: impl Write + Send + 'static) -> io::Result<(Self, Flush)> {
        let shared = Arc::new(Shared {
            buffer: Mutex::default(),
            filled: Condvar::new(),
            finished: Condvar::new(),
            dropped: AtomicU64::new(0),
        });
        let writing = shared.clone();
        thread::Builder::new()
            .name("lucarne-log".to_owned())
            .spawn(move || writing.write_out(out))?;
        Ok((Self(shared.clone()), Flush(shared)))
    }

    /// The number of lines dropped so far, and from now on.
    pub(crate) fn dropped(&self) -> DroppedLines {
        DroppedLines(self.0.clone())
    }
}

impl DroppedLines {
    /// The number until now.
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
    /// Takes a line, or drops it whole.
    fn push(&self, line: &[u8]) {
        let mut buffer = self.buffer.lock();
        if buffer.lines.len() + line.len() > CAPACITY {
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
            // There is nowhere to say that standard error cannot be written to.
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

/// The subscriber writes each line in one piece.
impl Write for &LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
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

    /// Waits before each write until it is let through, and passes it on.
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
        drop(opens); // nothing waits
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
        // One buffer waits, and at most another is with the thread.
        assert!(
            dropped >= sent / 3 && dropped <= 2 * sent / 3,
            "{dropped} of {sent}"
        );
        // A reader that never comes back does not keep the process.
        drop(flush);
        assert!(begun.elapsed() >= FAREWELL, "it waited");
        drop(opens);
        let kept: Vec<u8> = writes.iter().flatten().collect();
        assert_eq!(kept.len() / line.len(), sent - dropped);
        assert!(kept.chunks(line.len()).all(|it| it == line));
    }
}

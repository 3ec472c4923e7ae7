//! Access log and HAR file: files of finished requests, written by threads of their own.

mod record_file;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use lucarne_proxy::{Details, HostPattern, Record, RecordOptions, RecordSink, Recorder, har_entry};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use self::record_file::{Form, RecordFile};
use super::config::{AccessLogFormat, Config};
use crate::line_writer::{Flush, LineWriter};
use crate::logging::counter;

/// Limit of lines of the access log in memory, in bytes.
const LINES: usize = 8 << 20;

/// Limit of entries of the HAR file in memory, in bytes.
const ENTRIES: usize = 64 << 20;

/// The configured files. Clones share them.
#[derive(Clone)]
pub(super) struct RecordFiles {
    access_log: Option<Output>,
    har: Option<Output>,
    /// Guards that wait for the queued lines.
    queued: Arc<Mutex<Vec<Flush>>>,
}

/// A file, and the queue of its lines.
#[derive(Clone)]
struct Output {
    file: Arc<Mutex<RecordFile>>,
    lines: LineWriter,
    lost: Arc<AtomicU64>,
}

/// The end of a queue: writes batches of lines to the file, which counts its own losses.
struct Writer(Arc<Mutex<RecordFile>>);

impl Write for Writer {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.lock().append(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RecordFiles {
    /// Opens the files and starts their threads.
    ///
    /// # Errors
    /// If a file cannot be opened for writing, or is not a HAR file of the proxy.
    pub(super) fn open(config: &Config) -> Result<Self> {
        let mut queued = Vec::new();
        let mut output = |key, path: &Path, form, limit| -> Result<Output> {
            let file = RecordFile::open(key, path, form)
                .with_context(|| format!("{key}: cannot open {}", path.display()))?;
            let lost = file.lost();
            let file = Arc::new(Mutex::new(file));
            let (lines, flush) = LineWriter::named(key, limit, Writer(file.clone()))
                .with_context(|| format!("{key}: cannot start a thread"))?;
            queued.push(flush);
            Ok(Output { file, lines, lost })
        };
        let access_log = config.access_log.as_deref();
        let access_log = access_log.map(|path| output("accesslog", path, Form::Lines, LINES));
        let har = config.har.as_deref();
        let har = har.map(|path| output("har.file", path, Form::Har, ENTRIES));
        Ok(RecordFiles {
            access_log: access_log.transpose()?,
            har: har.transpose()?,
            queued: Arc::new(Mutex::new(queued)),
        })
    }

    /// Returns the recorder for these files and for the page. Returns `None` if nothing shows or
    /// stores records. `live` is `true` if the live view runs.
    pub(super) fn recorder(&self, config: &Config, live: bool) -> Option<Arc<Recorder>> {
        let mut sinks: Vec<RecordSink> = Vec::new();
        if let Some(Output { lines, .. }) = self.access_log.clone() {
            let formatted = match config.access_log_format {
                AccessLogFormat::Combined => Record::combined,
                AccessLogFormat::Json => Record::json,
            };
            sinks.push(Box::new(move |record, _| push(&lines, formatted(record))));
        }
        let mut detailed = Vec::new();
        if let Some(Output { lines, .. }) = self.har.clone() {
            detailed.clone_from(&config.har_hosts);
            if detailed.is_empty() {
                detailed.push(HostPattern::all());
            }
            sinks.push(Box::new(move |record, details: Option<&Details>| {
                if let Some(entry) = details.and_then(|details| har_entry(record, details)) {
                    push(&lines, entry);
                }
            }));
        }
        let options = RecordOptions {
            secrets: config.secrets,
            detailed,
            bodies: config.har_bodies,
        };
        let needed = live || config.admin.is_some() || !sinks.is_empty();
        needed.then(|| Arc::new(Recorder::new(options, sinks)))
    }

    /// Opens the paths of the files again, after another program has renamed the files. Does not
    /// wait for a disk that hangs.
    pub(super) fn reopen(&self) {
        for output in self.access_log.iter().chain(&self.har) {
            let file = output.file.clone();
            let reopen = move || file.lock().reopen();
            let spawned = std::thread::Builder::new()
                .name("reopen".to_owned())
                .spawn(reopen);
            if let Err(error) = spawned {
                tracing::error!("the file of records was not reopened: {error}");
            }
        }
    }

    /// Registers the counters of lost records.
    pub(super) fn register(&self, registry: &mut Registry) {
        for (name, help, output) in [
            (
                "lucarne_proxy_accesslog_lost",
                "Lines that the access log lacks, because its disk or its reader was full or slow",
                &self.access_log,
            ),
            (
                "lucarne_proxy_har_lost",
                "Requests that the HAR file lacks, because the file or its disk was full or slow",
                &self.har,
            ),
        ] {
            if let Some(Output { lines, lost, .. }) = output {
                let (dropped, lost) = (lines.dropped(), lost.clone());
                let lost = move || dropped.get() + lost.load(Ordering::Relaxed);
                counter(registry, (name, help), lost);
            }
        }
    }

    /// Writes the queued lines. Waits at most a second for each file.
    pub(super) fn flush(&self) {
        self.queued.lock().clear();
    }
}

fn push(lines: &LineWriter, mut line: String) {
    line.push('\n');
    lines.push(line.as_bytes());
}

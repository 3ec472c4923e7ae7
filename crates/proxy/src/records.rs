//! Records of finished exchanges: requests, tunnels and failed handshakes.
//!
//! Each exchange creates one [`Record`] at its end. The [`Recorder`] passes it to the sinks (access
//! log, HAR) and keeps the last records for the page and the live view. Without a recorder, an
//! exchange creates nothing.
//!
//! ```text
//! request → Recording ─(end of the body, failure, or end of the tunnel)→ Record → Recorder
//!              ↑                                                           ├→ sinks
//!            taps: bytes of both bodies                                    └→ last 1,000
//! ```

mod har;
mod record;
mod recording;
mod tap;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;

pub use har::{HAR_HEAD, HAR_TAIL, har_entry};
pub use record::{ClientTls, Record, RecordAction, RecordFilter};
pub use recording::{Content, Details};
pub(crate) use recording::{ProxyUser, Recording, taps};
pub(crate) use tap::Tap;

use crate::pattern::HostPattern;
use crate::target::Target;

/// Limit of the records in memory.
const KEPT: usize = 1000;

/// Limit of the memory for these records, in bytes: URLs can have 64 KiB.
const KEPT_BYTES: usize = 8 << 20;

/// Receiver of finished records. Called on the task of the exchange, so it must not wait.
pub type RecordSink = Box<dyn Fn(&Record, Option<&Details>) + Send + Sync>;

/// Parts of an exchange that records have besides their totals.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// Keeps credentials: header fields, passwords of URLs, and values of parameters.
    pub secrets: bool,
    /// Hosts whose records have [`Details`].
    pub detailed: Vec<HostPattern>,
    /// Whether details include the bodies.
    pub bodies: bool,
}

/// Receiver of all records of a proxy.
pub struct Recorder {
    options: RecordOptions,
    sinks: Vec<RecordSink>,
    kept: Mutex<Kept>,
    /// Bytes of bodies in memory.
    captured: Arc<AtomicUsize>,
}

/// The last records, the latest at the back.
#[derive(Default)]
struct Kept {
    records: VecDeque<Arc<Record>>,
    bytes: usize,
}

impl Recorder {
    /// Creates a recorder that passes each record to all sinks.
    pub fn new(options: RecordOptions, sinks: Vec<RecordSink>) -> Self {
        Recorder {
            options,
            sinks,
            kept: Mutex::default(),
            captured: Arc::default(),
        }
    }

    /// Returns the records that match, the latest first.
    pub fn recent(&self, filter: &RecordFilter) -> Vec<Arc<Record>> {
        let kept: Vec<_> = self.kept.lock().records.iter().rev().cloned().collect();
        let matching = kept.into_iter().filter(|record| filter.matches(record));
        matching.collect()
    }

    /// Returns whether the exchanges with this host have details.
    fn details(&self, target: &Target) -> bool {
        let mut hosts = self.options.detailed.iter();
        hosts.any(|hosts| hosts.matches(target))
    }

    /// Passes on and keeps a finished record.
    pub(crate) fn finished(&self, record: Record, details: Option<&Details>) {
        for sink in &self.sinks {
            sink(&record, details);
        }
        let mut kept = self.kept.lock();
        kept.bytes += record.weight();
        kept.records.push_back(Arc::new(record));
        while kept.records.len() > KEPT || kept.bytes > KEPT_BYTES {
            let oldest = kept.records.pop_front();
            kept.bytes -= oldest.map_or(kept.bytes, |oldest| oldest.weight());
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::tests::example;

    #[test]
    fn the_last_records_are_kept_within_both_limits() {
        let recorder = Recorder::new(RecordOptions::default(), Vec::new());
        for status in 0..1200 {
            let record = Record {
                status: Some(status),
                ..example()
            };
            recorder.finished(record, None);
        }
        let recent = recorder.recent(&RecordFilter::default());
        assert_eq!(recent.len(), KEPT);
        assert_eq!(
            (recent[0].status, recent[999].status),
            (Some(1199), Some(200))
        );
        let only = recorder.recent(&RecordFilter::parse("1100 EXAMPLE"));
        assert_eq!(only.len(), 1);
        for _ in 0..300 {
            let url = format!("http://example/{}", "x".repeat(60 << 10));
            recorder.finished(Record { url, ..example() }, None);
        }
        let recent = recorder.recent(&RecordFilter::default());
        let bytes: usize = recent.iter().map(|record| record.weight()).sum();
        assert!(bytes <= KEPT_BYTES && recent.len() > 100, "{bytes}");
    }

    #[test]
    fn each_sink_receives_each_record() {
        let seen = Arc::<AtomicUsize>::default();
        let sink = || -> RecordSink {
            let seen = seen.clone();
            Box::new(move |_, _| _ = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
        };
        let recorder = Recorder::new(RecordOptions::default(), vec![sink(), sink()]);
        recorder.finished(example(), None);
        assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst), 2);
    }
}

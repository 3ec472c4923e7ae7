//! The thread that merges the tables of an index, with a low priority.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::anchor::AnchorFile;
use super::failure::Failure;
use super::tables::Tables;
use crate::index::thread_priority::lower_priority;

/// The handle of the thread, with its failure.
pub(super) struct Merger {
    tables: Arc<Tables>,
    failed: Arc<Mutex<Option<io::Error>>>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Merger {
    /// Starts the thread, which first merges tables that an earlier process left unmerged.
    pub(super) fn start(tables: Arc<Tables>, file: Arc<Mutex<AnchorFile>>) -> io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let failed = Arc::new(Mutex::default());
        let (of_thread, failure) = (tables.clone(), failed.clone());
        let work = move || merge_all(&of_thread, &file, &woken, &failure);
        let thread = std::thread::Builder::new().name("lucarne-merge".into());
        let merger = Merger {
            thread: Some(thread.spawn(work)?),
            tables,
            failed,
            wake: Some(wake),
        };
        merger.wake();
        Ok(merger)
    }

    /// Wakes the thread, which merges tables if there are enough.
    pub(super) fn wake(&self) {
        // If the channel is full, the thread is about to wake.
        let _ = self.wake.as_ref().map(|wake| wake.try_send(()));
    }

    /// Takes the failure of the thread, if it failed. The index must not be written after a
    /// failure.
    pub(super) fn failure(&self) -> Option<io::Error> {
        self.failed.lock().take()
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        self.tables.close();
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // The next opening must not find a thread that still writes.
            let _ = thread.join();
        }
    }
}

fn merge_all(
    tables: &Tables,
    file: &Mutex<AnchorFile>,
    woken: &Receiver<()>,
    failed: &Mutex<Option<io::Error>>,
) {
    lower_priority();
    while woken.recv().is_ok() {
        loop {
            match merge_one(tables, file) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if Failure::from(&error).damaged => {
                    *failed.lock() = Some(error);
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot merge the tables of a dedup index: retrying \
                                            after the next table");
                    break;
                }
            }
        }
    }
}

/// Merges tables once. Returns `false` if there is nothing to merge.
fn merge_one(tables: &Tables, file: &Mutex<AnchorFile>) -> io::Result<bool> {
    let Some(due) = tables.due() else {
        return Ok(false);
    };
    let Some(merged) = tables.merge(&due)? else {
        return Ok(false);
    };
    let mut file = file.lock();
    tables.change(&due, merged, |list| {
        file.change(|noted| noted.tables = list)
    })?;
    drop(file);
    tables.remove(&due)?;
    Ok(true)
}

//! The thread that merges the tables of an index, with a low priority.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use fjall::{Database, Keyspace, PersistMode};
use parking_lot::Mutex;

use super::failure::Failure;
use super::tables::{TABLES, Tables};
use crate::index::thread_priority::lower_priority;

/// The handle of the thread, with its failure.
pub(super) struct Merger {
    tables: Arc<Tables>,
    failed: Arc<Mutex<Option<fjall::Error>>>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Merger {
    /// Starts the thread, which first merges tables that an earlier process left unmerged.
    pub(super) fn start(
        tables: Arc<Tables>,
        database: Database,
        meta: Keyspace,
    ) -> std::io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let failed = Arc::new(Mutex::default());
        let (of_thread, failure) = (tables.clone(), failed.clone());
        let work = move || merge_all(&of_thread, &database, &meta, &woken, &failure);
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
    pub(super) fn failure(&self) -> Option<fjall::Error> {
        self.failed.lock().take()
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        self.tables.close();
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // After its end, the thread has released the database, whose lock the next opening
            // needs.
            let _ = thread.join();
        }
    }
}

fn merge_all(
    tables: &Tables,
    database: &Database,
    meta: &Keyspace,
    woken: &Receiver<()>,
    failed: &Mutex<Option<fjall::Error>>,
) {
    lower_priority();
    while woken.recv().is_ok() {
        loop {
            match merge_one(tables, database, meta) {
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
fn merge_one(tables: &Tables, database: &Database, meta: &Keyspace) -> fjall::Result<bool> {
    let Some(due) = tables.due() else {
        return Ok(false);
    };
    let Some(merged) = tables.merge(&due)? else {
        return Ok(false);
    };
    tables.change(&due, merged, |list| meta.insert(TABLES, list))?;
    // Old tables are removed after their removal from the list is durable.
    database.persist(PersistMode::SyncAll)?;
    tables.remove(&due)?;
    Ok(true)
}

//! A log whose next round is written only when the test allows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use lucarne_storage::memory::{MemoryAssets, Operation};
use lucarne_testkit::{block_until, in_time};
use tokio::sync::watch;

/// Holds the rounds of a log in memory. The test must run on more than one thread.
pub struct Gate {
    reached: watch::Receiver<bool>,
    open: Arc<AtomicBool>,
}

impl Gate {
    /// Writes no round to these files from now on.
    pub fn closed(files: &MemoryAssets) -> Gate {
        let (reaches, reached) = watch::channel(false);
        let open = Arc::new(AtomicBool::new(false));
        let opened = open.clone();
        files.inject(move |operation| {
            if operation == Operation::Stage && !opened.load(SeqCst) {
                reaches.send_replace(true);
                let is_open = || opened.load(SeqCst);
                tokio::task::block_in_place(|| block_until("the gate is opened", is_open));
            }
            None
        });
        Gate { reached, open }
    }

    /// Waits until a round is held.
    pub async fn reached(&self) {
        let mut reached = self.reached.clone();
        let reached = reached.wait_for(|reached| *reached);
        in_time("the log writes a round", reached).await.unwrap();
    }

    /// Lets all rounds be written.
    pub fn open(&self) {
        self.open.store(true, SeqCst);
    }
}

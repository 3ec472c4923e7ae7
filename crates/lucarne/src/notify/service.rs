//! Messages of a log server to the service manager.

use std::sync::Arc;
use std::time::Duration;

use lucarne_log::Log;
use lucarne_net::counted;
use lucarne_storage::Lock;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::{is_wanted, keep_status, ready, reloaded, watchdog};
use crate::hosting::{Current, Hosted};

/// Maximum time that the server waits for logs to open before it is ready. A log with a hung disk
/// must not delay the readers of other logs. Service managers wait longer (systemd: 90 s).
const OPENING: Duration = Duration::from_secs(30);

/// Reports status and watchdog of the present logs until the tasks are dropped. Reports that the
/// server is ready once the logs and the lock of a witness are open, unless it `is_ready` already.
pub(crate) fn keep(hosted: &Current, lock: &Arc<dyn Lock>, is_ready: bool) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if !is_wanted() {
        return tasks;
    }
    let reported = hosted.clone();
    tasks.spawn(keep_status(move || text(&reported.now())));
    if !is_ready {
        tasks.spawn(open(hosted.now(), Arc::clone(lock)));
    }
    if let Some(time) = watchdog::time() {
        tasks.spawn(watchdog::feed(hosted.clone(), time));
    }
    tasks
}

/// Reports that the server is ready once each log and the lock of a witness is open, or has a
/// reason to wait.
async fn open(hosted: Arc<Hosted>, lock: Arc<dyn Lock>) {
    let opened = async {
        for log in &hosted.logs {
            log.started().await;
        }
        if hosted.config.witness.is_some()
            && let Err(error) = lock.check().await
        {
            tracing::warn!(%error, "the lock of the witness is not writable");
        }
    };
    if timeout(OPENING, opened).await.is_err() {
        let (seconds, logs) = (OPENING.as_secs(), text(&hosted));
        tracing::warn!(logs, "not every log is open after {seconds} s");
    }
    ready();
}

/// Reports that the server is ready again once these tasks have ended.
pub(crate) fn reloaded_after(tasks: Vec<JoinHandle<()>>) {
    tokio::spawn(async move {
        for task in tasks {
            let _ = task.await;
        }
        reloaded();
    });
}

/// Returns size and state of each log, and the name of the witness, on one line.
fn text(hosted: &Hosted) -> String {
    let of_log = |log: &Arc<Log>| {
        let size = log.published().map_or(0, |published| published.size);
        let state = lucarne_http::state_name(&log.state());
        format!(
            "{}: {}, {state}",
            log.config().shortname,
            counted(size, "entry")
        )
    };
    let witness = hosted.config.witness.iter();
    let witness = witness.map(|witness| format!("witness {}", witness.name()));
    let parts: Vec<_> = hosted.logs.iter().map(of_log).chain(witness).collect();
    parts.join("; ")
}

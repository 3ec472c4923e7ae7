//! The witness of a process, and the log lists that it follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use lucarne_cosign::{LogList, Witness};
use lucarne_http::WitnessService;
use lucarne_net::Client;
use lucarne_storage::Lock;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::config::{Report, WitnessSettings};
use crate::known::{Place, SilentPlace};

/// The time between two reads of a list.
const REREAD: Duration = Duration::from_secs(15 * 60);

/// The first time between two reads of a list that was never read. It doubles up to [`REREAD`].
const RETRY_LIST: Duration = Duration::from_secs(30);

/// The time after which a list counts as unavailable.
const SILENT: Duration = Duration::from_secs(30);

/// The time between two attempts to read the logs of earlier lists from the lock.
const RETRY: Duration = Duration::from_secs(2);

/// Maximum size of a list in bytes. The list of all CT logs has about 300 KB.
const MAX_BYTES: usize = 16 << 20;

/// Creates the witness of these settings.
///
/// # Errors
/// If its keys and logs do not fit together.
pub(crate) fn open(
    settings: &WitnessSettings,
    lock: &Arc<dyn Lock>,
    registry: &mut Registry,
) -> Result<Arc<WitnessService>> {
    Ok(WitnessService::new(
        Arc::new(of(settings, lock)?),
        settings.submission.value.url.clone(),
        settings.monitoring.value.url.clone(),
        registry,
    ))
}

/// Returns the witness of these settings.
///
/// # Errors
/// If its keys and logs do not fit together.
pub(crate) fn of(settings: &WitnessSettings, lock: &Arc<dyn Lock>) -> Result<Witness> {
    let cosigners = Arc::clone(&settings.cosigners);
    Witness::new(cosigners, settings.logs.clone(), Arc::clone(lock))
        .context("cannot start the witness")
}

/// The tasks that read log lists. Dropping the value ends them.
pub(crate) struct Lists {
    again: watch::Sender<()>,
    _tasks: JoinSet<()>,
}

impl Lists {
    /// Reads the logs of earlier lists from the lock, and then the lists, at once and at intervals:
    /// no list can replace the key of an earlier log. A list that does not respond delays no other
    /// list.
    pub(crate) fn follow(settings: &WitnessSettings, service: &Arc<WitnessService>) -> Self {
        let (again, woken) = watch::channel(());
        let mut tasks = JoinSet::new();
        let first = Arc::new(First {
            remaining: AtomicUsize::new(settings.lists.len() + 1),
            service: Arc::clone(service),
        });
        let places = settings.lists.iter().map(|list| list.value.clone());
        let places: Vec<_> = places.collect();
        let service = Arc::clone(service);
        tasks.spawn(async move {
            read_memory(&service, &first).await;
            let mut following = JoinSet::new();
            following.spawn(count_contradictions(Arc::clone(&service)));
            for place in places {
                let (service, first) = (Arc::clone(&service), Arc::clone(&first));
                following.spawn(follow(place, service, first, woken.clone()));
            }
            following.join_all().await;
        });
        Lists {
            again,
            _tasks: tasks,
        }
    }

    /// Reads all lists again.
    pub(crate) fn reread(&self) {
        self.again.send_replace(());
    }
}

/// The first reads since the start.
struct First {
    /// The number of places that were not read yet.
    remaining: AtomicUsize,
    service: Arc<WitnessService>,
}

impl First {
    fn done(&self) {
        if self.remaining.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.service.note_complete();
        }
    }
}

async fn read_memory(service: &WitnessService, first: &First) {
    loop {
        match service.witness().remembered().await {
            Ok(logs) => {
                let (logs, skipped) = service.witness().add_logs(logs);
                service.note_logs();
                tracing::info!(logs = logs.len(), "witness: logs of earlier lists");
                for reason in skipped {
                    tracing::warn!("witness: a log of an earlier list is skipped: {reason}");
                }
                return first.done();
            }
            Err(error) => {
                tracing::error!("witness: the logs of earlier lists are unknown: {error}");
                sleep(RETRY).await;
            }
        }
    }
}

/// Counts the contradictions in the lock at the start, and at intervals, because other processes
/// of the witness store, too.
async fn count_contradictions(service: Arc<WitnessService>) {
    loop {
        match service.count_contradictions().await {
            Ok(()) => sleep(REREAD).await,
            Err(error) => {
                tracing::error!("witness: the contradictions in the lock are unknown: {error}");
                sleep(RETRY).await;
            }
        }
    }
}

async fn follow(
    place: Place,
    service: Arc<WitnessService>,
    first: Arc<First>,
    mut again: watch::Receiver<()>,
) {
    let (name, public) = (place.to_string(), place.public());
    let mut first = Some(first);
    let mut pending = None;
    let mut pause = Duration::ZERO;
    loop {
        let mut reading = pending
            .take()
            .unwrap_or_else(|| tokio::spawn(read(place.clone())));
        let failure = match timeout(SILENT, &mut reading).await {
            Ok(Ok(Ok(list))) => {
                apply(&name, list, &service).await;
                None
            }
            Ok(Ok(Err(error))) => Some(format!("{error:#}")),
            Ok(Err(panic)) => Some(panic.to_string()),
            Err(_) => {
                // The next attempt waits for the same read.
                pending = Some(reading);
                Some(format!("no response within {} s", SILENT.as_secs()))
            }
        };
        if let Some(reason) = &failure {
            tracing::error!(
                list = name,
                "witness: the list is not read, its logs stay: {reason}"
            );
        }
        pause = next_pause(pause, failure.is_none());
        service.note_list(&public, failure);
        if let Some(first) = first.take() {
            first.done();
        }
        tokio::select! {
            () = sleep(pause) => {}
            woken = again.changed() => if woken.is_err() {
                return;
            }
        }
    }
}

/// Returns the time to the next read of a list after the time to the last one.
fn next_pause(last: Duration, is_read: bool) -> Duration {
    if is_read {
        return REREAD;
    }
    (2 * last).clamp(RETRY_LIST, REREAD)
}

/// Reads and parses a list.
async fn read(place: Place) -> Result<LogList> {
    let read: Result<Bytes, SilentPlace> = place.read(&Client::of_system(SILENT), MAX_BYTES).await;
    Ok(LogList::parse(&read?)?)
}

/// Adds the logs of a list, and stores them for the next start.
async fn apply(name: &str, list: LogList, service: &WitnessService) {
    let witness = service.witness();
    let before = witness.logs().origins().len();
    let (logs, skipped) = witness.add_logs(list.logs);
    service.note_logs();
    for reason in list.skipped {
        tracing::warn!(list = name, "witness: {reason}");
    }
    for reason in skipped {
        tracing::warn!(list = name, "witness: a log is skipped: {reason}");
    }
    let added = witness.logs().origins().len() - before;
    tracing::info!(list = name, logs = logs.len(), added, "witness: list read");
    if let Err(error) = witness.remember(&logs).await {
        tracing::error!(
            list = name,
            "witness: its logs are not stored for the next start: {error}"
        );
    }
}

/// Reads every list for `lucarne check`, and reports problems as warnings: the witness starts, and
/// retries.
pub(crate) async fn look(settings: &WitnessSettings, report: &mut Report) {
    let mut reading = JoinSet::new();
    for list in &settings.lists {
        let (place, line) = (list.value.clone(), list.line);
        reading.spawn(async move {
            let name = place.to_string();
            let read = timeout(SILENT, read(place)).await;
            (line, name, read)
        });
    }
    for (line, name, read) in reading.join_all().await {
        let problems = match read {
            Ok(Ok(list)) => list.skipped,
            Ok(Err(error)) => vec![format!("{error:#}")],
            Err(_) => vec![format!("no response within {} s", SILENT.as_secs())],
        };
        for problem in problems {
            report.warning(line, "witness.loglists", format!("{name}: {problem}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use lucarne_cosign::{LogKeys, TrustedKey};
    use lucarne_storage::MemoryLock;
    use lucarne_testkit::{SignedLog, in_time};
    use lucarne_tlog::Cosigner;
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::Located;

    #[test]
    fn a_list_that_was_never_read_is_retried_soon() {
        let mut pause = Duration::ZERO;
        for seconds in [30, 60, 120, 240, 480, 900, 900] {
            pause = next_pause(pause, false);
            assert_eq!(pause, Duration::from_secs(seconds));
        }
        assert_eq!(next_pause(RETRY_LIST, true), REREAD);
        assert_eq!(next_pause(REREAD, false), REREAD);
    }

    #[tokio::test]
    async fn no_list_is_read_before_the_logs_of_earlier_lists() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/list", listener.local_addr().unwrap());
        let prefix = || Located {
            value: crate::prefix::prefix("http://w.example/w/").unwrap(),
            line: None,
        };
        let settings = WitnessSettings {
            submission: prefix(),
            monitoring: prefix(),
            cosigners: Arc::new([Cosigner::ed25519("w.example", &[2; 32]).unwrap()]),
            secret: None,
            logs: LogKeys::default(),
            lists: vec![Located {
                value: Place::Url(url),
                line: None,
            }],
            directory: None,
        };
        let memory = MemoryLock::new();
        let lock: Arc<dyn Lock> = Arc::new(memory.clone());
        let service = open(&settings, &lock, &mut Registry::default()).unwrap();
        let witness = service.witness();
        let key = SignedLog::new("log.example", 0).key.verifier().clone();
        let log = ("log.example".to_owned(), Arc::new(TrustedKey::Note(key)));
        witness.create().await.unwrap();
        witness.remember(&[log]).await.unwrap();

        memory.fail(Some("it does not respond"));
        let _lists = Lists::follow(&settings, &service);
        let early = timeout(Duration::from_millis(500), listener.accept()).await;
        assert!(early.is_err(), "a list is read before the lock responds");
        memory.fail(None);
        let read = in_time("the list is read", listener.accept()).await;
        read.unwrap();
        assert!(witness.logs().of("log.example").is_some());
    }
}

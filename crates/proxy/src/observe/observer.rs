//! Observer of servers: the interface for the proxy.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use arc_swap::ArcSwap;
use lucarne_ct::{LogList, PublicKey};
use lucarne_mint::now_ms;
use lucarne_net::{Client, without_secrets};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use rustls_pki_types::CertificateDer;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use url::Url;

use super::ObserveOptions;
use super::audit::Auditor;
use super::destination::{self, Destination};
use super::inventory::{self, Inventory, InventoryError};
use super::judge::SctDeliveries;
use super::memory::{Bounds, Memory};
use super::metrics::Metrics;
use super::options::{InventoryOptions, SubmitTo};
use super::shared::{Listed, Shared};
use super::source::{Source, SourceError};
use super::submitter::{MAX_WAITING, PendingSubmission, Submitter};
use super::webhook::Webhook;
use super::worker::{Message, Sighting, Worker};

/// Time limit of the observer's own requests.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of reading the log list at startup.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between attempts while no log list has been read yet.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// Limits of the handshakes in the queue: number, and bytes.
const MAX_QUEUED: usize = 1024;
const MAX_QUEUED_BYTES: usize = 8 << 20;

/// Reasons why an observer cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The log list cannot be read.
    #[error("reading the log list {from}: {why}")]
    LogList {
        /// File or URL.
        from: String,
        /// The reason, and the remedy.
        why: SourceError,
    },
    /// The public key of a log for submission is invalid.
    #[error("the public key of the log for submissions is invalid: {0}")]
    Key(#[from] lucarne_ct::KeyError),
    /// The inventory cannot be opened.
    #[error("`observe.database`: {}: {why}", file.display())]
    Inventory {
        /// The database.
        file: PathBuf,
        /// The reason, and the remedy.
        why: InventoryError,
    },
    /// The system cannot start a thread.
    #[error("starting the thread that checks certificates: {0}")]
    Thread(#[from] std::io::Error),
}

/// Observer of the certificates that servers present. [`Observer::seen`] returns at once. Dropping
/// the last reference stops the observer's tasks.
#[derive(Debug)]
pub struct Observer {
    messages: SyncSender<Message>,
    queued: Arc<AtomicUsize>,
    pub(super) shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
}

impl Observer {
    /// Reads the log list and starts the tasks. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the log list cannot be read or is invalid, because the judgements would be wrong without
    /// the list. If the source does not respond within 3 s, the list is read later, and all
    /// remembered certificates are then judged again. After the first success, the last valid list
    /// stays in use.
    pub async fn start(options: ObserveOptions) -> Result<Arc<Self>, ObserveError> {
        let client = Client::new(&options.tls, TIMEOUT);
        let targets = options.submit_to.iter().map(Target::new);
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        let mut source = options
            .log_list
            .clone()
            .map(|from| Source::new(from, client.clone()));
        let mut listed = Listed::default();
        if let (Some(source), Some(from)) = (&mut source, &options.log_list) {
            let from = from.to_string();
            listed.from = Some(from.clone());
            match tokio::time::timeout(LIST_TIMEOUT, source.read()).await {
                Ok(Ok(list)) => listed = now_listed(list, from),
                Ok(Err(why)) => return Err(ObserveError::LogList { from, why }),
                Err(_) => tracing::warn!(
                    "the log list {from} is not read yet: SCTs are verified after it is read"
                ),
            }
        }
        let (messages, received) = sync_channel(MAX_QUEUED);
        let shared = Arc::new(shared(&options, &targets, listed)?);
        let mut tasks = Vec::new();
        if let (Some(inventory), Some(options)) = (&shared.inventory, &options.inventory) {
            tasks.extend(following(inventory, options, &client, &shared));
        }
        let mut destinations = Vec::new();
        for target in targets {
            // Each log has its own queue and task, so an unavailable log does not delay the others.
            let (send, submissions) = mpsc::channel(MAX_WAITING);
            let key = target.key.clone();
            let submitter = Submitter::new(client.clone(), &target.log, key, &shared);
            tasks.push(tokio::spawn(submitter.run(submissions)).abort_handle());
            destinations.push(target.destination(&client, &shared, send).await);
        }
        if let Some(source) = source {
            let refreshing = refresh(source, shared.clone(), messages.clone(), options.refresh);
            tasks.push(tokio::spawn(refreshing).abort_handle());
        }
        let queued = Arc::new(AtomicUsize::new(0));
        let worker = Worker {
            shared: shared.clone(),
            destinations,
            queued: queued.clone(),
        };
        spawn(worker, received)?;
        Ok(Arc::new(Observer {
            messages,
            queued,
            shared,
            tasks,
        }))
    }

    /// Records the chain (leaf first) that a server presented for `host`.
    ///
    /// `ocsp` is the stapled OCSP response, `tls_scts` the SignedCertificateTimestampList of the
    /// TLS extension (RFC 6962, section 3.3); both may be empty. Never blocks: if the queue is
    /// full, the handshake is counted and dropped.
    pub fn seen(&self, host: &str, chain: &[CertificateDer<'_>], ocsp: &[u8], tls_scts: &[u8]) {
        let certificates: usize = chain.iter().map(|der| der.len()).sum();
        let length = host.len() + certificates + ocsp.len() + tls_scts.len();
        let before = self.queued.fetch_add(length, Ordering::Relaxed);
        let room = before.saturating_add(length) <= MAX_QUEUED_BYTES;
        let sighting = || Sighting {
            host: host.to_owned(),
            chain: chain.iter().map(|der| der.to_vec()).collect(),
            deliveries: SctDeliveries {
                ocsp: ocsp.to_vec(),
                tls: tls_scts.to_vec(),
            },
            at_ms: now_ms(),
        };
        let sent = room && self.messages.try_send(Message::Seen(sighting())).is_ok();
        if !sent {
            self.queued.fetch_sub(length, Ordering::Relaxed);
            self.shared.metrics.drop("handshakes");
        }
    }

    /// Registers the observer's metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.shared.metrics.describe(registry);
    }

    /// Returns the present problems of the inventory and of the audit, one on a line.
    pub fn troubles(&self) -> Vec<String> {
        let inventory = self.shared.inventory.as_ref();
        inventory.map_or_else(Vec::new, |inventory| inventory.troubles())
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// A log for submissions, with its parsed key.
struct Target {
    log: Url,
    key: Option<Arc<PublicKey>>,
}

impl Target {
    fn new(to: &SubmitTo) -> Result<Self, lucarne_ct::KeyError> {
        let key = to.key.as_deref().map(PublicKey::from_spki_of_any_log);
        Ok(Target {
            log: to.log.clone(),
            key: key.transpose()?.map(Arc::new),
        })
    }

    /// Creates the destination. Requests the range of notAfter from the log itself if the log list
    /// does not have it.
    async fn destination(
        self,
        client: &Client,
        shared: &Shared,
        send: mpsc::Sender<PendingSubmission>,
    ) -> Destination {
        let Target { log, key } = self;
        let listed = shared
            .list
            .load()
            .list
            .as_ref()
            .is_some_and(|list| destination::listed(list, &log, key.as_deref()).is_some());
        let window = if listed {
            None
        } else {
            destination::window(client, &log).await
        };
        Destination {
            log,
            key,
            window,
            send,
        }
    }
}

/// Starts the audit and the webhook of an inventory.
fn following(
    inventory: &Arc<Inventory>,
    options: &InventoryOptions,
    client: &Client,
    shared: &Arc<Shared>,
) -> Vec<AbortHandle> {
    let auditor = Auditor {
        shared: Arc::downgrade(shared),
        inventory: inventory.clone(),
        client: client.clone(),
        pace: options.pace,
    };
    let webhook = options.webhook.clone().map(|url| Webhook {
        url,
        client: client.clone(),
        inventory: Arc::downgrade(inventory),
        pause: options.webhook_pause,
    });
    let audit = tokio::spawn(auditor.run()).abort_handle();
    let webhook = webhook.map(|webhook| tokio::spawn(webhook.run()).abort_handle());
    std::iter::once(audit).chain(webhook).collect()
}

fn opened(options: &InventoryOptions, metrics: &Metrics) -> Result<Arc<Inventory>, ObserveError> {
    let bounds = inventory::Bounds {
        rows: options.max_certificates.into(),
        expiry_ms: i64::try_from(options.expiry.as_millis()).unwrap_or(i64::MAX),
        hooked: options.webhook.is_some(),
    };
    let file = &options.database;
    Inventory::open(file, bounds, metrics.clone()).map_err(|why| {
        let file = file.clone();
        ObserveError::Inventory { file, why }
    })
}

fn shared(
    options: &ObserveOptions,
    targets: &[Target],
    listed: Listed,
) -> Result<Shared, ObserveError> {
    let metrics = Metrics::default();
    let inventory = options.inventory.as_ref();
    let inventory = inventory
        .map(|inventory| opened(inventory, &metrics))
        .transpose()?;
    let logs = listed.list.as_ref().map_or(0, LogList::len);
    metrics.logs.set(i64::try_from(logs).unwrap_or(i64::MAX));
    Ok(Shared {
        inventory,
        memory: Mutex::new(Memory::new(Bounds {
            hosts: options.max_hosts,
            certificates: options.max_certificates,
            bytes: options.max_bytes,
        })),
        list: ArcSwap::from_pointee(listed),
        list_trouble: ArcSwap::default(),
        relisted: AtomicBool::new(false),
        metrics,
        roots: options.roots.clone(),
        submit_to: targets
            .iter()
            .map(|target| without_secrets(target.log.as_str()))
            .collect(),
        submit_keys: targets
            .iter()
            .filter_map(|target| target.key.clone())
            .collect(),
    })
}

fn now_listed(list: Option<LogList>, from: String) -> Listed {
    Listed {
        list,
        from: Some(from),
        read_ms: now_ms(),
    }
}

/// Starts the worker's thread. The thread ends when all senders are dropped.
fn spawn(worker: Worker, messages: Receiver<Message>) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("observe".to_owned());
    thread.spawn(move || worker.run(&messages)).map(|_| ())
}

/// Reads the log list periodically. If reading fails, the last list stays in use.
async fn refresh(
    mut source: Source,
    shared: Arc<Shared>,
    messages: SyncSender<Message>,
    every: Duration,
) {
    let unread = || shared.list.load().list.is_none();
    let mut pause = if unread() { Duration::ZERO } else { every };
    loop {
        tokio::time::sleep(pause).await;
        let read = source.read().await;
        // Only the first list is urgent: log lists change a few times per month.
        pause = match (&read, unread()) {
            (Err(_), true) => every.min(READ_AGAIN),
            _ => every,
        };
        match read {
            Ok(None) => shared.list_trouble.store(Arc::default()),
            Ok(list) => {
                let logs = list.as_ref().map_or(0, LogList::len);
                shared
                    .metrics
                    .logs
                    .set(i64::try_from(logs).unwrap_or(i64::MAX));
                let from = shared.list.load().from.clone().unwrap_or_default();
                shared.list.store(Arc::new(now_listed(list, from)));
                shared.list_trouble.store(Arc::default());
                // If the queue is full, its messages wake the worker instead.
                shared.relisted.store(true, Ordering::Release);
                let _ = messages.try_send(Message::Listed);
            }
            Err(why) => {
                shared.metrics.list_failures.inc();
                tracing::warn!("reading the log list again failed: {why}");
                shared.list_trouble.store(Arc::new(why.to_string()));
            }
        }
    }
}

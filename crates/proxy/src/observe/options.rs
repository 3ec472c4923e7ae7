//! Options of an observer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::Roots;
use url::Url;

use super::audit::Pace;

/// Source of the log list (version 3 JSON, the format of Chrome and Apple).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogListSource {
    /// A file, which is read again after a change.
    File(PathBuf),
    /// An `http` or `https` URL, which is fetched periodically.
    Url(Url),
}

/// A log that receives chains.
#[derive(Debug, Clone)]
pub struct SubmitTo {
    /// Submission prefix, without `ct/v1/add-chain`.
    pub log: Url,
    /// SubjectPublicKeyInfo of the log in DER, if the log list does not have it.
    pub key: Option<Vec<u8>>,
}

/// Options of the inventory, which survives restarts. Start from [`InventoryOptions::new`].
#[derive(Debug, Clone)]
pub struct InventoryOptions {
    /// SQLite database, created if it does not exist.
    pub database: PathBuf,
    /// URL that receives each event as JSON.
    pub webhook: Option<Url>,
    /// Time before its expiry at which a certificate is reported.
    pub expiry: Duration,
    /// Limit of certificates; the least recently seen is dropped.
    pub max_certificates: u32,
    pub(crate) pace: Pace,
    /// Pause of the webhook after the first failure.
    pub(crate) webhook_pause: Duration,
}

impl InventoryOptions {
    /// Returns the options of an inventory without a webhook.
    pub fn new(database: PathBuf) -> Self {
        InventoryOptions {
            database,
            webhook: None,
            expiry: Duration::from_secs(14 * 86_400),
            max_certificates: 100_000,
            pace: Pace::default(),
            webhook_pause: Duration::from_secs(10),
        }
    }
}

/// Options of an observer. Start from [`ObserveOptions::new`].
#[derive(Debug, Clone)]
pub struct ObserveOptions {
    /// Source of the log list. Without a list, SCTs are shown but not verified.
    pub log_list: Option<LogListSource>,
    /// Interval at which the log list is read again.
    pub refresh: Duration,
    /// Logs that receive the chains that no log has yet. Each chain goes to the first log whose
    /// temporal interval contains the notAfter of the leaf.
    pub submit_to: Vec<SubmitTo>,
    /// TLS settings of the observer's own requests (log list, `submit_to`).
    pub tls: Arc<rustls::ClientConfig>,
    /// Trusted roots. The issuer of a leaf without intermediates is looked up here.
    pub roots: Arc<Roots>,
    /// Inventory in a database; none by default.
    pub inventory: Option<InventoryOptions>,
    /// Limit of remembered hosts; the least recently seen is dropped.
    pub max_hosts: usize,
    /// Limit of remembered certificates; the least recently seen is dropped.
    pub max_certificates: usize,
    /// Limit of the bytes of remembered certificates.
    pub max_bytes: usize,
}

impl ObserveOptions {
    /// Returns options without a log list and without submissions.
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Self {
        ObserveOptions {
            log_list: None,
            refresh: Duration::from_secs(3600),
            submit_to: Vec::new(),
            tls,
            roots: Arc::default(),
            inventory: None,
            max_hosts: 4096,
            max_certificates: 4096,
            max_bytes: 32 << 20,
        }
    }
}

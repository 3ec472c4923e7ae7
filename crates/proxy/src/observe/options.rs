//! The options of an observer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::Roots;
use url::Url;

/// The source of the log list (version 3 JSON, as Chrome and Apple publish it).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogListSource {
    /// A file, read again when it has changed.
    File(PathBuf),
    /// `http` or `https`, fetched again now and then.
    Url(Url),
}

/// A log that gets chains.
#[derive(Debug, Clone)]
pub struct SubmitTo {
    /// Its submission prefix, to which `ct/v1/add-chain` is appended.
    pub log: Url,
    /// Its SubjectPublicKeyInfo (DER), where the log list does not have it.
    pub key: Option<Vec<u8>>,
}

/// The options of an observer. Start from [`ObserveOptions::new`].
#[derive(Debug, Clone)]
pub struct ObserveOptions {
    /// The logs whose SCTs count. Without a list SCTs are shown, but none can be verified.
    pub log_list: Option<LogListSource>,
    /// The interval at which the log list is looked at again.
    pub refresh: Duration,
    /// The logs that get the chains that are in no log yet: each chain goes to the first whose
    /// temporal interval it fits into.
    pub submit_to: Vec<SubmitTo>,
    /// Holds what the observer's own requests trust (log list, `submit_to`).
    pub tls: Arc<rustls::ClientConfig>,
    /// Trusted roots: where a server sends a leaf alone, its issuer is looked for here.
    pub roots: Arc<Roots>,
    /// Most hosts that are remembered; the one not seen for longest is dropped.
    pub most_hosts: usize,
    /// Most certificates that are remembered; the one not seen for longest is dropped.
    pub most_certificates: usize,
    /// Most bytes of certificates that are remembered, however few they are.
    pub most_bytes: usize,
}

impl ObserveOptions {
    /// Observes without a log list and submits nothing.
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Self {
        ObserveOptions {
            log_list: None,
            refresh: Duration::from_secs(3600),
            submit_to: Vec::new(),
            tls,
            roots: Arc::default(),
            most_hosts: 4096,
            most_certificates: 4096,
            most_bytes: 32 << 20,
        }
    }
}

//! Configuration of a proxy, merged from file and flags.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lucarne_ct::{Fingerprint, FingerprintError};
use lucarne_mint::KeyType;
use lucarne_mint::store::{LeafKey, MintOptions, StoreOptions};
use lucarne_proxy::{
    Action, HostPattern, Limits, PatternError, Rules, UpstreamProxy, UpstreamProxyError,
};
use url::Url;

use crate::config::{Listen, Secret};

/// All settings of the proxy, from the file and from flags.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) listen: Vec<Listen>,
    pub(super) admin: Option<Listen>,
    pub(super) ca: PathBuf,
    pub(super) key_type: KeyType,
    pub(super) leaf_keys: Option<LeafKeys>,
    pub(super) lifetime: Duration,
    /// Minted certificates resemble those of the servers.
    pub(super) resemble: bool,
    pub(super) store: Option<StoreKind>,
    pub(super) store_directory: Option<PathBuf>,
    /// Memory limit of the store in bytes.
    pub(super) store_memory: u64,
    pub(super) rules: Rules,
    pub(super) users: UserSources,
    pub(super) system_roots: bool,
    pub(super) upstream_ca: Vec<PathBuf>,
    pub(super) insecure: bool,
    pub(super) insecure_hosts: Vec<HostPattern>,
    pub(super) fingerprints: Vec<(HostPattern, Fingerprint)>,
    pub(super) through: Vec<Through>,
    /// Client certificates that the proxy presents to servers.
    pub(super) shown: Vec<Pair>,
    /// Certificates that the proxy serves to clients instead of minted certificates.
    pub(super) own: Vec<Pair>,
    pub(super) limits: Limits,
    pub(super) access_log: Option<PathBuf>,
    pub(super) access_log_format: AccessLogFormat,
    /// File of the recording as HAR.
    pub(super) har: Option<PathBuf>,
    /// Hosts of this recording; empty for all.
    pub(super) har_hosts: Vec<HostPattern>,
    pub(super) har_bodies: bool,
    /// Keeps credentials in records of requests.
    pub(super) secrets: bool,
    pub(super) log_list: Option<String>,
    pub(super) submit_to: Vec<Url>,
    /// Keys of the logs in `submit_to`, in the same order.
    pub(super) submit_keys: Vec<PathBuf>,
    /// Database of the inventory.
    pub(super) database: Option<PathBuf>,
    pub(super) webhook: Option<Url>,
    pub(super) expiry_days: u64,
}

/// Sources of users. Without a source, every client may use the proxy.
#[derive(Clone, Debug, Default)]
pub(super) struct UserSources {
    pub(super) file: Option<PathBuf>,
    /// Lines in the format of the file.
    pub(super) given: Vec<String>,
}

/// Upstream proxy for some hosts.
#[derive(Clone, Debug)]
pub(super) struct Through {
    pub(super) hosts: HostPattern,
    /// `None` for a direct connection.
    pub(super) proxy: Option<UpstreamProxy>,
    pub(super) password: Option<Secret>,
}

impl Through {
    /// Parses the value of a flag: `[HOST=]URL`.
    ///
    /// # Errors
    /// If the hosts or the URL are invalid, or the URL has a user without a password.
    pub(super) fn parse(text: &str) -> Result<Self, ThroughError> {
        let (hosts, url) = for_hosts(text)?;
        let proxy = proxy(url)?;
        if proxy.as_ref().is_some_and(UpstreamProxy::lacks_password) {
            return Err(ThroughError::NoPassword);
        }
        Ok(Through {
            hosts,
            proxy,
            password: None,
        })
    }
}

/// Reasons why an upstream proxy is refused. The value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ThroughError {
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error(transparent)]
    Proxy(#[from] UpstreamProxyError),
    #[error(
        "names a user without a password; configure the password in a file (upstream.proxy, \
         `password`)"
    )]
    NoPassword,
}

/// Error: the text is not the URL of a webhook. The value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not an http or https URL")]
pub(super) struct NotAWebhook;

/// Parses the URL of a webhook.
pub(super) fn webhook(text: &str) -> Result<Url, NotAWebhook> {
    let url = text.parse::<Url>().map_err(|_| NotAWebhook)?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    is_http.then_some(url).ok_or(NotAWebhook)
}

/// Parses the URL of a proxy, or `direct`.
pub(super) fn proxy(url: &str) -> Result<Option<UpstreamProxy>, UpstreamProxyError> {
    match url {
        "direct" => Ok(None),
        url => url.parse().map(Some),
    }
}

/// Certificate and key for some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub(super) hosts: HostPattern,
    pub(super) certificate: PathBuf,
    /// File of the key; the certificate's file if it contains both.
    pub(super) key: PathBuf,
}

impl Pair {
    /// Parses the value of a flag: `[HOST=]CERTIFICATE[,KEY]`.
    ///
    /// # Errors
    /// If the hosts are invalid, or a file name is empty.
    pub(super) fn parse(text: &str) -> Result<Self, PairError> {
        let (hosts, files) = for_hosts(text)?;
        let (certificate, key) = files.split_once(',').unwrap_or((files, files));
        if certificate.is_empty() || key.is_empty() {
            return Err(PairError::NoFile);
        }
        Ok(Pair {
            hosts,
            certificate: certificate.into(),
            key: key.into(),
        })
    }
}

/// Reasons why a certificate and its key are refused. The value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PairError {
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error("is not [HOST=]CERTIFICATE[,KEY]")]
    NoFile,
}

/// Error: the text before `=` is not a host pattern. The whole value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("has an invalid host pattern: it {0}")]
pub(super) struct HostsError(#[from] PatternError);

/// Splits a value at `=` into the hosts and the rest. A value without `=` is for all hosts.
fn for_hosts(text: &str) -> Result<(HostPattern, &str), HostsError> {
    match text.split_once('=') {
        // The `=` belongs to a password or a file name.
        Some((before, _)) if before.contains('/') => Ok((HostPattern::all(), text)),
        Some((hosts, rest)) => Ok((hosts.parse::<HostPattern>()?, rest)),
        None => Ok((HostPattern::all(), text)),
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: Vec::new(),
            admin: None,
            ca: PathBuf::from("lucarne-ca"),
            key_type: KeyType::EcdsaP256,
            leaf_keys: None,
            lifetime: MintOptions::default().lifetime,
            resemble: false,
            store: None,
            store_directory: None,
            store_memory: StoreOptions::default().max_bytes,
            rules: Rules::default(),
            users: UserSources::default(),
            system_roots: true,
            upstream_ca: Vec::new(),
            insecure: false,
            insecure_hosts: Vec::new(),
            fingerprints: Vec::new(),
            through: Vec::new(),
            shown: Vec::new(),
            own: Vec::new(),
            limits: Limits::default(),
            access_log: None,
            access_log_format: AccessLogFormat::Combined,
            har: None,
            har_hosts: Vec::new(),
            har_bodies: false,
            secrets: false,
            log_list: None,
            submit_to: Vec::new(),
            submit_keys: Vec::new(),
            database: None,
            webhook: None,
            expiry_days: 14,
        }
    }
}

impl Config {
    /// Returns the configured kind of store. The default depends on `store_directory`.
    pub(super) fn store_kind(&self) -> StoreKind {
        let suggested = match self.store_directory {
            Some(_) => StoreKind::Layered,
            None => StoreKind::Memory,
        };
        self.store.unwrap_or(suggested)
    }
}

/// Assigns a value, if it is given.
pub(super) fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// Formats of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AccessLogFormat {
    /// The combined format of Apache and nginx
    Combined,
    /// JSON, one object per line
    Json,
}

/// Kinds of certificate stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Memory of the process.
    Memory,
    /// Files, which several processes may share.
    Disk,
    /// Memory, with files as the second level.
    Layered,
    /// No store: each connection gets a new certificate.
    None,
}

/// Error: the text is not a [`StoreKind`]. The value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be memory, disk, layered or none")]
pub struct UnknownStoreKind;

impl FromStr for StoreKind {
    type Err = UnknownStoreKind;

    fn from_str(text: &str) -> Result<Self, UnknownStoreKind> {
        match text {
            "memory" => Ok(StoreKind::Memory),
            "disk" => Ok(StoreKind::Disk),
            "layered" => Ok(StoreKind::Layered),
            "none" => Ok(StoreKind::None),
            _ => Err(UnknownStoreKind),
        }
    }
}

/// Keys of minted certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafKeys {
    /// A separate key for each certificate.
    PerCertificate,
    /// Common key of all certificates.
    Shared,
}

impl LeafKeys {
    /// Returns the best choice for keys of this type. Generating an RSA key takes tenths of a
    /// second of processor time, and a page has dozens of hosts. A shared key is as safe as
    /// separate keys, because read access to it implies read access to the CA's key beside it.
    pub(super) fn best_for(kind: KeyType) -> Self {
        match kind {
            KeyType::Rsa(_) => LeafKeys::Shared,
            _ => LeafKeys::PerCertificate,
        }
    }
}

/// Error: the text is not one of the [`LeafKeys`]. The value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("is neither per-certificate nor shared")]
pub struct UnknownLeafKeys;

impl FromStr for LeafKeys {
    type Err = UnknownLeafKeys;

    fn from_str(text: &str) -> Result<Self, UnknownLeafKeys> {
        match text {
            "per-certificate" => Ok(LeafKeys::PerCertificate),
            "shared" => Ok(LeafKeys::Shared),
            _ => Err(UnknownLeafKeys),
        }
    }
}

impl From<LeafKeys> for LeafKey {
    fn from(keys: LeafKeys) -> Self {
        match keys {
            LeafKeys::PerCertificate => LeafKey::PerCertificate,
            LeafKeys::Shared => LeafKey::Shared,
        }
    }
}

/// Error: the text is not an [`Action`]. The value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("is neither intercept nor tunnel")]
pub(super) struct UnknownAction;

pub(super) fn action(text: &str) -> Result<Action, UnknownAction> {
    match text {
        "intercept" => Ok(Action::Intercept),
        "tunnel" => Ok(Action::Tunnel),
        _ => Err(UnknownAction),
    }
}

/// Reasons why a host pattern is refused for certificates. The value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CertifiedError {
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error("has a port; a certificate is accepted at every port of a host")]
    Port,
}

/// Parses hosts whose certificates are accepted. A certificate has no port.
pub(super) fn certified(text: &str) -> Result<HostPattern, CertifiedError> {
    let hosts: HostPattern = text.parse()?;
    match hosts.port() {
        None => Ok(hosts),
        Some(_) => Err(CertifiedError::Port),
    }
}

/// Reasons why a fingerprint for hosts is refused. The value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PinError {
    #[error("is not HOST=SHA256: write the host before its fingerprint")]
    NoHost,
    #[error("is {0}")]
    Fingerprint(#[from] FingerprintError),
    #[error(transparent)]
    Hosts(#[from] CertifiedError),
}

/// Parses hosts and the fingerprint of their certificate: `bmc.example=AB:CD:…`.
pub(super) fn fingerprint(text: &str) -> Result<(HostPattern, Fingerprint), PinError> {
    let (hosts, fingerprint) = text.split_once('=').ok_or(PinError::NoHost)?;
    let fingerprint = fingerprint.parse::<Fingerprint>()?;
    Ok((certified(hosts)?, fingerprint))
}

/// Error: the text does not assign an address to hosts. The value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not HOST=ADDRESS, such as *.test=127.0.0.1")]
pub(super) struct NotAPlace;

/// Parses hosts and their address: `*.test=127.0.0.1`.
pub(super) fn place(text: &str) -> Result<(HostPattern, IpAddr), NotAPlace> {
    let (hosts, address) = text.split_once('=').ok_or(NotAPlace)?;
    let hosts = hosts.parse().map_err(|_| NotAPlace)?;
    let address = address.parse().map_err(|_| NotAPlace)?;
    Ok((hosts, address))
}

//! The configuration of a proxy: what file and flags come to.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lucarne_ct::Fingerprint;
use lucarne_mint::KeyType;
use lucarne_mint::store::{LeafKey, MintOptions, StoreOptions};
use lucarne_proxy::{
    Action, HostPattern, Limits, PatternError, Rules, UpstreamProxy, UpstreamProxyError,
};
use url::Url;

use crate::config::{Listen, Secret};

/// Everything that can be said.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) listen: Vec<Listen>,
    pub(super) admin: Option<Listen>,
    pub(super) ca: PathBuf,
    pub(super) key_type: KeyType,
    pub(super) leaf_keys: Option<LeafKeys>,
    pub(super) lifetime: Duration,
    pub(super) store: Option<StoreKind>,
    pub(super) store_directory: Option<PathBuf>,
    /// In bytes.
    pub(super) store_memory: u64,
    pub(super) rules: Rules,
    pub(super) users: UserSources,
    pub(super) system_roots: bool,
    pub(super) upstream_ca: Vec<PathBuf>,
    pub(super) insecure: bool,
    pub(super) insecure_hosts: Vec<HostPattern>,
    pub(super) fingerprints: Vec<(HostPattern, Fingerprint)>,
    pub(super) through: Vec<Through>,
    /// Certificates that servers are shown.
    pub(super) shown: Vec<Pair>,
    /// Certificates that clients are served instead of minted ones.
    pub(super) own: Vec<Pair>,
    pub(super) limits: Limits,
    pub(super) log_list: Option<String>,
    pub(super) submit_to: Vec<Url>,
    /// Of the same logs, in the same order.
    pub(super) submit_keys: Vec<PathBuf>,
}

/// The sources of users; without any, everybody may use the proxy.
#[derive(Clone, Debug, Default)]
pub(super) struct UserSources {
    pub(super) file: Option<PathBuf>,
    /// Lines as of a file.
    pub(super) given: Vec<String>,
}

/// An upstream proxy for some hosts.
#[derive(Clone, Debug)]
pub(super) struct Through {
    pub(super) hosts: HostPattern,
    /// `None`: directly.
    pub(super) proxy: Option<UpstreamProxy>,
    pub(super) password: Option<Secret>,
}

impl Through {
    /// Parses what the command line has: `[HOST=]URL`.
    ///
    /// # Errors
    /// In words that follow the value.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (hosts, url) = for_hosts(text)?;
        let proxy = proxy(url)?;
        if proxy.as_ref().is_some_and(UpstreamProxy::lacks_password) {
            return Err(
                "names a user without a password; a configuration file can have it from \
                        elsewhere (upstream.proxy, `password`)"
                    .to_owned(),
            );
        }
        Ok(Through {
            hosts,
            proxy,
            password: None,
        })
    }
}

/// A proxy's URL, or `direct`.
pub(super) fn proxy(url: &str) -> Result<Option<UpstreamProxy>, String> {
    match url {
        "direct" => Ok(None),
        url => url
            .parse()
            .map(Some)
            .map_err(|error: UpstreamProxyError| error.to_string()),
    }
}

/// A certificate and its key, for some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub(super) hosts: HostPattern,
    pub(super) certificate: PathBuf,
    /// The certificate's file, if both are in one.
    pub(super) key: PathBuf,
}

impl Pair {
    /// Parses what the command line has: `[HOST=]CERTIFICATE[,KEY]`.
    ///
    /// # Errors
    /// In words that follow the value.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (hosts, files) = for_hosts(text)?;
        let (certificate, key) = files.split_once(',').unwrap_or((files, files));
        if certificate.is_empty() || key.is_empty() {
            return Err("is not [HOST=]CERTIFICATE[,KEY]".to_owned());
        }
        Ok(Pair {
            hosts,
            certificate: certificate.into(),
            key: key.into(),
        })
    }
}

/// Splits text into the hosts before `=` and what comes after; without hosts it is for all.
fn for_hosts(text: &str) -> Result<(HostPattern, &str), String> {
    match text.split_once('=') {
        // A `=` in a password or in a file's name.
        Some((before, _)) if before.contains('/') => Ok((HostPattern::all(), text)),
        Some((hosts, rest)) => {
            let hosts = hosts.parse::<HostPattern>();
            Ok((
                hosts.map_err(|why| format!("is not for any host: it {why}"))?,
                rest,
            ))
        }
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
            log_list: None,
            submit_to: Vec::new(),
            submit_keys: Vec::new(),
        }
    }
}

impl Config {
    /// The kind of store: as said, or as a directory suggests.
    pub(super) fn store_kind(&self) -> StoreKind {
        let suggested = match self.store_directory {
            Some(_) => StoreKind::Layered,
            None => StoreKind::Memory,
        };
        self.store.unwrap_or(suggested)
    }
}

/// Puts a value that is given into its place.
pub(super) fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// The places where certificates are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In memory.
    Memory,
    /// In files, which processes may share.
    Disk,
    /// In memory, and in files below.
    Layered,
    /// Nowhere: each connection has one made.
    None,
}

impl FromStr for StoreKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "memory" => Ok(StoreKind::Memory),
            "disk" => Ok(StoreKind::Disk),
            "layered" => Ok(StoreKind::Layered),
            "none" => Ok(StoreKind::None),
            _ => Err("is none of memory, disk, layered and none".to_owned()),
        }
    }
}

/// The key in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafKeys {
    /// Each has its own.
    PerCertificate,
    /// All share one.
    Shared,
}

impl LeafKeys {
    /// Returns the best choice for keys of this kind. Making an RSA key keeps a processor busy for
    /// tens of milliseconds, and a page has dozens of hosts; whoever has the proxy's shared key has
    /// the CA's key beside it, and can be every host anyway.
    pub(super) fn best_for(kind: KeyType) -> Self {
        match kind {
            KeyType::Rsa(_) => LeafKeys::Shared,
            _ => LeafKeys::PerCertificate,
        }
    }
}

impl FromStr for LeafKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "per-certificate" => Ok(LeafKeys::PerCertificate),
            "shared" => Ok(LeafKeys::Shared),
            _ => Err("is neither per-certificate nor shared".to_owned()),
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

/// An action as it is written.
pub(super) fn action(text: &str) -> Result<Action, String> {
    match text {
        "intercept" => Ok(Action::Intercept),
        "tunnel" => Ok(Action::Tunnel),
        _ => Err("is neither intercept nor tunnel".to_owned()),
    }
}

/// Reads hosts whose certificates are accepted: a certificate has no port.
pub(super) fn certified(text: &str) -> Result<HostPattern, String> {
    let hosts: HostPattern = text.parse().map_err(|why: PatternError| why.to_string())?;
    match hosts.port() {
        None => Ok(hosts),
        Some(_) => Err("has a port; a certificate is accepted at every port of a host".to_owned()),
    }
}

/// Reads the fingerprint of the certificates of hosts: `bmc.example=AB:CD:…`.
pub(super) fn fingerprint(text: &str) -> Result<(HostPattern, Fingerprint), String> {
    let (hosts, fingerprint) = text
        .split_once('=')
        .ok_or("is not HOST=SHA256: write the host before its fingerprint")?;
    let fingerprint = fingerprint
        .parse::<Fingerprint>()
        .map_err(|why| format!("is {why}"))?;
    Ok((certified(hosts)?, fingerprint))
}

/// Reads the address of hosts, as it is written: `*.test=127.0.0.1`.
pub(super) fn place(text: &str) -> Result<(HostPattern, IpAddr), String> {
    let wrong = "is not HOST=ADDRESS, such as *.test=127.0.0.1";
    let (hosts, address) = text.split_once('=').ok_or(wrong)?;
    let hosts = hosts.parse().map_err(|_| wrong)?;
    let address = address.parse().map_err(|_| wrong)?;
    Ok((hosts, address))
}

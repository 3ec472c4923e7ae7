//! What a proxy shall be: what file and flags come to.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lucarne_mint::KeyType;
use lucarne_mint::store::{LeafKey, MintOptions, StoreOptions};
use lucarne_proxy::{Action, HostPattern, Limits, Rules};
use url::Url;

use crate::config::Listen;

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
    pub(super) limits: Limits,
    pub(super) log_list: Option<String>,
    pub(super) submit_to: Option<Url>,
    pub(super) submit_key: Option<PathBuf>,
}

/// Where users come from; nowhere: everybody may use the proxy.
#[derive(Clone, Debug, Default)]
pub(super) struct UserSources {
    pub(super) file: Option<PathBuf>,
    /// Lines as of a file.
    pub(super) given: Vec<String>,
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
            limits: Limits::default(),
            log_list: None,
            submit_to: None,
            submit_key: None,
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

/// Where certificates are kept.
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

/// Whose key is in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafKeys {
    /// Each has its own.
    PerCertificate,
    /// All share one.
    Shared,
}

impl LeafKeys {
    /// What is best for keys of this kind. Making an RSA key keeps a processor busy for tens
    /// of milliseconds, and a page has dozens of hosts; whoever has the proxy's shared key has
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

/// Where a host is, as it is written: `*.test=127.0.0.1`.
pub(super) fn place(text: &str) -> Result<(HostPattern, IpAddr), String> {
    let wrong = "is not HOST=ADDRESS, such as *.test=127.0.0.1";
    let (hosts, address) = text.split_once('=').ok_or(wrong)?;
    let hosts = hosts.parse().map_err(|_| wrong)?;
    let address = address.parse().map_err(|_| wrong)?;
    Ok((hosts, address))
}

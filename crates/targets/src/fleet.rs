use std::path::PathBuf;

use anyhow::Result;

use crate::{Authority, F5, Inventory, Kind, Pebble, WebServer};

/// All targets together.
#[derive(Debug)]
pub struct Fleet {
    /// The certificate inventory.
    pub inventory: Inventory,
    /// The target nginx.
    pub nginx: WebServer,
    /// The target Apache httpd.
    pub apache: WebServer,
    /// The target HAProxy.
    pub haproxy: WebServer,
    /// The stand-in for a BIG-IP.
    pub f5: F5,
    /// The ACME server.
    pub pebble: Pebble,
    /// Authority that issues the certificates of the targets.
    pub authority: Authority,
}

/// Ports of the targets; 0 for any free port.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Ports {
    pub inventory: u16,
    pub nginx: u16,
    pub apache: u16,
    pub haproxy: u16,
    pub f5: u16,
    pub pebble: u16,
    /// Ports at which Pebble validates http-01 and tls-alpn-01; `None` for free ports.
    pub challenges: Option<[u16; 2]>,
}

impl Ports {
    /// Ports that plans and programs expect: 8443 for the inventory, and Pebble's defaults.
    pub const USUAL: Self = Self {
        inventory: 8443,
        nginx: 9443,
        apache: 9444,
        haproxy: 9445,
        f5: 9446,
        pebble: 14000,
        challenges: Some([5002, 5001]),
    };
}

impl Fleet {
    /// Starts all targets.
    ///
    /// # Errors
    /// The first target that does not start, with the remedy.
    pub fn start(ports: Ports) -> Result<Self> {
        let authority = Authority::new()?;
        let web = |kind, port| WebServer::start(kind, &authority, port);
        // Pebble refuses one valid nonce in twenty, its default.
        let pebble = match ports.challenges {
            Some(challenges) => Pebble::start_for(&authority, ports.pebble, 5, challenges)?,
            None => Pebble::start(&authority, ports.pebble, 5)?,
        };
        Ok(Self {
            nginx: web(Kind::Nginx, ports.nginx)?,
            apache: web(Kind::Apache, ports.apache)?,
            haproxy: web(Kind::HaProxy, ports.haproxy)?,
            f5: F5::start(&authority, ports.f5)?,
            inventory: Inventory::start(&authority, ports.inventory)?,
            pebble,
            authority,
        })
    }

    /// Returns the environment variables that plans read.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("CERTCTL_BASE", self.inventory.url.clone()),
            ("CERTCTL_TOKEN", Inventory::TOKEN.to_owned()),
            ("NGINX_TARGET_URL", self.nginx.url.clone()),
            ("APACHE_TARGET_URL", self.apache.url.clone()),
            ("HAPROXY_TARGET_URL", self.haproxy.url.clone()),
            ("F5_TARGET_URL", self.f5.url.clone()),
            ("CERTCTL_ACME_DIRECTORY", self.pebble.directory.clone()),
            ("CERTCTL_CA", self.ca_file().display().to_string()),
        ]
    }

    /// Returns the file of certificates to trust, in PEM.
    pub fn ca_file(&self) -> PathBuf {
        self.authority.ca_file()
    }
}

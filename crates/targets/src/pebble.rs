use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use lucarne_testkit::{Launch, Server, TempDir, free_port, go_program, temp_dir};
use serde_json::json;

use crate::{Authority, Names};

/// The version that `scripts/install-test-tools` builds.
const VERSION: &str = "v2.10.1";
/// The time that it may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// Let's Encrypt's ACME server for tests of clients. It validates for real,
/// without the pauses that it makes by default, and finds every name at
/// 127.0.0.1.
#[derive(Debug)]
pub struct Pebble {
    /// `https://127.0.0.1:port/dir`.
    pub directory: String,
    /// The address at which it listens.
    pub address: SocketAddr,
    /// The address at which it looks for http-01.
    pub http01: SocketAddr,
    /// The address at which it looks for tls-alpn-01.
    pub tls_alpn01: SocketAddr,
    /// The process.
    pub server: Server,
    _names: Names,
    _files: TempDir,
}

impl Pebble {
    /// At `port` (0: any that is free), refusing `nonces` of a hundred good
    /// nonces; challenges are looked for at ports of its own.
    ///
    /// # Errors
    /// It is not installed, or does not start: the message says what to do.
    pub fn start(authority: &Authority, port: u16, nonces: u32) -> Result<Self> {
        Self::start_for(authority, port, nonces, [free_port(), free_port()])
    }

    /// The same, looking for http-01 and tls-alpn-01 at these ports.
    ///
    /// # Errors
    /// It is not installed, or does not start: the message says what to do.
    pub fn start_for(
        authority: &Authority,
        port: u16,
        nonces: u32,
        challenges: [u16; 2],
    ) -> Result<Self> {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let address = loopback(if port == 0 { free_port() } else { port });
        let identity = authority.identity(&format!("pebble-{}", address.port()))?;
        let names = Names::start()?;
        let files = temp_dir();
        let config = files.path().join("pebble.json");
        let [http01, tls_alpn01] = challenges;
        let settings = json!({ "pebble": {
            "listenAddress": address.to_string(),
            // Without one it has no management interface.
            "managementListenAddress": "",
            "certificate": identity.chain,
            "privateKey": identity.key,
            "httpPort": http01,
            "tlsPort": tls_alpn01,
            "keyAlgorithm": "ecdsa",
        }});
        fs::write(&config, settings.to_string())?;
        let server = Launch::new(go_program("pebble", VERSION)?)
            .arg("-config")
            .arg(&config)
            .args(["-dnsserver", &names.address().to_string()])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", nonces.to_string())
            .patience(PATIENCE)
            .start(address)?;
        Ok(Self {
            directory: format!("https://{address}/dir"),
            address,
            http01: loopback(http01),
            tls_alpn01: loopback(tls_alpn01),
            server,
            _names: names,
            _files: files,
        })
    }
}

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use lucarne_testkit::{Launch, Server, TempDir, free_port, go_program, temp_dir};
use serde_json::json;

use crate::{Authority, Names};

/// Version that `scripts/install-test-tools` builds.
const VERSION: &str = "v2.10.1";
/// Time limit of the start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Let's Encrypt's ACME server for tests of clients. Pebble performs real validations without its
/// default pauses, and resolves every name to 127.0.0.1.
#[derive(Debug)]
pub struct Pebble {
    /// URL of the ACME directory: `https://127.0.0.1:port/dir`.
    pub directory: String,
    /// Listen address.
    pub address: SocketAddr,
    /// Address at which Pebble validates http-01.
    pub http01: SocketAddr,
    /// Address at which Pebble validates tls-alpn-01.
    pub tls_alpn01: SocketAddr,
    /// Process of the server.
    pub server: Server,
    _names: Names,
    _files: TempDir,
}

impl Pebble {
    /// Starts Pebble at `port` (0 for any free port). Pebble refuses `nonces` of a hundred valid
    /// nonces, and validates challenges at free ports.
    ///
    /// # Errors
    /// If Pebble is not installed or does not start; the message has the remedy.
    pub fn start(authority: &Authority, port: u16, nonces: u32) -> Result<Self> {
        Self::start_for(authority, port, nonces, [free_port(), free_port()])
    }

    /// Starts Pebble, which validates http-01 and tls-alpn-01 at these ports.
    ///
    /// # Errors
    /// If Pebble is not installed or does not start; the message has the remedy.
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
            // An empty address disables the management interface.
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
            .patience(START_TIMEOUT)
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

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use anyhow::{Context, Result, ensure};
use aws_lc_rs::hmac;
use base64_simd::STANDARD as BASE64;
use bytes::Bytes;
use http::Method;
use jiff::{Timestamp, fmt::rfc2822};

use crate::{
    Client, Launch, Server, TempDir,
    stores::{AZURITE, START_TIMEOUT, Shared, loopback, tool},
    temp_dir,
};

/// Azurite on loopback, in memory, with its public default account.
#[derive(Debug)]
pub struct AzureServer {
    /// URL of the account: `http://127.0.0.1:port/<account>`.
    pub endpoint: String,
    /// The storage account.
    pub account: &'static str,
    /// Key of the account.
    pub key: &'static str,
    base: String,
    next: AtomicU64,
    _server: Server,
    _directory: TempDir,
}

/// The account of Azurite's documentation, which is not secret.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

impl AzureServer {
    /// Starts the server.
    ///
    /// # Errors
    /// If the server is not installed or does not start: the message has the remedy.
    pub fn start() -> Result<Self> {
        let directory = temp_dir();
        let address = loopback();
        let launch = Launch::new("node")
            .arg(tool(AZURITE)?)
            .args(["--blobHost", "127.0.0.1"])
            .args(["--blobPort", &address.port().to_string()])
            .args(["--silent", "--inMemoryPersistence", "--disableTelemetry"])
            .directory(directory.path());
        let base = format!("http://{address}");
        Ok(Self {
            endpoint: format!("{base}/{ACCOUNT}"),
            account: ACCOUNT,
            key: KEY,
            base,
            next: AtomicU64::new(1),
            _server: launch.patience(START_TIMEOUT).start(address)?,
            _directory: directory,
        })
    }

    /// Returns a server that the tests of a process share while any of them uses it.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn shared() -> Result<Arc<Self>> {
        static SHARED: Shared<AzureServer> = Shared::new();
        SHARED.get(Self::start)
    }

    /// Creates an empty container and returns its name.
    ///
    /// # Errors
    /// The error of the server.
    pub async fn new_container(&self) -> Result<String> {
        let name = format!("container-{}", self.next.fetch_add(1, Relaxed));
        let date = rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&Timestamp::now())
            .context("formatting the date")?;
        let headers = [("x-ms-date", &*date), ("x-ms-version", "2021-08-06")];
        let signature = signature("PUT", &headers, &name, "restype:container");
        let authorization = format!("SharedKey {ACCOUNT}:{signature}");
        let client = Client::new(self.base.clone());
        let path = format!("{ACCOUNT}/{name}?restype=container");
        let [date, version] = headers;
        let headers = [date, version, ("authorization", &authorization)];
        let answer = client.request(Method::PUT, &path, &headers, Bytes::new());
        let answer = answer.await?;
        ensure!(answer.status == 201, "{}: {}", answer.status, answer.text());
        Ok(name)
    }
}

/// Returns the signature of a request without a body ("Authorize with Shared Key" of Azure
/// Storage). The account occurs twice in the resource: once by itself, once in the path.
fn signature(method: &str, headers: &[(&str, &str)], path: &str, query: &str) -> String {
    let no_standard_headers = "\n".repeat(12);
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect();
    let resource = format!("/{ACCOUNT}/{ACCOUNT}/{path}\n{query}");
    let text = format!("{method}{no_standard_headers}{headers}{resource}");
    let key = BASE64.decode_to_vec(KEY).unwrap_or_default();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    BASE64.encode_to_string(hmac::sign(&key, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn containers_are_made() {
        let server = AzureServer::start().unwrap();
        let (one, two) = (server.new_container().await, server.new_container().await);
        assert_ne!(one.unwrap(), two.unwrap());
    }
}

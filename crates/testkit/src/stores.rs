use std::{
    env,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{Launch, Server, TempDir, free_port, temp_dir, wait::pause};

/// The versions that `scripts/install-test-tools` builds or installs.
const VERSITYGW: Tool = Tool::go("versitygw", "v1.8.0");
const MINIO: Tool = Tool::go("minio", "v0.0.0-20260212201848-7aac2a2c5b7c");
pub(crate) const FAKE_GCS: Tool = Tool::go("fake-gcs-server", "v1.56.1");
pub(crate) const AZURITE: Tool = Tool {
    name: "azurite",
    version: "3.35.0",
    program: "node_modules/azurite/dist/src/blob/main.js",
};
pub(crate) const MOTO: Tool = Tool {
    name: "moto",
    version: "5.2.5",
    program: "bin/python3",
};

/// Timeout for the start of a store, which is a large program on a busy machine.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A real object store on loopback or another address of this machine, with one user and no bucket.
/// The store and its data are removed with the value.
#[derive(Debug)]
pub struct ObjectStore {
    /// URL of the store, without a trailing slash.
    pub endpoint: String,
    /// The address at which the store listens.
    pub address: SocketAddr,
    /// The user's access key.
    pub access_key: &'static str,
    /// The user's secret key.
    pub secret_key: &'static str,
    /// Region of the store.
    pub region: &'static str,
    /// Domain of host names: besides `endpoint/bucket/`, the store accepts `bucket.` before this
    /// name.
    pub domain: &'static str,
    /// The process.
    pub server: Server,
    /// Directory of the stored data.
    pub directory: TempDir,
}

impl ObjectStore {
    /// Domain of host names: besides `endpoint/bucket/`, the store accepts `bucket.` before this
    /// name.
    pub const DOMAIN: &str = DOMAIN;

    /// Starts versitygw on a directory.
    ///
    /// # Errors
    /// If the store is not installed or does not start: the message has the remedy.
    pub fn versitygw() -> Result<Self> {
        Self::versitygw_at(Ipv4Addr::LOCALHOST)
    }

    /// Starts versitygw on another address of this machine.
    ///
    /// # Errors
    /// The errors of [`versitygw`](Self::versitygw).
    pub fn versitygw_at(address: Ipv4Addr) -> Result<Self> {
        let directory = temp_dir();
        let (data, attributes) = (
            directory.path().join("data"),
            directory.path().join("attributes"),
        );
        for folder in [&data, &attributes] {
            std::fs::create_dir(folder)?;
        }
        let address = SocketAddr::from((address, free_port()));
        let launch = Launch::new(tool(VERSITYGW)?)
            .args(["--port", &address.to_string(), "--keep-alive", "--quiet"])
            .args(["--virtual-domain", &format!("{DOMAIN}:{}", address.port())])
            .env("ROOT_ACCESS_KEY_ID", ACCESS_KEY)
            .env("ROOT_SECRET_ACCESS_KEY", SECRET_KEY)
            // Not every temporary directory supports extended attributes.
            .args(["posix", "--sidecar"])
            .arg(attributes)
            .arg(data);
        Self::start(launch, address, directory)
    }

    /// Starts MinIO on one directory.
    ///
    /// # Errors
    /// If the store is not installed or does not start: the message has the remedy.
    pub fn minio() -> Result<Self> {
        Self::minio_at(Ipv4Addr::LOCALHOST)
    }

    /// Starts MinIO on another address of this machine.
    ///
    /// # Errors
    /// The errors of [`minio`](Self::minio).
    pub fn minio_at(address: Ipv4Addr) -> Result<Self> {
        let directory = temp_dir();
        let address = SocketAddr::from((address, free_port()));
        let launch = minio(address, &directory)?;
        let store = Self::start(launch, address, directory)?;
        store.wait_until_ready("/minio/health/ready")?;
        Ok(store)
    }

    /// Starts MinIO with TLS, with this certificate and key (PEM), and this bucket. Does not wait
    /// until MinIO is ready, because the check would need a TLS client.
    ///
    /// # Errors
    /// If the store is not installed or does not start: the message has the remedy.
    pub fn minio_tls(certificate: &str, key: &str, bucket: &str) -> Result<Self> {
        let directory = temp_dir();
        let address = loopback();
        let certificates = directory.path().join("certificates");
        std::fs::create_dir(&certificates)?;
        std::fs::write(certificates.join("public.crt"), certificate)?;
        std::fs::write(certificates.join("private.key"), key)?;
        // MinIO treats a directory in its data as a bucket.
        std::fs::create_dir_all(directory.path().join("data").join(bucket))?;
        let launch = minio(address, &directory)?.arg("--certs-dir");
        let mut store = Self::start(launch.arg(certificates), address, directory)?;
        store.endpoint = format!("https://{DOMAIN}:{}", address.port());
        Ok(store)
    }

    fn start(launch: Launch, address: SocketAddr, directory: TempDir) -> Result<Self> {
        Ok(Self {
            endpoint: format!("http://{address}"),
            address,
            access_key: ACCESS_KEY,
            secret_key: SECRET_KEY,
            region: "us-east-1",
            domain: DOMAIN,
            server: launch.patience(START_TIMEOUT).start(address)?,
            directory,
        })
    }

    /// Waits until the store is ready: MinIO accepts connections before it accepts requests.
    fn wait_until_ready(&self, path: &str) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !self.is_ready(path).unwrap_or(false) {
            ensure!(
                Instant::now() < deadline,
                "{} is not ready after {START_TIMEOUT:?}:\n{}",
                self.endpoint,
                self.server.output()
            );
            // Polled, because a store does not report when it is ready.
            pause();
        }
        Ok(())
    }

    fn is_ready(&self, path: &str) -> Result<bool> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.address
        )?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(&answer[9..] == b"200")
    }
}

const ACCESS_KEY: &str = "lucarne-test";
const SECRET_KEY: &str = "lucarne-test-secret";
const DOMAIN: &str = "s3.example.test";

fn minio(address: SocketAddr, directory: &TempDir) -> Result<Launch> {
    Ok(Launch::new(tool(MINIO)?)
        .args(["server", "--quiet", "--address", &address.to_string()])
        .args(["--console-address", &loopback().to_string()])
        .arg(directory.path().join("data"))
        .env("MINIO_ROOT_USER", ACCESS_KEY)
        .env("MINIO_ROOT_PASSWORD", SECRET_KEY)
        .env("MINIO_DOMAIN", DOMAIN)
        .env("MINIO_BROWSER", "off")
        .env("MINIO_UPDATE", "off")
        // MinIO would write certificates and settings into the user's home directory.
        .env("HOME", directory.path()))
}

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// A program that `scripts/install-test-tools` has put into the cache.
#[derive(Clone, Copy)]
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
    /// Path within the folder of name and version.
    program: &'static str,
}

impl Tool {
    const fn go(name: &'static str, version: &'static str) -> Self {
        Self {
            name,
            version,
            program: name,
        }
    }
}

/// Finds a program built with Go that `scripts/install-test-tools` has installed.
///
/// # Errors
/// If the program is missing: the message has the remedy.
pub fn go_program(name: &'static str, version: &'static str) -> Result<PathBuf> {
    tool(Tool::go(name, version))
}

/// Finds the program of a tool.
pub(crate) fn tool(tool: Tool) -> Result<PathBuf> {
    let Tool {
        name,
        version,
        program,
    } = tool;
    let path = tools()?.join(format!("{name}-{version}")).join(program);
    if !path.is_file() {
        bail!(
            "{name} {version} is not installed: {} is missing: run scripts/install-test-tools \
             (or `cargo xtask test`)",
            path.display()
        );
    }
    Ok(path)
}

/// A server that exists while any test holds it. A `static` server would never be dropped and would
/// outlive the tests.
pub(crate) struct Shared<S>(Mutex<Weak<S>>);

impl<S> Shared<S> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    pub(crate) fn get(&self, start: impl FnOnce() -> Result<S>) -> Result<Arc<S>> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Ok(server);
        }
        let server = Arc::new(start()?);
        *shared = Arc::downgrade(&server);
        Ok(server)
    }
}

fn tools() -> Result<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(tools) = named("LUCARNE_TOOLS") {
        return Ok(tools.into());
    }
    let cache = match named("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(named("HOME").context("neither LUCARNE_TOOLS nor HOME is set")?)
            .join(".cache"),
    };
    Ok(cache.join("lucarne/tools"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let error = tool(Tool::go("no-such-store", "v9"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("no-such-store-v9/no-such-store"), "{error}");
        assert!(error.contains("install-test-tools"), "{error}");
    }

    #[test]
    fn both_stores_start_and_stop() {
        for store in [ObjectStore::versitygw(), ObjectStore::minio()] {
            let mut store = store.unwrap();
            assert_eq!(store.server.try_wait().unwrap(), None);
            assert!(store.is_ready("/").is_ok());
        }
    }
}
